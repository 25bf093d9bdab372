"""The one loop of background threads: work, tell a failure once, pause, until it is ended.

Bridges import this module, so it must not import settings or structlog.
"""

import threading
from collections.abc import Callable
from typing import Self


class PeriodicThread:
    """Thread that calls `work` every `seconds`, from `start` to `close` or while a `with` block runs.

    `seconds` may be a function that returns the next pause. `work` ends the thread by returning False. `on_failure`
    gets the first of several exceptions in a row; without it, an exception ends the thread, and its hook logs it.
    `waits_first` pauses before the first call. `at_end` is called in the thread when it ends. `ended` is an event that
    others set to end the thread; `close` sets it too, and waits `join_seconds` at most, or without a limit.
    """

    def __init__(
        self,
        name: str,
        seconds: float | Callable[[], float],
        work: Callable[[], object],
        *,
        on_failure: Callable[[Exception], object] | None = None,
        waits_first: bool = False,
        at_end: Callable[[], object] | None = None,
        ended: threading.Event | None = None,
        join_seconds: float | None = None,
    ) -> None:
        self._pause = seconds if callable(seconds) else lambda: seconds
        self._work = work
        self._on_failure = on_failure
        self._waits_first = waits_first
        self._at_end = at_end
        self._ended = threading.Event() if ended is None else ended
        self._join_seconds = join_seconds
        self._fails = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """End the thread after its present call of `work`, without waiting for it."""
        self._ended.set()

    def close(self) -> None:
        """End the thread, and wait for it."""
        self._ended.set()
        self._thread.join(self._join_seconds)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        if not (self._waits_first and self._ended.wait(self._pause())):
            while not self._ended.is_set() and self._try() and not self._ended.wait(self._pause()):
                pass
        if self._at_end is not None:
            self._at_end()

    def _try(self) -> bool:
        """Return whether the thread continues."""
        try:
            found = self._work()
        except Exception as error:
            if self._on_failure is None:
                raise
            if not self._fails:
                self._on_failure(error)
            self._fails = True
            return True
        self._fails = False
        return found is not False
