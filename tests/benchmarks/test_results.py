"""Results of a whole run: on disk, as a table, compared with earlier ones, and kept when a figure fails."""

import io
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from benchmarks.__main__ import INTERRUPTED, Suite, parse_arguments, require_idle, show
from benchmarks.bench import Bench
from benchmarks.figures import GOALS, NAMES, find_figures
from benchmarks.machine.description import describe_machine, describe_versions
from benchmarks.machine.process_facts import children
from benchmarks.reports import report
from benchmarks.reports.bottlenecks import BOTTLENECKS
from benchmarks.reports.comparison import compare_results, setting_differences
from benchmarks.reports.figure import BenchmarkFailed, Figure, Goal, Measured, Of
from benchmarks.reports.report import page
from benchmarks.reports.results import (
    MAX_IDLE_LOAD,
    MISSED,
    Results,
    caveats,
    expand_units,
    goals_table,
    markdown,
    read_results,
    write_results,
)
from tests.benchmarks.results_samples import figure, results
from tests.support.processes import command_of, is_alive, started
from tests.support.waiting import wait_until

BUSY = msgspec.structs.replace(results().machine, load_before=MAX_IDLE_LOAD)


def test_results_are_read_as_written(tmp_path: Path) -> None:
    taken = results(figure(goal=Goal(0.5, at_least=True)), figure("small"), failures={"drain": "a reason"})
    write_results(tmp_path / "new" / "results.json", taken)
    assert read_results(tmp_path / "new" / "results.json") == taken


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"figures": []}'])
def test_a_file_without_results_is_rejected_by_name(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "other.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BenchmarkFailed, match=r"other\.json holds no results"):
        read_results(file)


def test_the_table_of_goals_has_every_figure_with_a_goal() -> None:
    count = Figure("f", "Functions", "functions", Measured.of([71]), goal=Goal(70, at_least=False, of=Of.VALUE))
    rows = goals_table([figure(goal=Goal(0.5, at_least=True)), figure("without"), count]).splitlines()
    assert rows == [
        "| figure | unit | median | limit | ratio | goal | reached |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| Title of bulk | changes/s | 60 | 100 | 0.60 | ≥ 0.50 | yes |",
        "| Functions | functions | 71 |  |  | value ≤ 70 | no |",
    ]


def test_the_table_of_goals_is_printed_last() -> None:
    printed = io.StringIO()
    show(Console(file=printed, width=200), results(figure(goal=Goal(0.5, at_least=True)), figure("without")))
    _, _, goals = printed.getvalue().rpartition("Goals")
    assert "≥ 0.50" in goals
    assert "without" not in goals


def test_results_say_which_figure_failed_and_why() -> None:
    assert "- drain was not measured: a reason" in markdown(results(figure(), failures={"drain": "a reason"}))


def test_the_setting_has_machine_commit_versions_and_runs() -> None:
    text = markdown(results(figure()))
    for fact in ("a cpu, 2 cores, 24 GiB", "Commit 0123456789", "Python 3.11.7", "Postgres 18.4", "3 runs of 8 s"):
        assert fact in text


def test_a_change_beyond_the_spread_of_the_runs_is_flagged() -> None:
    new = results(figure("a", value=(80, 90, 100)), figure("b", value=(60, 65, 70)), figure("only new"))
    old = results(figure("a", value=(40, 45, 50)), figure("b", value=(50, 60, 62)), figure("only old"))
    first, second = compare_results(new, old)
    assert (first.title, first.value, first.ratio, first.is_beyond_spread) == ("Title of a", 2.0, 2.0, True)
    assert (second.title, second.is_beyond_spread) == ("Title of b", False)


def test_a_machine_that_is_slower_as_a_whole_changes_no_ratio() -> None:
    (moved,) = compare_results(
        results(figure(value=(25, 30), limit=(50, 60))), results(figure(value=(50, 60), limit=(100, 120)))
    )
    assert (moved.value, moved.ratio, moved.is_beyond_spread) == (0.5, 1.0, False)


def test_different_settings_are_reported() -> None:
    assert setting_differences(results(), results()) == []
    assert setting_differences(results(), results(scale=0.1)) == ["scale: 1.0, before 0.1"]


def test_machine_and_versions_are_found() -> None:
    machine, versions = describe_machine(), describe_versions()
    assert machine.cpu
    assert machine.cores >= 1
    assert versions.postgres.startswith("18.")
    assert "not installed" not in versions.packages.values()


def test_figures_are_chosen_by_name() -> None:
    assert parse_arguments(["--only", "bulk,small-10"]).only == ["bulk", "small_10"]
    assert parse_arguments([]).only is None


def test_the_goals_are_figures_that_can_be_measured() -> None:
    assert parse_arguments(["--goals"]).goals
    assert find_figures(GOALS).keys() == {*GOALS}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "bulk,bulky"], f"unknown figure bulky; use one of {', '.join(NAMES)}"),
        (["--runs", "0"], "0 is not an integer above 0"),
        (["--scale", "big"], "big is not a number above 0"),
        (["--run", "3", "--fast"], "--fast"),
    ],
)
def test_an_invalid_option_is_rejected_with_the_valid_values(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_arguments(words)
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_missed_goal_is_shown_with_its_bottleneck() -> None:
    missed, reached = figure("small", goal=Goal(0.9, at_least=True)), figure("bulk", goal=Goal(0.1, at_least=True))
    text = markdown(results(missed, reached))
    assert f"- {missed.title}: {BOTTLENECKS['small']}" in text
    assert BOTTLENECKS["bulk"] not in text
    assert MISSED not in markdown(results(reached))


def test_short_runs_on_a_busy_machine_carry_a_caveat() -> None:
    rough = results(scale=0.1)
    assert "short" in caveats(rough)
    assert caveats(rough) in page(rough, growth=None)
    idle = msgspec.structs.replace(rough.machine, load_before=0.0)
    assert caveats(results(seconds=60.0, machine=idle)) == ""
    assert "not idle" in caveats(results(seconds=60.0, machine=BUSY))


def test_a_full_length_run_does_not_start_on_a_busy_machine(tmp_path: Path) -> None:
    full = Bench(3, 8.0, 1.0, tmp_path, lambda _: None)
    with pytest.raises(BenchmarkFailed, match=r"load over the last minute is 0\.30.*--busy"):
        require_idle(full, MAX_IDLE_LOAD, busy=False)
    require_idle(full, MAX_IDLE_LOAD, busy=True)
    require_idle(full, MAX_IDLE_LOAD - 0.01, busy=False)
    require_idle(replace(full, seconds=1.0), 5.0, busy=False)


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Publish results into a folder by the command, and return its status."""

    def run(taken: Results, *options: str) -> int:
        write_results(tmp_path / "r.json", taken)
        for name in ("REFERENCE", "LATER_RUNS", "REFERENCE_GROWTH", "PAGE", "SIZING_PAGE"):
            monkeypatch.setattr(report, name, tmp_path / "published" / name)
        monkeypatch.setattr(sys, "argv", ["report", *options, "--results", str(tmp_path / "r.json")])
        return report.main()

    return run


@pytest.mark.parametrize(
    ("changed", "reason"), [({"seconds": 1.0}, "short"), ({"runs": 1}, "few"), ({"machine": BUSY}, "not idle")]
)
def test_rough_results_are_not_published(
    changed: dict[str, object], reason: str, publish: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert publish(results(figure(), **changed)) == 2
    errors = capsys.readouterr().err
    assert reason in errors
    assert "--busy" in errors
    assert not report.REFERENCE.exists()


def test_rough_results_are_published_with_the_override(publish: Callable[..., int]) -> None:
    assert publish(results(figure(), seconds=1.0), "--busy") == 0
    assert "**Accuracy.**" in report.PAGE.read_text(encoding="utf-8")


def test_figures_of_later_runs_replace_those_of_the_first_and_the_page_names_each_run() -> None:
    first = results(figure("bulk", value=(10, 20, 30)), figure("drain", value=(40, 50, 60)))
    later = results(figure("bulk", value=(70, 80, 90)), figure("small"), taken_at="later")
    newest = results(figure("small", value=(1, 2, 3)), taken_at="last")
    text = page(first, growth=None, later=[later, newest])
    assert "| Title of bulk | changes/s | 80 (70 to 90) |" in text
    assert "| Title of drain | changes/s | 50 (40 to 60) |" in text
    assert text.count("| Title of bulk |") == text.count("| Title of small |") == 1
    assert "| Title of small | changes/s | 2 (1 to 3) |" in text
    assert text.index("The figures `small` were measured in this run") < text.index("taken last")
    assert text.index("taken last") < text.index("The figures `bulk` were measured in this run")
    assert "taken later" in text
    assert f"taken {first.taken_at}" in text


def test_uncommitted_changes_are_recorded() -> None:
    taken = results(figure())
    dirty = results(figure(), versions=msgspec.structs.replace(taken.versions, dirty=True))
    assert "with uncommitted changes" in markdown(dirty)
    assert "with uncommitted changes" not in markdown(taken)


def test_abbreviated_numbers_of_earlier_results_are_written_out() -> None:
    assert expand_units("meanwhile 67.1k changes/s; 3.26M rows/s; 45.65 ms; 16 MB") == (
        "meanwhile 67,100 changes/s; 3,260,000 rows/s; 45.65 ms; 16 MB"
    )


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
