"""Keep an answer for a moment, so that frequent callers cost few queries."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")


class CachedAnswer(Generic[_Answer]):
    """Cache of one answer. Thread-safe: callers that ask while it is computed wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answer: tuple[_Answer, float] | None = None

    def get(self, compute: Callable[[], _Answer], max_age: float) -> _Answer:
        """Return the kept answer, or compute a new one if it is older than `max_age` seconds."""
        with self._lock:
            if self._answer is None or time.monotonic() - self._answer[1] > max_age:
                self._answer = compute(), time.monotonic()
            return self._answer[0]
