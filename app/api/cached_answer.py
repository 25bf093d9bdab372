"""An answer that is kept for a moment, so that anybody may ask often and the database is asked seldom."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")


class CachedAnswer(Generic[_Answer]):
    """Keeps one answer. Callers that ask while it is made wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answer: tuple[_Answer, float] | None = None

    def get(self, make: Callable[[], _Answer], max_age: float) -> _Answer:
        """Return the kept answer, or make a new one where it is older than `max_age` seconds."""
        with self._lock:
            if self._answer is None or time.monotonic() - self._answer[1] > max_age:
                self._answer = make(), time.monotonic()
            return self._answer[0]
