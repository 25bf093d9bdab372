"""What people see while files are sent, and how Ctrl-C ends the run."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from app.client.send.progress import Progress
from app.errors import MirrorgateError

Post: TypeAlias = Callable[[bytes, Mapping[str, str]], Mapping[str, Any]]

_END_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class ProgressDisplay:
    """Shows progress on a terminal; elsewhere only problems.

    Ctrl-C or SIGTERM during a request ends the run after its answer, so that nothing is left in doubt. A second one
    ends the run at once.
    """

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[changes]:,} changes, {task.fields[rate]:,.0f}/s{task.fields[lag]}"),
            TimeRemainingColumn(),
        )
        self._bar = ProgressBar(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=None, changes=0, rate=0.0, lag="")
        self._request_is_open = self._end_requested = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Show the progress bar and handle Ctrl-C and SIGTERM during the block."""
        with self._bar:
            before = {number: signal.signal(number, lambda *_: self._interrupt()) for number in _END_SIGNALS}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def start_file(self, name: str, total_bytes: int | None) -> None:
        """Show the next file."""
        self._bar.update(self._task, description=name, total=total_bytes, completed=0)

    def add_read(self, count: int) -> None:
        """Count bytes that were read from the file, which may be compressed."""
        self._bar.update(self._task, advance=count)

    def show_backlog(self, files: int, size: int) -> None:
        """Show how many files wait, and their total size in bytes."""
        self._bar.update(self._task, lag=f", waiting: {files:,} files, {size / 1e6:,.1f} MB")

    def deferring_interrupts(self, post: Post) -> Post:
        """Return `post`, changed to defer Ctrl-C from its call until `show_accepted` or `show_retry`."""

        def deferring(body: bytes, headers: Mapping[str, str]) -> Mapping[str, Any]:
            self._request_is_open = True
            return post(body, headers)

        return deferring

    def show_accepted(self, progress: Progress) -> None:
        """Show the progress after an accepted request. Raises KeyboardInterrupt if Ctrl-C was deferred."""
        rate = progress.changes / max(self._bar.tasks[self._task].elapsed or 0.0, 0.001)
        self._bar.update(self._task, changes=progress.changes, rate=rate)
        self._close_request()

    def show_retry(self, seconds: float, error: MirrorgateError) -> None:
        """Show why a request is retried, and when. Raises KeyboardInterrupt if Ctrl-C was deferred."""
        self.print(f"{error.detail}; retrying in {seconds:.1f} s")
        self._close_request()

    def print(self, text: str) -> None:
        """Print a line above the progress bar."""
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _close_request(self) -> None:
        self._request_is_open = False
        if self._end_requested:
            raise KeyboardInterrupt

    def _interrupt(self) -> None:
        if self._end_requested or not self._request_is_open:
            raise KeyboardInterrupt
        self._end_requested = True
        self.print("Stopping after the answer to this request. Press Ctrl-C again to stop at once.")
