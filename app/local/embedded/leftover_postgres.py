"""Find and stop the Postgres that a killed gateway left running."""

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
    """The contents of `postmaster.pid`, which a running Postgres writes."""

    pid: int
    ready: bool

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the lock file; None if it is missing or not completely written yet."""
        try:
            lines = (folder / "postmaster.pid").read_text().splitlines()
            return cls(pid=int(lines[0]), ready=len(lines) > 7 and lines[7].strip() == "ready")
        except (FileNotFoundError, IndexError, ValueError):
            return None


def stop_leftover(folder: Path) -> LockFile | None:
    """Stop a Postgres that runs on `folder`; return the lock file that is left, if any.

    A remaining lock file names a process that is gone; the pid may belong to another program by now.
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
    """Return True if `pid` is a Postgres server with its data in `folder`; the kernel may have reused the pid."""
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
