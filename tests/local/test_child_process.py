"""Child processes: why they cannot start or ended, when they start again, and their bounded logs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.local.child_process import find_start_failure, run_process
from app.local.log_files import ChildLog, RotatingFile, Rotation
from app.process_endings import EndReasons, RestartDelays
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_until


def without_postgres() -> None:
    try:
        raise OSError("connection refused\nIs the server running?")
    except OSError as error:
        raise TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres does not answer") from error


@pytest.mark.parametrize("is_child", [False, True])
def test_a_process_without_its_database_says_what_an_operator_can_do(
    capsys: pytest.CaptureFixture[str], is_child: bool
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_process(without_postgres, is_child=is_child)
    assert ended.value.code == 1
    written = capsys.readouterr().err
    remedy = json.loads(written)["remedy"] if is_child else written.partition("remedy: ")[2].strip()
    assert remedy == ("Check that Postgres runs and that MIRRORGATE_DATABASE_URL is its address. connection refused")


@pytest.mark.parametrize(
    ("is_accident", "delays"),
    [(False, [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]), (True, [0.2, 0.2, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0])],
)
def test_early_ends_in_a_row_double_the_wait_up_to_a_limit_and_a_long_life_resets_it(
    is_accident: bool, delays: list[float]
) -> None:
    restarts = RestartDelays()
    for _ in range(2):
        waits = [restarts.next_delay(lived_seconds=lived, is_accident=is_accident) for lived in [40.0, *[20.0] * 9]]
        assert waits[: len(delays)] == delays


@pytest.mark.parametrize(
    ("before", "after", "exit_status", "reason"),
    [
        (None, None, 3, "exit code 3"),
        (None, None, -signal.SIGSEGV, "killed by SIGSEGV"),
        (None, None, -signal.SIGKILL, "killed by SIGKILL; out of memory?"),
        (0, 0, -signal.SIGKILL, "killed by SIGKILL"),
        (1, 1, 1, "exit code 1"),
        (1, 2, -signal.SIGKILL, "killed by SIGKILL; out of memory: the kernel killed a process of this control group"),
        (0, 1, 1, "exit code 1; out of memory: the kernel killed a process of this control group"),
        (None, None, -40, "killed by signal 40"),
    ],
)
def test_the_reason_names_the_signal_and_a_kill_for_lack_of_memory_that_the_kernel_counted(
    tmp_path: Path, before: int | None, after: int | None, exit_status: int, reason: str
) -> None:
    counter = tmp_path / "memory.events"

    def count(kills: int | None) -> None:
        if kills is not None:
            counter.write_text(f"low 0\nhigh 0\nmax 7\noom 3\noom_kill {kills}\noom_group_kill 0\n")

    count(before)
    reasons = EndReasons([tmp_path / "missing", counter])
    count(after)
    assert reasons.describe(exit_status) == reason
    assert "memory:" not in reasons.describe(0)


LINES = 20_000


def run(log: ChildLog, program: str) -> int:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=REPOSITORY, stdout=log.descriptor, stderr=log.descriptor, check=False).returncode


def test_a_full_log_rolls_and_only_so_many_older_ones_are_kept(tmp_path: Path) -> None:
    file = RotatingFile(tmp_path / "api.log", Rotation(max_bytes=100, files=2))
    for number in range(10):
        file.write(f"{number:039}\n".encode())
    file.close()
    kept = {path.name: path.read_text().split() for path in tmp_path.iterdir()}
    assert {name: [int(line) for line in lines] for name, lines in kept.items()} == {
        "api.log": [8, 9],
        "api.log.1": [6, 7],
        "api.log.2": [4, 5],
    }


def test_rotation_while_a_child_writes_loses_no_line(tmp_path: Path) -> None:
    with ChildLog(tmp_path / "drain.log", Rotation(max_bytes=2**16, files=1_000)) as log:
        run(log, f"for n in range({LINES}): print('{{\"n\":%d}}' % n, flush=True)")
    files = sorted(tmp_path.iterdir(), key=lambda path: -int(path.suffix[1:]) if path.suffix != ".log" else 1)
    assert len(files) > 3
    assert max(path.stat().st_size for path in files) <= 2**16
    numbers = [json.loads(line)["n"] for path in files for line in path.read_text().splitlines()]
    assert numbers == list(range(LINES))


def test_every_line_is_one_json_object_whatever_a_child_writes(tmp_path: Path) -> None:
    program = """
import subprocess, sys
print('{"event": "its own"}', flush=True)
print("26/11/22 WARN Utils: a JVM's line", flush=True)
subprocess.run(["sh", "-c", "echo not utf-8: '\\\\377' >&2; printf unfinished"])
raise ValueError("a traceback")
"""
    with ChildLog(tmp_path / "drain.log", Rotation()) as log:
        run(log, program)
        assert any(b"a traceback" in line for line in log.recent())
    lines = [json.loads(line) for line in (tmp_path / "drain.log").read_text().splitlines()]
    assert lines[0] == {"event": "its own"}
    assert (lines[1]["process"], lines[1]["level"]) == ("drain", "warning")
    assert [line["level"] for line in lines if "ValueError" in line["event"]] == ["error"]
    assert any(line["event"].endswith("unfinished") or "unfinished" in line["event"] for line in lines)


def test_a_log_that_cannot_be_written_stops_no_process(tmp_path: Path) -> None:
    with ChildLog(tmp_path / "missing" / "api.log", Rotation()) as log:
        assert run(log, "print('x' * 3_000_000)") == 0
    script = (
        "import os, sys; r, w = os.pipe(); os.close(r); os.dup2(w, 2);"
        "from app.settings import Settings; from app.observability.telemetry import configure_logging;"
        "import structlog;"
        "configure_logging(Settings.model_construct()); structlog.get_logger().info('unread'); os._exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, check=False).returncode == 7


def test_logrotate_may_move_or_cut_the_file(tmp_path: Path) -> None:
    path = tmp_path / "api.log"
    file = RotatingFile(path, Rotation())
    file.write(b"one\n")
    path.rename(tmp_path / "moved")
    file.write(b"two\n")
    assert path.read_bytes() == b"two\n"
    os.truncate(path, 0)
    file.write(b"three\n")
    file.close()
    assert path.read_bytes() == b"three\n"


def test_a_restarted_child_goes_on_in_the_same_log(tmp_path: Path) -> None:
    with ChildLog(tmp_path / "api.log", Rotation(), as_json=False) as log:
        run(log, "print('first')")
        wait_until(lambda: (tmp_path / "api.log").exists(), within=60, what="the first line is written")
        run(log, "print('second')")
    assert (tmp_path / "api.log").read_text() == "first\nsecond\n"


def test_the_reason_of_a_child_that_cannot_start_is_found_in_its_last_lines() -> None:
    said = b'{"event": "start_failed", "code": "bad_setting", "detail": "what", "remedy": "do this", "level": "error"}'
    found = find_start_failure([b"a JVM", said, b"Traceback"])
    assert found is not None
    assert (found.code, found.detail, found.remedy) == (Code.BAD_SETTING, "what", "do this")
    assert find_start_failure([b"{", b'{"event": "start_failed"}', b"[]"]) is None
