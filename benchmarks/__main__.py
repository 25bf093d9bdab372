"""Measure every figure and its limit, in the same run on the same machine."""

import argparse
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx
import msgspec
import sqlalchemy as sa
import structlog
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from app.local.supervisor import stop_signals_interrupt
from benchmarks.bench import Bench
from benchmarks.figures import GOALS, NAMES, Measure, figure_summaries, find_figures
from benchmarks.gateway import clear_settings
from benchmarks.machine.description import CACHE, REPOSITORY, describe_machine, describe_versions
from benchmarks.reports.comparison import compare_results, setting_differences
from benchmarks.reports.figure import BenchmarkFailed, Figure, ratio_text, readable
from benchmarks.reports.results import (
    FULL_RUNS,
    FULL_SCALE,
    FULL_SECONDS,
    GOAL_HEADINGS,
    HEADINGS,
    MAX_IDLE_LOAD,
    Results,
    cells,
    goal_cells,
    markdown,
    missed_goals,
    read_results,
    setting_lines,
    with_goals,
    write_results,
)
from mirrorgate.errors import MirrorgateError

RESULTS: Final = REPOSITORY / "benchmarks" / "results"
INTERRUPTED: Final = 130


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line; exit with a usage message for an invalid option."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="list the figures and exit")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--only", type=_names, metavar="NAME,…", help="measure only these figures")
    chosen.add_argument("--goals", action="store_true", help=f"measure only {', '.join(GOALS)}")
    parser.add_argument("--busy", action="store_true", help="start a full-length run on a busy machine too")
    parser.add_argument("--runs", type=_positive(int), help=f"runs per figure (default: {FULL_RUNS})")
    parser.add_argument(
        "--seconds", type=_positive(float), help=f"seconds per run under load (default: {FULL_SECONDS:g})"
    )
    parser.add_argument(
        "--scale", type=_positive(float), help="size of backlogs, as a factor; the goals are about 1 (default: 1)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="use 2 runs of 2 s at scale 0.02 unless given; takes 3 minutes"
    )
    parser.add_argument("--compare", type=Path, metavar="FILE", help="compare with these results")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the results to this file (default: benchmarks/results/TIME.json)",
    )
    return parser.parse_args(words)


def _names(text: str) -> list[str]:
    names, known = text.replace("-", "_").split(","), figure_summaries()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown figure {', '.join(unknown)}; use one of {', '.join(known)}")
    return names


def _positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        with suppress(ValueError):
            if (number := kind(text)) > 0:
                return number
        raise argparse.ArgumentTypeError(f"{text} is not {'an integer' if kind is int else 'a number'} above 0")

    return parse


class Suite:
    """Measures figures one after the other and writes the results so far to a file after each."""

    def __init__(self, console: Console, bench: Bench, file: Path) -> None:
        self._console, self._bench, self._file = console, bench, file
        self.results = Results(
            datetime.now(UTC).isoformat(timespec="seconds"),
            describe_machine(),
            describe_versions(),
            bench.runs,
            bench.scale,
            bench.seconds,
            (),
        )

    def measure(self, figures: Mapping[str, Measure]) -> None:
        """Measure each figure; report one that fails, and continue without it."""
        columns = (SpinnerColumn(), BarColumn(24), TextColumn("{task.completed}/{task.total}"), TimeElapsedColumn())
        with Progress(*columns, TextColumn("{task.description}"), console=self._console) as progress:
            task = progress.add_task("", total=len(figures))
            for name, measure in figures.items():
                self._measure(name, measure, progress, task)
                progress.advance(task)
            progress.update(task, description="")

    def _measure(self, name: str, measure: Measure, progress: Progress, task: TaskID) -> None:
        started = time.monotonic()
        bench = replace(self._bench, show_status=lambda text: progress.update(task, description=text))
        figures: list[Figure] = []
        failures: dict[str, str] = {}
        try:
            figures = measure(bench)
        except (BenchmarkFailed, MirrorgateError, OSError, httpx.HTTPError, sa.exc.SQLAlchemyError) as error:
            failures[name] = str(error)
            self._console.print(f"[red]{name} failed:[/] {escape(str(error))}")
        for figure in figures:
            ratio = f", {ratio_text(figure.ratio.median)} of {figure.limit_name}" if figure.ratio else ""
            self._console.print(f"{figure.title}: {readable(figure.value.median)} {figure.unit}{ratio}")
        self._console.print(f"[dim]{name} took {time.monotonic() - started:.0f} s[/]")
        self.results = msgspec.structs.replace(
            self.results,
            figures=(*self.results.figures, *figures),
            failures=self.results.failures | failures,
        )
        write_results(self._file, self.results)


def show(console: Console, results: Results) -> None:
    """Print the setting, a table of all figures, their details, and last the table of goals."""
    for line in setting_lines(results):
        console.print(line)
    grid = Grid()
    for heading in HEADINGS:
        grid.add_column(heading)
    for figure in results.figures:
        grid.add_row(figure.name, *cells(figure)[1:])
    console.print(grid)
    for figure in results.figures:
        for name, value in figure.details.items():
            console.print(f"{figure.name}: {name} {value}")
    if text := missed_goals(results):
        console.print(Markdown(text))
    if found := with_goals(results.figures):
        goals = Grid(title="Goals")
        for heading in GOAL_HEADINGS:
            goals.add_column(heading, no_wrap=True)
        for figure in found:
            goals.add_row(figure.name, *goal_cells(figure)[1:])
        console.print(goals)


def show_comparison(console: Console, new: Results, old: Results) -> None:
    """Print the ratio of each figure to an earlier result, and what was measured differently."""
    for sentence in setting_differences(new, old):
        console.print(f"[yellow]Measured differently:[/] {sentence}")
    grid = Grid(title=f"compared with {old.versions.commit}, {old.taken_at}: new ÷ old")
    for heading in ("figure", "value", "ratio to its limit", "beyond the spread"):
        grid.add_column(heading)
    for moved in compare_results(new, old):
        ratio = "" if moved.ratio is None else ratio_text(moved.ratio)
        grid.add_row(moved.title, ratio_text(moved.value), ratio, "yes" if moved.is_beyond_spread else "")
    console.print(grid)


def require_idle(bench: Bench, load: float, *, busy: bool) -> None:
    """Raise BenchmarkFailed if a full-length run would begin on a busy machine, unless `busy` overrides it.

    Shorter runs are never published, so they may begin at any load.
    """
    is_full_length = bench.runs >= FULL_RUNS and bench.seconds >= FULL_SECONDS and bench.scale >= FULL_SCALE
    if is_full_length and load >= MAX_IDLE_LOAD and not busy:
        raise BenchmarkFailed(
            f"The machine is busy: its load over the last minute is {load:.2f}, and figures that are published need "
            f"less than {MAX_IDLE_LOAD:g}. Wait until it is idle, or override with --busy."
        )


def main() -> int:
    """Measure the chosen figures and write the results as JSON and Markdown; return the exit code."""
    arguments = parse_arguments()
    console = Console(highlight=False)
    if arguments.list:
        grid = Grid.grid(padding=(0, 2))
        for name, summary in figure_summaries().items():
            grid.add_row(name, summary)
        console.print(grid)
        return 0
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    clear_settings()
    quick = arguments.quick
    bench = Bench(
        runs=int(arguments.runs or (2 if quick else FULL_RUNS)),
        seconds=arguments.seconds or (2.0 if quick else FULL_SECONDS),
        scale=arguments.scale or (0.02 if quick else FULL_SCALE),
        folder=CACHE,
        show_status=lambda _: None,
    )
    try:
        old = read_results(arguments.compare) if arguments.compare else None
        file = arguments.output or RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
        suite = Suite(console, bench, file)
        require_idle(bench, suite.results.machine.load_before, busy=arguments.busy)
        with stop_signals_interrupt():
            suite.measure(find_figures(arguments.only or (GOALS if arguments.goals else NAMES)))
    except KeyboardInterrupt:
        console.print("Stopped; all started processes have ended.")
        return INTERRUPTED
    except BenchmarkFailed as error:
        console.print(f"[red]{escape(str(error))}[/]")
        return 2
    show(console, suite.results)
    if old is not None:
        show_comparison(console, suite.results, old)
    file.with_suffix(".md").write_text(markdown(suite.results), encoding="utf-8")
    console.print(f"Results: {file} and {file.with_suffix('.md').name}", soft_wrap=True)
    return 1 if suite.results.failures else 0


if __name__ == "__main__":
    sys.exit(main())
