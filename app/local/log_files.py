"""Log files of `mirrorgate up`: bounded in size, one JSON object per line whatever a process writes.

A child writes to a pipe. `ChildLog` reads the pipe in the supervisor and appends to a file that rotates, so that
rotation loses no line and needs no cooperation from a JVM or from Postgres.
"""

import fcntl
import io
import os
import select
import sys
import termios
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

_READ_BYTES: Final = 2**16
_PIPE_BYTES: Final = 2**20
"""What a pipe holds while the reader is not scheduled; the default of 64 KiB would block a busy child."""
_F_SETPIPE_SZ: Final = 1031
"""Linux's fcntl command; other systems keep their default."""
_PAUSE: Final = 0.02
"""Seconds between two reads: a busy API costs 50 wake-ups a second instead of one per request."""
_MOST_TAKES: Final = 4 * _PIPE_BYTES // _READ_BYTES
"""Reads of one look at the pipe, so that a child that never stops writing does not hold its reader up."""
_RECENT: Final = 50
_LONGEST_LINE: Final = 2**20
_LAST_WORDS_WITHIN: Final = 2.0

_LEVELS: Final = (
    (b"error", (b"ERROR", b"FATAL", b"PANIC", b"Error", b"Exception")),
    (b"warning", (b"WARN",)),
)


@dataclass(frozen=True, slots=True)
class Rotation:
    """Roll a log file before it exceeds `most_bytes`; keep `files` older ones."""

    most_bytes: int = 64 * 2**20
    files: int = 5


class RotatingFile(io.RawIOBase):
    """Appends to `path` and renames a full file to `path.1`, `path.1` to `path.2` and so on. Works beside logrotate.

    Methods never raise OSError: a log that cannot be written must not stop what it is about. If the process dies
    during a rotation, at most one number is missing among the older files; no line is lost.
    """

    def __init__(self, path: Path, rotation: Rotation) -> None:
        self._path = path
        self._rotation = rotation
        self._descriptor: int | None = None

    def write(self, lines: Any, /) -> int:
        """Append whole lines; returns how many bytes were given."""
        left = bytes(lines)
        with suppress(OSError):
            while left:
                descriptor = self._opened()
                size = os.fstat(descriptor).st_size
                fits = self._fitting(left, self._rotation.most_bytes - size, is_empty=size == 0)
                _write_all(descriptor, left[:fits])
                left = left[fits:]
                if left:
                    self._rotate()
        return len(lines)

    def _fitting(self, lines: bytes, room: int, *, is_empty: bool) -> int:
        """How many bytes of whole lines go into the present file; a line longer than a file has one of its own."""
        if len(lines) <= room:
            return len(lines)
        fits = lines.rfind(b"\n", 0, max(room, 0)) + 1
        return fits or (lines.find(b"\n") + 1 or len(lines) if is_empty else 0)

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        """The descriptor of the file at `path`, opened anew when somebody else has moved that away."""
        if self._descriptor is not None and not self._is_in_place(self._descriptor):
            self._close_descriptor()
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return self._descriptor

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        self._close_descriptor()
        names = [
            self._path,
            *(self._path.with_name(f"{self._path.name}.{n}") for n in range(1, self._rotation.files + 1)),
        ]
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            with suppress(FileNotFoundError):
                newer.replace(older)
        if not self._rotation.files:
            self._path.unlink(missing_ok=True)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


class ChildLog:
    """The log of a child across its restarts: start it with `descriptor` as its standard output and error.

    With `as_json` a line that is no JSON object becomes one: `{"event": <line>, "process": <name>, …}`. If this process
    dies, what the child writes from then on is lost; the child's own writes fail with EPIPE.
    """

    def __init__(self, path: Path, rotation: Rotation, *, as_json: bool = True) -> None:
        self.path = path
        self._name = path.stem
        self._file = RotatingFile(path, rotation)
        self._as_json = as_json
        self._recent: deque[bytes] = deque(maxlen=_RECENT)
        self._unfinished = b""
        self._reading = threading.Lock()
        self._thread = threading.Thread(target=self._follow, name=f"log-{self._name}", daemon=True)

    def __enter__(self) -> Self:
        self._reader, self.descriptor = os.pipe()
        os.set_blocking(self._reader, False)
        with suppress(OSError):
            fcntl.fcntl(self.descriptor, _F_SETPIPE_SZ, _PIPE_BYTES)
        self._closing, self._close = os.pipe()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._close)
        self._thread.join(_LAST_WORDS_WITHIN)
        self._take_all()
        for descriptor in (self._reader, self.descriptor, self._closing):
            os.close(descriptor)
        with self._reading:
            self._append(self._unfinished and self._unfinished + b"\n")
            self._unfinished = b""
        self._file.close()

    def recent(self) -> Sequence[bytes]:
        """The last lines as the child wrote them, up to what it has written by now."""
        self._take_all()
        with self._reading:
            return [*self._recent, *([self._unfinished] if self._unfinished else [])]

    def _follow(self) -> None:
        pause = threading.Event()
        while True:
            ready, _, _ = select.select([self._reader, self._closing], [], [])
            if self._closing in ready:
                return
            self._take()
            pause.wait(_PAUSE)

    def _take_all(self) -> None:
        for _ in range(_MOST_TAKES):
            if not self._waiting():
                return
            self._take()

    def _waiting(self) -> int:
        """Bytes in the pipe."""
        return int.from_bytes(fcntl.ioctl(self._reader, termios.FIONREAD, bytes(4)), sys.byteorder)

    def _take(self) -> None:
        """Move what is in the pipe to the file, as whole lines."""
        with self._reading:
            try:
                data = os.read(self._reader, _READ_BYTES)
            except BlockingIOError:
                return
            lines, newline, self._unfinished = (self._unfinished + data).rpartition(b"\n")
            if len(self._unfinished) > _LONGEST_LINE:
                lines, newline, self._unfinished = lines + newline + self._unfinished, b"\n", b""
            self._append(lines + newline)

    def _append(self, lines: bytes) -> None:
        written = lines.splitlines()
        self._recent.extend(written)
        if written:
            shown = (self._as_object(line) for line in written) if self._as_json else written
            self._file.write(b"".join(line + b"\n" for line in shown if line))

    def _as_object(self, line: bytes) -> bytes:
        if (line.startswith(b'{"') and line.endswith(b"}")) or not line.strip():
            return line.strip()
        level = next((level for level, words in _LEVELS if any(word in line for word in words)), b"info")
        text = line.decode(errors="replace").rstrip()
        facts = {"event": text, "process": self._name, "level": level.decode(), "timestamp": _now()}
        return msgspec.json.encode(facts)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
