"""Where the numbers of a producer stand in its files: a journal on the sender's disk.

A line is on the disk before the request that it tells of begins. So whatever dies, the journal knows the last request
that may be durable, and how it was cut; whether it is durable, the gateway knows.
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
    """The first line."""

    producer: str
    version: int = 1


class Begun(msgspec.Struct, frozen=True, tag="begun", tag_field="line", forbid_unknown_fields=True):
    """A request that was begun: its number, and which messages of which file it holds, up to which byte."""

    number: int
    file: str
    first: int
    after: int
    """The message behind its last one, counted from 0."""
    end: int


class Finished(msgspec.Struct, frozen=True, tag="finished", tag_field="line", forbid_unknown_fields=True):
    """A file of which all messages are durable, and what it was like then."""

    file: str
    size: int
    modified: int
    """Nanoseconds since 1970."""
    messages: int


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten", tag_field="line", forbid_unknown_fields=True):
    """A finished file that is no longer where it was: another one may come under its name."""

    file: str


_line: Final = msgspec.json.Decoder(Heading | Begun | Finished | Forgotten)


class Journal:
    """The journal of one producer, which this process alone writes."""

    def __init__(self, path: Path, producer: str) -> None:
        self.path = path
        self.last: Begun | None = None
        self.finished: dict[str, Finished] = {}
        self._producer = producer
        self._lines = 0
        self._file: int | None = None

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, producer: str) -> Iterator[Self]:
        """The journal of a producer in a folder, made where there is none.

        Raises RejectedInput `already_running` while another process sends for the producer, Misconfigured
        `bad_setting` for a folder or a journal that cannot be used.
        """
        journal = cls(folder / f"{producer}.journal", producer)
        try:
            for path in reversed([folder, *folder.parents]):
                path.mkdir(mode=0o700, exist_ok=True)  # parents=True would open those above to everybody
            lock = os.open(folder / f"{producer}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            remedy = "Name a folder that can be written with --state-dir."
            raise Misconfigured(
                Code.BAD_SETTING, f"{folder} cannot be used: {error.strerror}", remedy=remedy
            ) from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                detail = f"another process sends for the producer {producer}"
                remedy = "Wait for its end, or give this one another --producer."
                raise RejectedInput(Code.ALREADY_RUNNING, detail, remedy=remedy) from None
            journal._read()
            journal._compact()
            yield journal
        finally:
            journal.close()
            os.close(lock)

    @property
    def unfinished(self) -> str | None:
        """The file that was begun and of which messages may be left."""
        return self.last.file if self.last and self.last.file and self.last.file not in self.finished else None

    def begin(self, begun: Begun) -> None:
        """On the disk when it returns; dies before: the request was not sent."""
        self._append(begun)
        self.last = begun

    def finish(self, finished: Finished) -> None:
        """Dies before it is on the disk: the next run finds nothing left of the file, and finishes it again."""
        self._append(finished)
        self.finished[finished.file] = finished

    def forget(self, file: str) -> None:
        """Another file may come under this name."""
        self._append(Forgotten(file))
        self._forget(file)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self) -> None:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        whole = content[: content.rfind(b"\n") + 1]  # a line that was being written has not been acted on
        for number, text in enumerate(whole.splitlines(), 1):
            try:
                self._apply(_line.decode(text), number)
            except (msgspec.DecodeError, KeyError) as error:
                remedy = "Restore the file from a copy, or begin anew with another --producer and --from-message."
                detail = f"{self.path} cannot be read: its line {number} is damaged"
                raise Misconfigured(Code.BAD_SETTING, detail, remedy=remedy) from error

    def _apply(self, line: Heading | Begun | Finished | Forgotten, number: int) -> None:
        match line:
            case Heading():
                if number != 1 or line.producer != self._producer or line.version != 1:
                    raise KeyError(line.producer)
            case Begun():
                self.last = line
            case Finished():
                self.finished[line.file] = line
            case Forgotten():
                self._forget(line.file)

    def _forget(self, file: str) -> None:
        del self.finished[file]
        if self.last is not None and self.last.file == file:
            self.last = msgspec.structs.replace(self.last, file="")

    def _append(self, line: Begun | Finished | Forgotten) -> None:
        if self._lines >= _LINES_BEFORE_COMPACTION + len(self.finished):
            self._compact()
        assert self._file is not None
        try:
            _write(self._file, msgspec.json.encode(line) + b"\n")
            os.fsync(self._file)
        except OSError as error:
            remedy = "Make room, then run the same command again."
            raise Misconfigured(
                Code.BAD_SETTING, f"{self.path} cannot be written: {error.strerror}", remedy=remedy
            ) from error
        self._lines += 1

    def _compact(self) -> None:
        """Write what counts into a new file and put it in the old one's place; dies before: the old one counts."""
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


def _write(file: int, content: bytes) -> None:
    """All of it: a disk that is full must not leave half a line unnoticed."""
    written = 0
    while written < len(content):
        written += os.write(file, content[written:])
