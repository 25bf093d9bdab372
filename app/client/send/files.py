"""Send one file, or standard input, and record in the journal when it is complete."""

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

from app.client.chunking.chunks import Limits
from app.client.send.folder import FileState, state_of
from app.client.send.load_run import LoadRun
from app.client.send.numbering import STANDARD_INPUT, Numbering, Start
from app.client.send.progress_display import ProgressDisplay
from app.client.send.sender import BLOCK_BYTES, Sender, SendFailed
from app.errors import Code, RejectedInput


@dataclass
class FileSender:
    """Sends files with one sender. Without `numbering`, no run remembers what an earlier one sent."""

    sender: Sender
    limits: Limits
    display: ProgressDisplay
    numbering: Numbering | None = None

    def send(self, path: Path, *, skip: int = 0) -> None:
        """Send a file that was named on its own; `-` is standard input. Raises SendFailed or RejectedInput."""
        with opened(path) as stream:
            status = os.fstat(stream.fileno())
            is_file = path != Path(STANDARD_INPUT) and stat.S_ISREG(status.st_mode)
            name = str(path.resolve()) if is_file else STANDARD_INPUT
            state = state_of(status) if is_file else None
            if not self._send(stream, name, state, lambda other: other != name and Path(other).exists(), skip):
                self.display.print(f"{path} was sent completely before")

    def load(self, path: Path, load: LoadRun) -> None:
        """Send a file as a load, and complete it. Raises SendFailed, RejectedInput or RejectedByGateway."""
        with opened(path) as stream:
            status = os.fstat(stream.fileno())
            is_file = path != Path(STANDARD_INPUT) and stat.S_ISREG(status.st_mode)
            state = state_of(status) if is_file else None
            skip = load.start(str(path.resolve()) if is_file else STANDARD_INPUT, state)
            if skip is not None:
                self.display.start_file(path.name, None if state is None else state.size)
                self.sender.send(self._blocks(stream), self.limits, Start(skip))
                if state is not None and state_of(os.fstat(stream.fileno())) != state:
                    remedy = "Load only complete files. The same command begins a new load with the present content."
                    raise RejectedInput(Code.BAD_REQUEST, f"{path} was changed while it was sent", remedy=remedy)
        load.complete()

    def send_from_folder(self, folder: Path, name: str, settled: FileState) -> None:
        """Send a file of a watched folder, which may be empty; one that changed since `settled` is left for later."""
        try:
            with opened(folder / name) as stream:
                state = state_of(os.fstat(stream.fileno()))
                if state == settled:
                    self._send(stream, name, state, lambda other: (folder / other).exists(), may_be_empty=True)
                    self.display.print(f"{name}: sent completely, {self.sender.progress.next_message:,} messages")
        except FileNotFoundError:
            return
        except SendFailed as error:
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
        """Send what is left of a file; return False if nothing is. After a crash the next run sends the rest."""
        start = Start(skip) if self.numbering is None else self.numbering.start(name, state, exists, skip)
        if start.is_done:
            return False
        self.display.start_file(Path(name).name, None if state is None else state.size)
        self.sender.send(self._blocks(stream), self.limits, start, may_be_empty=may_be_empty)
        if self.numbering is not None:
            if state is not None and state_of(os.fstat(stream.fileno())) != state:
                remedy = "Send only complete files. The same command sends what was added since."
                raise RejectedInput(Code.BAD_REQUEST, f"{name} was changed while it was sent", remedy=remedy)
            self.numbering.finish(state, self.sender.progress.next_message)
        return True

    def _blocks(self, stream: BufferedReader) -> Iterator[bytes]:
        while block := stream.read1(BLOCK_BYTES):
            self.display.add_read(len(block))
            yield block


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """Open a file to read; `-` is standard input, which stays open."""
    if path == Path(STANDARD_INPUT):
        with open(0, "rb", closefd=False) as stream:
            yield stream
    else:
        with path.open("rb") as stream:
            yield stream
