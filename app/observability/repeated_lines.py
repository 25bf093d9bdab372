"""Limit on repeated log lines: a warning that repeats is written once a second, with a count."""

import logging
import re
import threading
import time
from collections.abc import Callable, Hashable
from typing import Final

import structlog

INTERVAL_SECONDS: Final = 1.0
_LIMITED: Final = frozenset({"warning", "error", "critical"})
_MAX_KINDS: Final = 1_000
_MAX_COMPARED_CHARACTERS: Final = 120
_NUMBERS: Final = re.compile(r"\d+")


class RepeatedLines:
    """Counts the lines of each kind that were dropped since the last written one. Threads share it."""

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

    def processor(self) -> structlog.types.Processor:
        """Return a processor that drops warnings and errors of one event, table and code that repeat too fast.

        A line with a request id is never dropped, because each is about its own request.
        """

        def limit(_: object, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
            if event.get("level") not in _LIMITED or "request_id" in event:
                return event
            dropped = self.admit(_kind(event))
            if dropped is None:
                raise structlog.DropEvent
            return {**event, "repeated": dropped} if dropped else event

        return limit

    def filter(self, record: logging.LogRecord) -> bool:
        """Limit a line of another library; add this filter to its handler."""
        dropped = self.admit((record.name, record.levelno, str(record.msg)))
        if dropped:
            record.msg = f"{record.msg} (repeated: {dropped})"
        return dropped is not None


def _kind(event: structlog.types.EventDict) -> Hashable:
    text = _NUMBERS.sub("#", str(event.get("text", ""))[:_MAX_COMPARED_CHARACTERS])
    names = ("event", "table", "table_id", "code", "check", "logger")
    return *(event.get(name) for name in names), text
