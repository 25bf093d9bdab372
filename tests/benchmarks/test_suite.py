"""A whole run of the suite: it keeps the results of other figures when one fails, and leaves no process."""

import io
import signal
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.__main__ import INTERRUPTED, Suite
from benchmarks.bench import Bench
from benchmarks.machine.process_facts import children
from benchmarks.reports.figure import BenchmarkFailed, Figure
from benchmarks.reports.results import read_results
from tests.benchmarks.results_samples import figure
from tests.support.processes import command_of, is_alive, started
from tests.support.waiting import wait_until


def test_a_figure_that_fails_is_reported_and_the_others_are_kept(tmp_path: Path) -> None:
    def failing(bench: Bench) -> list[Figure]:
        raise BenchmarkFailed("no room")

    printed = io.StringIO()
    suite = Suite(Console(file=printed, width=200), Bench(1, 0.1, 0.1, tmp_path, lambda _: None), tmp_path / "r.json")
    suite.measure({"first": lambda _: [figure("first")], "second": failing, "third": lambda _: [figure("third")]})
    taken = read_results(tmp_path / "r.json")
    assert [found.name for found in taken.figures] == ["first", "third"]
    assert taken.failures == {"second": "no room"}
    assert "second failed: no room" in printed.getvalue()


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_an_interrupted_run_leaves_no_process(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    with started("benchmarks", "--only", "small", "--busy", "--seconds", 120, "--output", output) as suite:

        def clients() -> int:
            return sum("benchmarks.loads.client" in command_of(child) for child in children(suite.pid))

        wait_until(lambda: clients() == 3, within=60, what="load is on")
        seen = children(suite.pid)
        suite.send_signal(signal.SIGINT)
        printed, _ = suite.communicate(timeout=60)
    assert suite.returncode == INTERRUPTED
    assert "all started processes have ended" in printed
    assert len(seen) == 7, "Postgres, the API, two limits, a load generator for each server"
    assert not any(map(is_alive, seen))
