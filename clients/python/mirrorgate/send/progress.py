"""The progress of `mirrorgate send`: in the current file, and for each table; what people see of it; and Ctrl-C."""

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from mirrorgate.chunking.chunks import Chunk
from mirrorgate.errors import MirrorgateError

Post: TypeAlias = Callable[[bytes, Mapping[str, str]], Mapping[str, Any]]

_END_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@dataclass
class TableProgress:
    """The changes that one table has accepted in this run."""

    generation: int
    last_sequence: int
    changes: int = 0
    rows: int = 0


@dataclass
class Progress:
    """The progress so far. Everything before `next_message` of the stream was accepted or skipped.

    The fields are keys of the output of `mirrorgate send --json`.
    """

    next_message: int = 0
    requests: int = 0
    changes: int = 0
    ignored: int = 0
    duplicates: int = 0
    repeated: int = 0
    """Requests that were already durable before this run."""
    bytes: int = 0
    """Bytes of the stream, decompressed, that are done."""
    files: int = 0
    """Streams that were sent completely."""
    tables: dict[str, TableProgress] = field(default_factory=dict)
    in_doubt: tuple[int, int] | None = None
    """First and last message of a request that was sent and never answered."""

    def begin(self, skip: int) -> None:
        """Start a stream, without its first `skip` messages."""
        self.next_message, self.bytes, self.in_doubt = skip, 0, None

    def record(self, chunk: Chunk, answer: Mapping[str, Any], *, is_earlier: bool = False) -> None:
        """Count an answered chunk; `is_earlier` if it was already durable before this run."""
        self.next_message, self.bytes, self.in_doubt = chunk.after, chunk.end, None
        if is_earlier:
            self.repeated += 1
            return
        self.requests += 1
        self.ignored += answer["ignored"]
        self.duplicates += answer["duplicates"]
        self.add(answer["receipts"])

    def add(self, receipts: Iterable[Mapping[str, Any]]) -> None:
        """Count what tables have accepted."""
        for receipt in receipts:
            self.changes += receipt["changes"]
            table = self.tables.setdefault(receipt["table"], TableProgress(receipt["generation"], receipt["sequence"]))
            table.generation, table.last_sequence = receipt["generation"], receipt["sequence"]
            table.changes += receipt["changes"]
            table.rows += receipt["rows"]


class ProgressDisplay:
    """Progress on a terminal; elsewhere only problems.

    Ctrl-C or SIGTERM during a request ends the run after its answer, so that nothing is left in doubt. A second one
    ends the run at once.
    """

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[changes]:,} changes, {task.fields[rate]:,.0f}/s{task.fields[left]}"),
            TimeRemainingColumn(),
        )
        self._bar = ProgressBar(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=None, changes=0, rate=0.0, left="")
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

    def start_file(self, name: str, total_bytes: int | None, files_left: int = 0) -> None:
        """Show the next file, and how many follow it."""
        left = f", {files_left:,} more files" if files_left else ""
        self._bar.update(self._task, description=name, total=total_bytes, completed=0, left=left)

    def add_read(self, count: int) -> None:
        """Count bytes that were read from the file, which may be compressed."""
        self._bar.update(self._task, advance=count)

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
        self.print("Stopping after the answer to this request. Press Ctrl-C again to stop immediately.")
