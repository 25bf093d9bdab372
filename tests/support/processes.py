"""Real processes in tests: start a module of this repository, and check whether a process lives."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

REPOSITORY = Path(__file__).resolve().parents[2]


@contextmanager
def started(module: str, *arguments: object, stdin: int | None = None) -> Iterator["subprocess.Popen[str]"]:
    """`python -m module arguments…` from the repository, its output on pipes; killed at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=REPOSITORY,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        _widen(process.stderr)
        try:
            yield process
        finally:
            process.kill()


def _widen(pipe: IO[str] | None) -> None:
    """Let a process log a megabyte before it is read; it would block on a full pipe."""
    if pipe is not None and sys.platform == "linux":
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 2**20)


def read_line(process: "subprocess.Popen[str]") -> str:
    """Return the next line of the process's standard output; fail with its standard error if there is none."""
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline().strip()
    if not line:
        process.kill()
        raise AssertionError(f"the process ended: {process.stderr.read()}")
    return line


def is_alive(pid: int) -> bool:
    """Return whether `pid` runs; a zombie process does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return not Path("/proc/self/stat").exists()


class Died(BaseException):
    """The process is gone: nothing after this point runs."""


def die(*_: object, **__: object) -> None:
    raise Died
