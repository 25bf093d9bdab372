"""The journal of a producer on the sender's disk: which request holds which messages of which file.

A line is on disk before its request is sent. After any crash the journal therefore knows the last request that may be
durable and how it was cut; the gateway knows whether it is durable.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import msgspec

from app.errors import Code, Misconfigured, RejectedInput

_LINES_BEFORE_COMPACTION: Final = 10_000


class Heading(msgspec.Struct, frozen=True, tag="journal", tag_field="line", forbid_unknown_fields=True):
    """The first line of a journal."""

    producer: str
    version: int = 1


class Started(msgspec.Struct, frozen=True, tag="begun", tag_field="line", forbid_unknown_fields=True):
    """A request that was started: its number, its file, and its range of messages.

    The tag of the line is `begun`, which journals of earlier versions hold.
    """

    number: int
    file: str
    first: int
    after: int
    """The index of the first message after the request, from 0."""
    end: int
    """The position in the stream where the request ends."""


class Finished(msgspec.Struct, frozen=True, tag="finished", tag_field="line", forbid_unknown_fields=True):
    """A file whose messages are all durable, with its state at that time."""

    file: str
    size: int
    modified: int
    """Nanoseconds since 1970."""
    messages: int


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten", tag_field="line", forbid_unknown_fields=True):
    """A finished file that was moved away: another file may take its name."""

    file: str


_line: Final = msgspec.json.Decoder(Heading | Started | Finished | Forgotten)


class Journal:
    """The journal of one producer. A lock file keeps every other process from writing it."""

    def __init__(self, path: Path, producer: str) -> None:
        self.path = path
        self.last: Started | None = None
        self.finished: dict[str, Finished] = {}
        self._producer = producer
        self._lines = 0
        self._file: int | None = None

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, producer: str) -> Iterator[Self]:
        """Open the journal of a producer in a folder; create it if there is none.

        Raises RejectedInput `already_running` while another process sends for the producer, and Misconfigured
        `bad_setting` for an unusable folder or journal.
        """
        journal = cls(folder / f"{producer}.journal", producer)
        detail = f"another process is sending for the producer {producer}"
        with locked_folder(folder, producer, detail, "Wait until it ends, or give this one another --producer."):
            try:
                journal._read()
                journal._compact()
                yield journal
            finally:
                journal.close()

    @property
    def unfinished(self) -> str | None:
        """The file that was started last and may have messages left; None if there is none."""
        return self.last.file if self.last and self.last.file and self.last.file not in self.finished else None

    def start(self, started: Started) -> None:
        """Record a request before it is sent: it is on disk when this returns."""
        self._append(started)
        self.last = started

    def finish(self, finished: Finished) -> None:
        """Record that a file is complete. After a crash before, the next run records it again."""
        self._append(finished)
        self.finished[finished.file] = finished

    def forget(self, file: str) -> None:
        """Forget a finished file, so that another file may take its name."""
        self._append(Forgotten(file))
        self._forget(file)

    def close(self) -> None:
        """Close the file; safe to repeat."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self) -> None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        whole = content[: content.rfind(b"\n") + 1]  # an incomplete last line was never acted on
        for number, text in enumerate(whole.splitlines(), 1):
            try:
                self._apply(_line.decode(text), number)
            except (msgspec.DecodeError, KeyError) as error:
                remedy = "Restore the file from a backup, or start over with another --producer and --from-message."
                detail = f"{self.path} cannot be read: its line {number} is damaged"
                raise Misconfigured(Code.BAD_SETTING, detail, remedy=remedy) from error

    def _apply(self, line: Heading | Started | Finished | Forgotten, number: int) -> None:
        match line:
            case Heading():
                if number != 1 or line.producer != self._producer or line.version != 1:
                    raise KeyError(line.producer)
            case Started():
                self.last = line
            case Finished():
                self.finished[line.file] = line
            case Forgotten():
                self._forget(line.file)

    def _forget(self, file: str) -> None:
        del self.finished[file]
        if self.last is not None and self.last.file == file:
            self.last = msgspec.structs.replace(self.last, file="")

    def _append(self, line: Started | Finished | Forgotten) -> None:
        if self._lines >= _LINES_BEFORE_COMPACTION + len(self.finished):
            self._compact()
        assert self._file is not None
        try:
            _write(self._file, msgspec.json.encode(line) + b"\n")
            os.fsync(self._file)
        except OSError as error:
            remedy = "Free some space, then run the same command again."
            raise Misconfigured(
                Code.BAD_SETTING, f"{self.path} cannot be written: {error.strerror}", remedy=remedy
            ) from error
        self._lines += 1

    def _compact(self) -> None:
        """Replace the journal by one without obsolete lines. After a crash before, the old file is intact."""
        lines = [Heading(self._producer), *self.finished.values(), *([self.last] if self.last else [])]
        new = self.path.with_suffix(".new")
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        _write(file, b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
        os.fsync(file)
        new.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        self.close()
        self._file, self._lines = file, len(lines)


@contextmanager
def locked_folder(folder: Path, name: str, held: str, remedy: str = "Wait until it ends.") -> Iterator[None]:
    """Make a folder if there is none, and hold the lock file of a name in it.

    Raises RejectedInput `already_running` with the detail `held` and a remedy while another process has the lock, and
    Misconfigured `bad_setting` for an unusable folder.
    """
    try:
        for path in reversed([folder, *folder.parents]):
            path.mkdir(mode=0o700, exist_ok=True)  # parents=True would create the parents with the default mode
        lock = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        detail = f"{folder} cannot be used: {error.strerror}"
        raise Misconfigured(Code.BAD_SETTING, detail, remedy="Give a writable folder with --state-dir.") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RejectedInput(Code.ALREADY_RUNNING, held, remedy=remedy) from None
        yield
    finally:
        os.close(lock)


def _write(file: int, content: bytes) -> None:
    """Write everything or raise: a full disk must not leave half a line unnoticed."""
    written = 0
    while written < len(content):
        written += os.write(file, content[written:])
