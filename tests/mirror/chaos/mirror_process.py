"""Mirrors in separate processes: one advances every table of a zone until it is killed, one obeys commands.

They are forked from a server that has imported everything, so that they work within milliseconds.
"""

import resource
import threading
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from app.landing.local_zone import LocalZone
from app.mirror.table_mirror import advance_table
from app.published.table_files import list_tables
from mirrorgate.errors import TemporarilyUnavailable
from tests.mirror.model.history import Mirror
from tests.mirror.model.zone_writer import TableWriter
from tests.support.processes import forked, preload

_IDLE_SECONDS: Final = 0.005
preload(__name__)


class RunningMirror:
    """A mirror that works until it is killed, and tells how long each of its commits took."""

    def __init__(self, mirror: Mirror, log: Path) -> None:
        self._reports, theirs = Pipe(duplex=False)
        self._process = forked(_follow, mirror, theirs, log=log)
        theirs.close()

    def next_commit(self) -> float:
        """Wait for the next commit; return its seconds. Raise AssertionError if the mirror ends, or makes none."""
        try:
            assert self._reports.poll(60), "the mirror made no commit within 60 s"
            return float(self._reports.recv())
        except EOFError:
            raise AssertionError("the mirror ended") from None

    def kill_after(self, seconds: float) -> None:
        self._process.join(seconds)
        self._process.kill()
        self._process.join()


def _follow(mirror: Mirror, reports: Connection) -> None:
    zone, target = LocalZone(mirror.root), mirror.target
    reached: dict[str, tuple[int, int]] = {}
    while True:
        idle = True
        for table in list_tables(zone):
            begin = time.monotonic()
            try:
                report = advance_table(zone, target, table, mirror.limits)
            except (OSError, TemporarilyUnavailable):
                continue  # the folder is being dropped
            position = (report.generation, report.file_number)
            if reached.setdefault(report.table, (0, 0)) != position:
                reached[report.table] = position
                reports.send(time.monotonic() - begin)
                idle = False
        if idle:
            threading.Event().wait(_IDLE_SECONDS)


class CommandedMirror:
    """A mirror that advances a table when it is told to; its files cannot grow beyond a size, if one is given."""

    def __init__(self, mirror: Mirror, max_file_bytes: int | None = None) -> None:
        self._commands, theirs = Pipe()
        self._process = forked(_obey, mirror, max_file_bytes, theirs)
        theirs.close()

    def __enter__(self) -> "CommandedMirror":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def begin(self, writer: TableWriter) -> None:
        self._commands.send(writer)

    def result(self) -> tuple[int, int] | None:
        """Return the generation and file that the attempt left the table at; None if it raised OSError."""
        assert self._commands.poll(60), "no answer within 60 s"
        answer: tuple[int, int] | None = self._commands.recv()
        return answer


def _obey(mirror: Mirror, max_file_bytes: int | None, commands: Connection) -> None:
    if max_file_bytes is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, max_file_bytes))
    while True:
        writer = commands.recv()
        try:
            report = mirror.advance(writer)
        except OSError:
            commands.send(None)
        else:
            commands.send((report.generation, report.file_number))
