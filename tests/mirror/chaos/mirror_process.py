"""Mirrors in processes of their own: one advances every table of a zone until it is killed, one has a full disk.

They are forked from a server that has imported everything, so that they work within milliseconds.
"""

import os
import resource
import threading
import time
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from app.landing.local_zone import LocalZone
from app.mirror.table_mirror import MirrorLimits, advance_table
from app.mirror.target import MirrorTarget
from app.published.table_files import PublishedTable, list_tables
from mirrorgate.errors import TemporarilyUnavailable

_fork_server = get_context("forkserver")
_fork_server.set_forkserver_preload(["tests.mirror.chaos.mirror_process"])
_IDLE_SECONDS: Final = 0.005


@dataclass(frozen=True)
class MirrorOrder:
    """What a process mirrors, and where it writes errors that end it."""

    root: Path
    location: Path
    log: Path
    limits: MirrorLimits


class RunningMirror:
    """A mirror that works until it is killed, and tells how long each of its commits took."""

    def __init__(self, order: MirrorOrder) -> None:
        self._reports, theirs = _fork_server.Pipe(duplex=False)
        self._process = _fork_server.Process(target=_mirror, args=(order, theirs, os.getpid()), daemon=True)
        self._process.start()
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


def _mirror(order: MirrorOrder, reports: Connection, parent: int) -> None:
    os.dup2(os.open(order.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), 2)
    zone, target = LocalZone(order.root), MirrorTarget(str(order.location))
    reached: dict[str, tuple[int, int]] = {}
    while _is_alive(parent):
        idle = True
        for table in list_tables(zone):
            begin = time.monotonic()
            try:
                report = advance_table(zone, target, table, order.limits)
            except (OSError, TemporarilyUnavailable):
                continue  # the folder is being dropped
            position = (report.generation, report.file_number)
            if reached.setdefault(report.table, (0, 0)) != position:
                reached[report.table] = position
                reports.send(time.monotonic() - begin)
                idle = False
        if idle:
            threading.Event().wait(_IDLE_SECONDS)


class Rival:
    """A mirror that advances a table when it is told to, at the same moment as another."""

    def __init__(self, order: MirrorOrder) -> None:
        self._ours, self._theirs = _fork_server.Pipe()
        self._process = _fork_server.Process(target=_advance_on_command, args=(order, self._theirs), daemon=True)

    def __enter__(self) -> "Rival":
        self._process.start()
        self._theirs.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def begin(self, folder: str) -> None:
        self._ours.send(folder)

    def result(self) -> tuple[int, int] | None:
        """Return the generation and file that the attempt left the table at; None if it raised OSError."""
        assert self._ours.poll(60), "no answer within 60 s"
        answer: tuple[int, int] | None = self._ours.recv()
        return answer


def _advance_on_command(order: MirrorOrder, commands: Connection) -> None:
    zone, target = LocalZone(order.root), MirrorTarget(str(order.location))
    while True:
        table = PublishedTable.at(commands.recv())
        try:
            report = advance_table(zone, target, table, order.limits)
        except OSError:
            commands.send(None)
        else:
            commands.send((report.generation, report.file_number))


def advance_with_small_files(order: MirrorOrder, folder: str, max_bytes: int) -> int | str:
    """Advance one table in a process whose files cannot grow beyond a size; return its last file, or the OSError."""
    ours, theirs = _fork_server.Pipe(duplex=False)
    process = _fork_server.Process(target=_advance_with_small_files, args=(order, folder, max_bytes, theirs))
    process.start()
    theirs.close()
    assert ours.poll(60), "no answer within 60 s"
    answer: int | str = ours.recv()
    process.join()
    return answer


def _advance_with_small_files(order: MirrorOrder, folder: str, max_bytes: int, answers: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))
    zone, target = LocalZone(order.root), MirrorTarget(str(order.location))
    try:
        answers.send(advance_table(zone, target, PublishedTable.at(folder), order.limits).file_number)
    except OSError as error:
        answers.send(str(error))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
