"""Real processes in tests: start modules, programs and forks, and ask what a process does."""

import faulthandler
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any, Final

from tests.support.waiting import wait_until

REPOSITORY = Path(__file__).resolve().parents[2]
_PREFIX: Final = "MIRRORGATE_"
_fork_server = get_context("forkserver")


def environment_with(**settings: object) -> dict[str, str]:
    """Return this process's environment with these settings of Mirrorgate and no others."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIX)}
    return others | {f"{_PREFIX}{name}": str(value) for name, value in settings.items()}


@contextmanager
def started(
    module: str, *arguments: object, stdin: int | None = None, environment: dict[str, str] | None = None
) -> Iterator["subprocess.Popen[str]"]:
    """`python -m module arguments…` from the repository, its output on pipes; killed at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=REPOSITORY,
        env=environment,
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


def finished(
    *command: object, environment: dict[str, str] | None = None, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a program in the repository until it ends, for a minute at most; return its status and what it printed.

    `options` are those of subprocess.run.
    """
    usual: dict[str, Any] = {"cwd": REPOSITORY, "capture_output": True, "text": True, "timeout": 60}
    return subprocess.run([*map(str, command)], env=environment, check=False, **usual | options)


def succeeded(*command: object, **options: Any) -> str:
    """Run a program as `finished` does; return its standard output. Fail with all that it printed if it fails."""
    ran = finished(*command, **options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def start_program(
    log: Path,
    *command: object,
    environment: dict[str, str] | None = None,
    ready: Callable[[], bool] | None = None,
    **options: Any,
) -> "subprocess.Popen[bytes]":
    """Start a program that appends its output to a log; with `ready`, return once that is true.

    Fail with the end of the log if it ends before. `options` are those of Popen.
    """
    with log.open("ab") as file:
        streams: dict[str, Any] = {"cwd": REPOSITORY, "stdout": file, "stderr": file}
        process = subprocess.Popen([*map(str, command)], env=environment, **streams | options)
    try:
        if ready is not None:
            wait_until(lambda: process.poll() is not None or ready(), within=60, what=f"{command[0]} is ready")
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


@contextmanager
def program(log: Path, *command: object, **options: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program as `start_program` starts it; end it with SIGTERM. Fail if it ends before the block does."""
    process = start_program(log, *command, **options)
    try:
        yield process
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
    finally:
        process.terminate()
        process.wait(60)


def preload(*modules: str) -> None:
    """Let the server of `forked` import these modules before its first fork, so that a start takes no second."""
    _fork_server.set_forkserver_preload([*modules])


def forked(
    target: Callable[..., object], *arguments: object, log: Path | None = None, name: str | None = None
) -> BaseProcess:
    """Call a function in a process forked from a server, which ends once this process is gone.

    With a log, all that it prints is appended there.
    """
    given = (os.getpid(), log, target, *arguments)
    process = _fork_server.Process(target=_in_fork, args=given, daemon=True, name=name)
    process.start()
    return process


def _in_fork(parent: int, log: Path | None, target: Callable[..., object], *arguments: object) -> None:
    if log is not None:
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        faulthandler.enable()

    def follow() -> None:
        while is_alive(parent):
            threading.Event().wait(1.0)
        os._exit(1)

    threading.Thread(target=follow, name="end-with-harness", daemon=True).start()
    target(*arguments)


def is_alive(pid: int) -> bool:
    """Return whether `pid` runs; a zombie process does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return state_of(pid) not in "ZX" or not Path("/proc/self/stat").exists()


def state_of(pid: int) -> str:
    """Return the letter of a process's state, such as T for a stopped one; empty if it is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def command_of(pid: int) -> list[str]:
    """Return the words of a process's command; empty if it is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return []


class Died(BaseException):
    """The process is gone: nothing after this point runs."""


def die(*_: object, **__: object) -> None:
    raise Died
