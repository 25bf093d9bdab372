"""What a person sees of a sending, and how Ctrl-C ends it."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from app.errors import MirrorgateError
from app.send.sender import Sent


class Watch:
    """Shows progress on a terminal, and nothing but what is wrong elsewhere.

    Ctrl-C while a request is under way waits for its answer, so that nothing is left in doubt; a second one does not.
    """

    def __init__(self, console: Console, total_bytes: int | None) -> None:
        columns = (
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[changes]:,} changes, {task.fields[rate]:,.0f}/s"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._progress.add_task("", total=total_bytes, changes=0, rate=0.0)
        self._under_way = self._to_end = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        with self._progress:
            before = signal.signal(signal.SIGINT, lambda *_: self._interrupted())
            try:
                yield
            finally:
                signal.signal(signal.SIGINT, before)

    def awaiting(self, post: Callable[[bytes, str], Mapping[str, Any]]) -> Callable[[bytes, str], Mapping[str, Any]]:
        """`post`, from whose call on Ctrl-C waits until `accepted` or `waits`."""

        def awaited(body: bytes, key: str) -> Mapping[str, Any]:
            self._under_way = True
            return post(body, key)

        return awaited

    def accepted(self, sent: Sent) -> None:
        rate = sent.changes / max(self._progress.tasks[self._task].elapsed or 0.0, 0.001)
        self._progress.update(self._task, completed=sent.bytes, changes=sent.changes, rate=rate)
        self._answered()

    def waits(self, error: MirrorgateError) -> None:
        self._say(f"{error.detail}; trying again")
        self._answered()

    def _answered(self) -> None:
        self._under_way = False
        if self._to_end:
            raise KeyboardInterrupt

    def _interrupted(self) -> None:
        if self._to_end or not self._under_way:
            raise KeyboardInterrupt
        self._to_end = True
        self._say("Ending after the answer to this request; Ctrl-C again ends at once.")

    def _say(self, text: str) -> None:
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
