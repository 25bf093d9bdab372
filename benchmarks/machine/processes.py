"""The benchmark's child processes: each in its own session, so that Ctrl-C reaches only the benchmark."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from benchmarks.machine.description import REPOSITORY
from benchmarks.reports.figure import BenchmarkFailed

_STOP_TIMEOUT_SECONDS: Final = 20.0


@contextmanager
def started(
    name: str,
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[bytes] = subprocess.DEVNULL,
    stderr: int | None = None,
    log_file: Path | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process as long as the block; then ask it to stop, and end it with all that it started.

    Its output goes to `log_file` if one is given. Raises BenchmarkFailed when it cannot be started.
    """
    with (log_file or Path(os.devnull)).open("ab") as log:
        try:
            process = subprocess.Popen(
                command,
                cwd=REPOSITORY,
                env={**os.environ, **(environment or {})},
                stdin=stdin,
                stdout=log if log_file and stdout == subprocess.DEVNULL else stdout,
                stderr=log if log_file else stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise BenchmarkFailed(f"{name} did not start: {error}") from error
    try:
        yield process
    finally:
        stop(process)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a process and its group; does nothing for one that has ended."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run_to_end(
    name: str, command: Sequence[str], *, given: bytes = b"", environment: Mapping[str, str] | None = None
) -> bytes:
    """Run a process with `given` as its input and return its output.

    Raises BenchmarkFailed with the last lines of its errors when it fails.
    """
    pipe = subprocess.PIPE
    with started(name, command, environment=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        output, errors = process.communicate(given)
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise BenchmarkFailed(f"{name} failed: {' '.join(lines[-2:])}")
    return output
