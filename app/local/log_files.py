"""Logs of `mirrorgate up`: rotating files with one JSON object per line whatever a process writes.

`ChildLog` gives a child a pipe to write to. It reads the pipe in the supervisor and appends to a rotating file, so that
rotation loses no line and needs no cooperation from a JVM or from Postgres (decision 0004).

`configure_up_logging` decides where `mirrorgate up` writes its own log events: JSON for services, a file and short
warnings for people.
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
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from rich.console import Console

from app.observability.telemetry import LogEvent, configure_logging
from app.settings import LogFormat, Settings

_READ_BYTES: Final = 2**16
_PIPE_BYTES: Final = 2**20
"""Capacity of the pipe. The default of 64 KiB would block a busy child until the reader is scheduled."""
_F_SETPIPE_SZ: Final = 1031
"""The fcntl command on Linux; other systems keep their default capacity."""
_PAUSE: Final = 0.02
"""Seconds between two reads, so that a busy API causes 50 wake-ups a second instead of one per request."""
_MAX_READS: Final = 4 * _PIPE_BYTES // _READ_BYTES
"""Maximum reads to empty the pipe, so that a child that never stops writing cannot hold its reader forever."""
_RECENT_LINES: Final = 50
_MAX_LINE_BYTES: Final = 2**20
_DRAIN_WITHIN: Final = 2.0

_LEVELS: Final = (
    (b"error", (b"ERROR", b"FATAL", b"PANIC", b"Error", b"Exception")),
    (b"warning", (b"WARN",)),
)


@dataclass(frozen=True, slots=True)
class Rotation:
    """Rotate a log file before it exceeds `max_bytes`; keep `files` older ones."""

    max_bytes: int = 64 * 2**20
    files: int = 5


class RotatingFile(io.RawIOBase):
    """Log file at `path`; a full one becomes `path.1`, `path.1` becomes `path.2` and so on. Works alongside logrotate.

    Methods never raise OSError: a log that cannot be written must not stop the gateway. After a crash during a
    rotation, at most one number is missing among the older files; no line is lost.
    """

    def __init__(self, path: Path, rotation: Rotation) -> None:
        self._path = path
        self._rotation = rotation
        self._descriptor: int | None = None

    def write(self, lines: Any, /) -> int:
        """Append complete lines; return the number of bytes given."""
        left = bytes(lines)
        with suppress(OSError):
            while left:
                descriptor = self._opened()
                size = os.fstat(descriptor).st_size
                fits = self._fitting(left, self._rotation.max_bytes - size, is_empty=size == 0)
                _write_all(descriptor, left[:fits])
                left = left[fits:]
                if left:
                    self._rotate()
        return len(lines)

    def _fitting(self, lines: bytes, room: int, *, is_empty: bool) -> int:
        """Return how many bytes of complete lines fit into the current file. A line larger than a file gets its own."""
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
        """Return the descriptor of the file at `path`, reopened if another program has moved the file away."""
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
    """The log of a child across its restarts. Start the child with `descriptor` as its standard output and error.

    With `as_json`, a line that is not a JSON object becomes one: `{"event": <line>, "process": <name>, …}`. If this
    process dies, later output of the child is lost: its writes fail with EPIPE.
    """

    def __init__(self, path: Path, rotation: Rotation, *, as_json: bool = True) -> None:
        self.path = path
        self._name = path.stem
        self._file = RotatingFile(path, rotation)
        self._as_json = as_json
        self._recent: deque[bytes] = deque(maxlen=_RECENT_LINES)
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

    def __exit__(self, *_: object) -> None:
        os.close(self._close)
        self._thread.join(_DRAIN_WITHIN)
        self._read_all()
        for descriptor in (self._reader, self.descriptor, self._closing):
            os.close(descriptor)
        with self._reading:
            self._append(self._unfinished and self._unfinished + b"\n")
            self._unfinished = b""
        self._file.close()

    def recent(self) -> Sequence[bytes]:
        """Return the last lines as the child wrote them, including what is still in the pipe."""
        self._read_all()
        with self._reading:
            return [*self._recent, *([self._unfinished] if self._unfinished else [])]

    def _follow(self) -> None:
        pause = threading.Event()
        while True:
            ready, _, _ = select.select([self._reader, self._closing], [], [])
            if self._closing in ready:
                return
            self._read()
            pause.wait(_PAUSE)

    def _read_all(self) -> None:
        for _ in range(_MAX_READS):
            if not self._waiting():
                return
            self._read()

    def _waiting(self) -> int:
        """Return the number of bytes in the pipe."""
        return int.from_bytes(fcntl.ioctl(self._reader, termios.FIONREAD, bytes(4)), sys.byteorder)

    def _read(self) -> None:
        """Move the contents of the pipe to the file, in complete lines."""
        with self._reading:
            try:
                data = os.read(self._reader, _READ_BYTES)
            except BlockingIOError:
                return
            lines, newline, self._unfinished = (self._unfinished + data).rpartition(b"\n")
            if len(self._unfinished) > _MAX_LINE_BYTES:
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
        facts = {"event": text, "process": self._name, "level": level.decode(), "timestamp": datetime.now(UTC)}
        return msgspec.json.encode(facts)


def configure_up_logging(settings: Settings, data_dir: Path, console: Console) -> None:
    """Configure logging for a service or for a terminal.

    A service gets JSON lines on standard error. On a terminal, log events go to `up.log`, and only warnings and errors
    are shown, in words. The file is created with its first line, never before the data directory exists.
    """
    if not console.is_terminal or settings.log_format is not LogFormat.JSON:
        configure_logging(settings)
        return
    file = RotatingFile(data_dir.absolute() / "up.log", Rotation(settings.log_bytes, settings.log_files))
    configure_logging(settings, file, show=partial(_show, console))


def _show(console: Console, event: LogEvent) -> None:
    """Print a warning or an error in words: its detail and remedy, else its name and facts."""
    facts = {name: value for name, value in event.items() if name not in {"event", "level", "timestamp"}}
    told = [str(facts[name]) for name in ("detail", "remedy") if facts.get(name)]
    words = str(event["event"]).replace("_", " ")
    text = ". ".join(told) or ", ".join([words, *(f"{name.replace('_', ' ')} {fact}" for name, fact in facts.items())])
    console.print(f"{event['level']}: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True)
