"""Log files of `mirrorgate up` stay bounded, lose no line, and hold one JSON object per line."""

import json
import os
import subprocess
import sys
from pathlib import Path

from app.local.child_process import find_start_failure
from app.local.log_files import ChildLog, RotatingFile, Rotation
from mirrorgate.errors import Code
from tests.support.processes import REPOSITORY
from tests.support.waiting import wait_until

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
        "configure_logging(Settings.model_construct()); structlog.get_logger().info('nobody reads this'); os._exit(7)"
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
