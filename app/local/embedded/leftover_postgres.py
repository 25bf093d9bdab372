"""The Postgres that an earlier gateway left behind when it was killed: finding it, and stopping it."""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import structlog

from app.errors import Code, Misconfigured
from app.local.embedded.deadline import holds_within

_log = structlog.get_logger()
_STOP_WITHIN: Final = 30.0


@dataclass(frozen=True, slots=True)
class LockFile:
    """What Postgres says about itself in `postmaster.pid`."""

    pid: int
    ready: bool

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """None where there is no such file, or Postgres is about to write it."""
        try:
            lines = (folder / "postmaster.pid").read_text().splitlines()
            return cls(pid=int(lines[0]), ready=len(lines) > 7 and lines[7].strip() == "ready")
        except (FileNotFoundError, IndexError, ValueError):
            return None


def stop_leftover(folder: Path) -> LockFile | None:
    """Stop the Postgres that runs on `folder`, if one does; the lock file that is still there, if one is.

    A lock file that stays names a process that is gone; its pid may be another program's by now.
    """
    found = LockFile.read(folder)
    if found is not None and _runs_on(folder, found.pid):
        _log.warning("postgres_leftover_stopped", folder=str(folder), pid=found.pid)
        for stop_signal in (signal.SIGINT, signal.SIGKILL):
            _send(found.pid, stop_signal)
            if holds_within(_STOP_WITHIN, lambda: not _runs_on(folder, found.pid)):
                break
    return LockFile.read(folder)


def _send(pid: int, stop_signal: signal.Signals) -> None:
    try:
        os.kill(pid, stop_signal)
    except ProcessLookupError:
        return
    except PermissionError as error:
        raise Misconfigured(
            Code.POSTGRES_FAILED,
            f"a Postgres with pid {pid}, left from an earlier run, belongs to another user",
            remedy=f"Stop it as that user or as root: kill -INT {pid}",
        ) from error


def _runs_on(folder: Path, pid: int) -> bool:
    """Whether `pid` is a live Postgres server whose data is in `folder`; the kernel may have reused the number."""
    words = _command_line(pid)
    if not words or Path(words[0]).name != "postgres" or "-D" not in words[:-1]:
        return False
    given = Path(words[words.index("-D") + 1])
    return given == folder or given.resolve() == folder.resolve()


def _command_line(pid: int) -> list[str]:
    if Path("/proc/self/cmdline").exists():
        try:
            return [os.fsdecode(word) for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
        except (FileNotFoundError, ProcessLookupError):
            return []
    shown = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.split()
