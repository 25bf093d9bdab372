"""What a person sees of a sending, and how Ctrl-C ends it."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from app.client.send.sender import Sent
from app.errors import MirrorgateError

Post: TypeAlias = Callable[[bytes, Mapping[str, str]], Mapping[str, Any]]

_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


class Watch:
    """Shows progress on a terminal, and nothing but what is wrong elsewhere.

    Ctrl-C while a request is under way waits for its answer, so that nothing is left in doubt; a second one does not.
    SIGTERM is the same.
    """

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[changes]:,} changes, {task.fields[rate]:,.0f}/s{task.fields[lag]}"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._progress.add_task("", total=None, changes=0, rate=0.0, lag="")
        self._under_way = self._to_end = False

    def begins(self, name: str, total_bytes: int | None) -> None:
        """The next file is read."""
        self._progress.update(self._task, description=name, total=total_bytes, completed=0)

    def reads(self, count: int) -> None:
        """So many more bytes of the file, which may be compressed, were read."""
        self._progress.update(self._task, advance=count)

    def lags(self, files: int, size: int) -> None:
        """So many files wait."""
        self._progress.update(self._task, lag=f", waiting: {files:,} files, {size / 1e6:,.1f} MB")

    @contextmanager
    def watching(self) -> Iterator[None]:
        with self._progress:
            before = {sign: signal.signal(sign, lambda *_: self._interrupted()) for sign in _ENDING}
            try:
                yield
            finally:
                for sign, handler in before.items():
                    signal.signal(sign, handler)

    def awaiting(self, post: Post) -> Post:
        """`post`, from whose call on Ctrl-C waits until `accepted` or `waits`."""

        def awaited(body: bytes, headers: Mapping[str, str]) -> Mapping[str, Any]:
            self._under_way = True
            return post(body, headers)

        return awaited

    def accepted(self, sent: Sent) -> None:
        rate = sent.changes / max(self._progress.tasks[self._task].elapsed or 0.0, 0.001)
        self._progress.update(self._task, changes=sent.changes, rate=rate)
        self._answered()

    def waits(self, error: MirrorgateError) -> None:
        self.say(f"{error.detail}; trying again")
        self._answered()

    def _answered(self) -> None:
        self._under_way = False
        if self._to_end:
            raise KeyboardInterrupt

    def _interrupted(self) -> None:
        if self._to_end or not self._under_way:
            raise KeyboardInterrupt
        self._to_end = True
        self.say("Ending after the answer to this request; Ctrl-C again ends at once.")

    def say(self, text: str) -> None:
        """A line above the progress."""
        self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
