"""Limit on repeated log lines: a warning that repeats is written once in an interval, with a count.

Bridges import this module, so it must not import settings or structlog.
"""

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final

INTERVAL_SECONDS: Final = 1.0
_MAX_KINDS: Final = 10_000


class RepeatedLines:
    """Counts of the lines of each kind that were dropped since the last written one. Threads share it."""

    def __init__(self, every: float = INTERVAL_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._clock = clock
        self._lock = threading.Lock()
        self._written: dict[Hashable, tuple[float, int]] = {}

    def admit(self, kind: Hashable) -> int | None:
        """Return how many lines of this kind were dropped before this one; None if this one is dropped too."""
        now = self._clock()
        with self._lock:
            last, dropped = self._written.get(kind, (now - self._every, 0))
            if now - last < self._every:
                self._written[kind] = (last, dropped + 1)
                return None
            if kind not in self._written and len(self._written) >= _MAX_KINDS:
                self._written.clear()
            self._written[kind] = (now, 0)
            return dropped

    def filter(self, record: logging.LogRecord) -> bool:
        """Limit a line of another library; add this filter to its handler."""
        dropped = self.admit((record.name, record.levelno, str(record.msg)))
        if dropped:
            record.msg = f"{record.msg} (repeated: {dropped})"
        return dropped is not None


@contextmanager
def errors_only(logger_name: str) -> Iterator[None]:
    """Let a library's logger log errors only within the block."""
    logger = logging.getLogger(logger_name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
