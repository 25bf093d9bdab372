"""Logs and metric names. No log line or label ever holds a row value or a secret."""

import logging
import sys
from typing import Final

import structlog
from prometheus_client import Counter, Histogram

from app.settings import LogFormat, Settings

REQUESTS: Final = Counter("mirrorgate_requests_total", "HTTP requests by route and status", ["route", "status"])
REQUEST_SECONDS: Final = Histogram("mirrorgate_request_seconds", "Time to answer, by route", ["route"])
ACCEPTED_CHANGES: Final = Counter("mirrorgate_accepted_changes_total", "Changes made durable, by format", ["format"])
WRONG_HASHES: Final = Counter(
    "mirrorgate_wrong_hashes_total", "Arcion messages whose table address has another hash than they say"
)
DUPLICATE_CHANGES: Final = Counter(
    "mirrorgate_duplicate_changes_total", "Changes dropped because the source's order says they were accepted before"
)
DEAD_LETTERS: Final = Counter("mirrorgate_dead_letters_total", "Refused messages that were kept, by format", ["format"])
REPLAYED_LETTERS: Final = Counter("mirrorgate_replayed_dead_letters_total", "Dead letters made durable after all")
REJECTED_REQUESTS: Final = Counter("mirrorgate_rejected_requests_total", "Requests refused, by error code", ["code"])


def configure_logging(settings: Settings) -> None:
    """One line per event on standard error, as JSON or for the console; other libraries' warnings likewise."""
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format is LogFormat.JSON
        else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[settings.log_level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
