"""Why a request takes the exact path, and the count of requests by path.

A producer that adds one unknown key can move all its requests to the exact path, at several times the cost and with the
same answers. The metric `mirrorgate_ingest_path_total` and the debug log event `exact_path` show it.
"""

from enum import StrEnum

import structlog

from app.observability.api_metrics import INGEST_PATHS

log = structlog.get_logger()


class Decline(StrEnum):
    """Reason why the columnar path declined a request. A declined request is read again on the exact path."""

    NO_COLUMNAR_READER = "no_columnar_reader"
    """The format has none."""
    BODY = "body"
    """The body is unusual: not valid, a key unknown or twice, or a part that only the exact path understands."""
    TABLE = "table"
    """The table is unknown, its options need each change, or two sources of the request feed it."""
    IMAGES = "images"
    """An image or its flags are unusual: a column unknown, missing or twice, or a value that is not a text."""
    ROWS = "rows"
    """A change cannot land as it is, or a value does not fit its column."""
    TABLE_MOVED = "table_moved"
    """The table changed between typing and staging."""
    REJECTED = "rejected"
    """The transaction rejected a message; the exact path names it."""


class Declined(Exception):
    """The columnar path does not take a request."""

    def __init__(self, reason: Decline) -> None:
        super().__init__(reason)
        self.reason = reason


def count_columnar_path(source_format: str) -> None:
    """Count a request that the columnar path staged."""
    INGEST_PATHS.labels(source_format, "columnar", "").inc()


def count_exact_path(source_format: str, reason: Decline) -> None:
    """Count a request that the exact path reads, and log why at level debug."""
    INGEST_PATHS.labels(source_format, "exact", reason).inc()
    log.debug("exact_path", format=source_format, reason=reason.value)
