"""End the drain within a bounded time, even while one of its threads hangs in Spark or in a file system."""

import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import structlog

log = structlog.get_logger()

STOP_WITHIN: Final = 9.0
"""Seconds: less than the 10 s after which container runtimes kill by default."""
_LAST_ACTS_WITHIN: Final = 2.0


class BoundedStop:
    """Asks the drain to stop, once, and ends the process itself when the block does not end soon after.

    Ending at any moment is safe: every durable step is recorded in Postgres first, and the next owner of a table
    continues there.
    """

    def __init__(self, *, within: float = STOP_WITHIN) -> None:
        self.stopping = threading.Event()
        self.last_acts: list[Callable[[], object]] = []
        """What to try, for a moment, before the process is ended; it may hang or fail."""
        self.failure: str | None = None
        """Why the drain ends although nobody asked it to."""
        self._within = within
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        self._ended.set()

    def ask(self, failure: str | None = None) -> None:
        """Ask the drain to stop. Safe in a signal handler; a repeated call changes nothing."""
        if self.stopping.is_set():
            return
        self.failure = failure
        self.stopping.set()
        threading.Thread(target=self._end_late, name="bounded-stop", daemon=True).start()

    def _end_late(self) -> None:
        if self._ended.wait(self._within):
            return
        last = threading.Thread(target=self._try_last_acts, name="last-acts", daemon=True)
        last.start()
        last.join(_LAST_ACTS_WITHIN)
        log.error("stop_forced", seconds=self._within, detail="work that hangs was abandoned; a restart is safe")
        os._exit(1)

    def _try_last_acts(self) -> None:
        for act in self.last_acts:
            act()
