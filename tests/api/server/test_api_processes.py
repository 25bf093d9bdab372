"""Several API processes on one port: a slow start is no failure, and each replacement is logged with its reason."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import pytest
from uvicorn.config import STARTUP_FAILURE

from tests.support.http.server import listens
from tests.support.processes import read_line, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

PROGRAM: Final = "tests.api.server.api_processes"
LONG: Final = 600
SILENT: Final = 3
"""Seconds that a serving process may be silent here."""

Line = dict[str, Any]


def read_until(process: "subprocess.Popen[str]", event: str, *, times: int = 1) -> list[Line]:
    """Return the supervisor's log lines until the last of `times` lines of an event, without other looks."""
    lines: list[Line] = []
    give_up = time.monotonic() + 90
    while sum(line["event"] == event for line in lines) < times:
        assert time.monotonic() < give_up, f"no {times} lines {event}: {lines}"
        line = json.loads(read_line(process))
        if line["event"] == event or line["event"] != "looked":
            lines.append(line)
    return lines


def pids(folder: Path) -> list[int]:
    file = folder / "starts"
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


def open_gate(folder: Path) -> None:
    (folder / "gate").touch()


def test_processes_that_start_slowly_are_not_replaced_and_api_started_is_logged_when_the_port_is_open(
    tmp_path: Path,
) -> None:
    with started(PROGRAM, tmp_path, LONG, SILENT) as process:
        wait_until(lambda: len(pids(tmp_path)) == 2, within=60, what="both processes begin to start")
        looks = read_until(process, "looked", times=4 * SILENT)  # two looks a second
        assert {line["event"] for line in looks} == {"looked"}
        open_gate(tmp_path)
        lines = read_until(process, "api_started")
        assert listens(lines[-1]["port"])
        assert [line["event"] for line in lines] == ["api_process_serves", "api_started"]
        assert lines[0]["pid"] in pids(tmp_path)
        assert len(pids(tmp_path)) == 2
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGKILL, "killed by SIGKILL"), (signal.SIGSTOP, f"it did not answer within {SILENT} seconds")],
)
def test_a_process_that_is_killed_or_hangs_is_replaced_with_a_line_that_says_why(
    tmp_path: Path, number: signal.Signals, reason: str
) -> None:
    open_gate(tmp_path)
    with started(PROGRAM, tmp_path, LONG, SILENT) as process:
        read_until(process, "api_process_serves", times=2)
        chosen, other = pids(tmp_path)
        gauges = [tmp_path / f"gauge_livesum_{pid}.db" for pid in (chosen, other)]
        for gauge in gauges:
            gauge.touch()
        os.kill(chosen, number)
        lines = read_until(process, "api_process_serves")
        (ended,) = [line for line in lines if line.get("pid") == chosen]
        assert (ended["event"], ended["level"], ended["restart_in_seconds"]) == ("api_process_ended", "warning", 0.2)
        assert ended["reason"].startswith(reason)
        assert lines[-1]["pid"] == pids(tmp_path)[2]
        assert "api_started" not in {line["event"] for line in lines}
        assert [gauge.exists() for gauge in gauges] == [False, True]


def test_a_start_without_end_is_logged_as_the_reason_of_its_replacement_and_a_stop_does_not_wait_for_it(
    tmp_path: Path,
) -> None:
    with started(PROGRAM, tmp_path, 1, SILENT) as process:
        lines = read_until(process, "api_process_ended", times=3)
        assert {line["reason"] for line in lines} == {"it has not started within 1 seconds"}
        assert len({line["pid"] for line in lines}) == 3
        process.terminate()
        assert process.wait(60) == 0


def test_processes_that_cannot_start_end_the_api_with_a_failure(tmp_path: Path) -> None:
    open_gate(tmp_path)
    with started(PROGRAM, tmp_path, LONG, SILENT, STARTUP_FAILURE) as process:
        (line,) = read_until(process, "api_process_cannot_start")
        assert (line["reason"], line["level"]) == (f"exit code {STARTUP_FAILURE}", "error")
        assert process.wait(60) == STARTUP_FAILURE


def test_processes_that_end_at_each_start_are_started_less_and_less_often(tmp_path: Path) -> None:
    open_gate(tmp_path)
    with started(PROGRAM, tmp_path, LONG, SILENT, 1) as process:
        lines = read_until(process, "api_process_ended", times=5)
        assert {line["reason"] for line in lines} == {"exit code 1"}
        assert max(line["restart_in_seconds"] for line in lines) >= 0.8
