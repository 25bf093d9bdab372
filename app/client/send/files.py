"""Sending one file, or standard input, to its end, and having the journal know."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from app.client.chunking.parts import Limits
from app.client.send.folder import state_of
from app.client.send.numbering import STANDARD_INPUT, FileState, Numbering, Start
from app.client.send.sender import CHUNK_BYTES, NotSent, Sender
from app.client.send.watch import Watch
from app.errors import Code, RejectedInput


@dataclass
class FileSender:
    """Sends files with one sender. Without `numbering` nothing of them is remembered."""

    sender: Sender
    limits: Limits
    watch: Watch
    numbering: Numbering | None = None

    def send(self, path: Path, *, skip: int = 0) -> None:
        """Send a file that is named by itself, `-` for standard input. Raises NotSent or RejectedInput."""
        with opened(path) as stream:
            status = os.fstat(stream.fileno())
            is_file = path != Path(STANDARD_INPUT) and stat.S_ISREG(status.st_mode)
            name = str(path.resolve()) if is_file else STANDARD_INPUT
            state = state_of(status) if is_file else None
            if not self._send(stream, name, state, lambda other: other != name and Path(other).exists(), skip):
                self.watch.say(f"{path} has been sent to its end before")

    def send_of(self, folder: Path, name: str, settled: FileState) -> None:
        """Send a file of a folder that is followed, which may be empty; one that is not as it was is left for later."""
        try:
            with opened(folder / name) as stream:
                state = state_of(os.fstat(stream.fileno()))
                if state == settled:
                    self._send(stream, name, state, lambda other: (folder / other).exists(), may_be_empty=True)
                    self.watch.say(f"{name}: sent to its end, {self.sender.sent.next_message:,} messages")
        except FileNotFoundError:
            return
        except NotSent as error:
            error.detail = f"{name}: {error.detail}"
            raise

    def _send(
        self,
        stream: BufferedReader,
        name: str,
        state: FileState | None,
        exists: Callable[[str], bool],
        skip: int = 0,
        *,
        may_be_empty: bool = False,
    ) -> bool:
        """Whether there was something to do. Dies at any place: the next run goes on after what is durable."""
        start = Start(skip) if self.numbering is None else self.numbering.start(name, state, exists, skip)
        if start.is_done:
            return False
        self.watch.begins(Path(name).name, None if state is None else state.size)
        self.sender.send(self._chunks(stream), self.limits, start, may_be_empty=may_be_empty)
        if self.numbering is not None:
            if state is not None and state_of(os.fstat(stream.fileno())) != state:
                remedy = "Send files that are complete; the same command sends what was added since."
                raise RejectedInput(Code.BAD_REQUEST, f"{name} was changed while it was sent", remedy=remedy)
            self.numbering.finish(state, self.sender.sent.next_message)
        return True

    def _chunks(self, stream: BufferedReader) -> Iterator[bytes]:
        while chunk := stream.read1(CHUNK_BYTES):
            self.watch.reads(len(chunk))
            yield chunk


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """A file to read, `-` for standard input, which stays open."""
    if path == Path(STANDARD_INPUT):
        with open(0, "rb", closefd=False) as stream:
            yield stream
    else:
        with path.open("rb") as stream:
            yield stream
