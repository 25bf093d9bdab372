"""Why a request takes the slow path, and the count of requests by path.

A producer that adds one unknown key can move all its requests to the slow path, at several times the cost and with the
same answers. The metric `mirrorgate_ingest_path_total` and the debug log event `slow_path` show it.
"""

from enum import StrEnum

import structlog

from app.observability.telemetry import INGEST_PATHS

log = structlog.get_logger()


class Decline(StrEnum):
    """Reason why a fast path declined a request. A declined request is read again on the slow path."""

    NO_FAST_PATH = "no_fast_path"
    """The format has none for bodies of this size."""
    NOT_ELIGIBLE = "not_eligible"
    """The table is not cached, its options need each change, or the request names several tables."""
    NOT_COLUMNAR = "not_columnar"
    """The body or its table does not qualify, or a value does not fit its column."""
    NOT_TYPED_TOGETHER = "not_typed_together"
    """Its changes cannot be typed together with those of other requests."""
    TABLE_MOVED = "table_moved"
    """The table changed between typing and staging."""
    REJECTED = "rejected"
    """The transaction rejected a message; the slow path names it."""


def count_fast_path(source_format: str, path: str) -> None:
    """Count a request that a fast path staged."""
    INGEST_PATHS.labels(source_format, path, "").inc()


def count_slow_path(source_format: str, reason: Decline) -> None:
    """Count a request that the slow path reads, and log why at level debug."""
    INGEST_PATHS.labels(source_format, "slow", reason).inc()
    log.debug("slow_path", format=source_format, reason=reason.value)
