"""Keep one fault from filling the log: a warning that repeats is written once a second, with a count."""

import logging
import re
import threading
import time
from collections.abc import Callable, Hashable
from typing import Final

import structlog

EVERY_SECONDS: Final = 1.0
_LIMITED: Final = frozenset({"warning", "error", "critical"})
_MOST_KEYS: Final = 1_000
_TEXT_COMPARED: Final = 120
_NUMBERS: Final = re.compile(r"\d+")


class RepeatedLines:
    """Counts the lines of each kind that were left out since the last one that was written."""

    def __init__(self, every: float = EVERY_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._clock = clock
        self._lock = threading.Lock()
        self._written: dict[Hashable, tuple[float, int]] = {}

    def admit(self, kind: Hashable) -> int | None:
        """Return how many lines of this kind were left out before this one; None when this one is left out, too."""
        now = self._clock()
        with self._lock:
            last, left_out = self._written.get(kind, (now - self._every, 0))
            if now - last < self._every:
                self._written[kind] = (last, left_out + 1)
                return None
            if kind not in self._written and len(self._written) >= _MOST_KEYS:
                self._written.clear()
            self._written[kind] = (now, 0)
            return left_out

    def processor(self) -> structlog.types.Processor:
        """Return a processor that drops warnings and errors of one event, table and code that come too fast.

        A line with a request id is never dropped: each stands for a request of its own.
        """

        def limit(_: object, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
            if event.get("level") not in _LIMITED or "request_id" in event:
                return event
            left_out = self.admit(_kind(event))
            if left_out is None:
                raise structlog.DropEvent
            return {**event, "repeated": left_out} if left_out else event

        return limit

    def filter(self, record: logging.LogRecord) -> bool:
        """Do the same for a line of another library; to be added to its handler."""
        left_out = self.admit((record.name, record.levelno, str(record.msg)))
        if left_out:
            record.msg = f"{record.msg} (repeated: {left_out})"
        return left_out is not None


def _kind(event: structlog.types.EventDict) -> Hashable:
    text = _NUMBERS.sub("#", str(event.get("text", ""))[:_TEXT_COMPARED])
    names = ("event", "table", "table_id", "code", "check", "logger")
    return *(event.get(name) for name in names), text
