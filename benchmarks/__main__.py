"""`make bench`: every figure beside its limit, measured in the same run on the same machine."""

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

from app.errors import MirrorgateError
from app.local.supervisor import stop_signals_interrupt
from benchmarks.bench import Bench
from benchmarks.figures import NAMES, Measure, described_figures, find_figures
from benchmarks.gateway import forget_settings
from benchmarks.machine.description import CACHE, REPOSITORY, find_machine, find_versions
from benchmarks.reports.comparison import compared, differing_settings
from benchmarks.reports.figure import BenchmarkFailed, Figure, readable
from benchmarks.reports.results import (
    HEADINGS,
    Results,
    cells,
    markdown,
    missed,
    read_results,
    setting_lines,
    write_results,
)

RESULTS: Final = REPOSITORY / "benchmarks" / "results"
INTERRUPTED: Final = 130


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the figures, measure nothing")
    parser.add_argument("--only", type=_names, metavar="NAME,…", help="measure these figures")
    parser.add_argument("--runs", type=_positive(int), help="runs of each figure (3)")
    parser.add_argument("--seconds", type=_positive(float), help="length of a run under load (8)")
    parser.add_argument("--scale", type=_positive(float), help="size of backlogs; the goals are about 1 (1)")
    parser.add_argument("--quick", action="store_true", help="2 runs of 2 s at scale 0.02, where not given: 3 minutes")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="results to compare with")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where the results go (benchmarks/results/)")
    return parser.parse_args(words)


def _names(text: str) -> list[str]:
    names, known = text.split(","), described_figures()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"no figure {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def _positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        with suppress(ValueError):
            if (number := kind(text)) > 0:
                return number
        raise argparse.ArgumentTypeError(f"{text} is no {kind.__name__} above 0")

    return parse


class Suite:
    """Measures figures one after the other and keeps what is there so far in a file."""

    def __init__(self, console: Console, bench: Bench, file: Path) -> None:
        self._console, self._bench, self._file = console, bench, file
        self.results = Results(
            datetime.now(UTC).isoformat(timespec="seconds"),
            find_machine(),
            find_versions(),
            bench.runs,
            bench.scale,
            bench.seconds,
            (),
        )

    def measure(self, figures: Mapping[str, Measure]) -> None:
        """A figure that fails is told and left out."""
        columns = (SpinnerColumn(), BarColumn(24), TextColumn("{task.completed}/{task.total}"), TimeElapsedColumn())
        with Progress(*columns, TextColumn("{task.description}"), console=self._console) as progress:
            task = progress.add_task("", total=len(figures))
            for name, measure in figures.items():
                self._measure(name, measure, progress, task)
                progress.advance(task)
            progress.update(task, description="")

    def _measure(self, name: str, measure: Measure, progress: Progress, task: TaskID) -> None:
        started = time.monotonic()
        bench = replace(self._bench, say=lambda text: progress.update(task, description=text))
        figures: list[Figure] = []
        failures: dict[str, str] = {}
        try:
            figures = measure(bench)
        except (BenchmarkFailed, MirrorgateError, OSError, httpx.HTTPError, sa.exc.SQLAlchemyError) as error:
            failures[name] = str(error)
            self._console.print(f"[red]{name} failed:[/] {escape(str(error))}")
        for figure in figures:
            ratio = f"{readable(figure.ratio.median)} of {figure.limit_name}"
            self._console.print(f"{figure.title}: {readable(figure.value.median)} {figure.unit}, {ratio}")
        self._console.print(f"[dim]{name} took {time.monotonic() - started:.0f} s[/]")
        self.results = msgspec.structs.replace(
            self.results,
            figures=(*self.results.figures, *figures),
            failures=self.results.failures | failures,
        )
        write_results(self._file, self.results)


def show(console: Console, results: Results) -> None:
    for line in setting_lines(results):
        console.print(line)
    grid = Grid()
    for heading in ("figure", *HEADINGS[1:4], *HEADINGS[5:]):
        grid.add_column(heading)
    for figure in results.figures:
        _, *values, _, ratio, goal, reached = cells(figure)
        grid.add_row(figure.name, *values, ratio, goal, reached)
    console.print(grid)
    for figure in results.figures:
        for name, value in figure.details.items():
            console.print(f"{figure.name}: {name} {value}")
    if text := missed(results):
        console.print(Markdown(text))


def show_comparison(console: Console, new: Results, old: Results) -> None:
    for sentence in differing_settings(new, old):
        console.print(f"[yellow]Not measured alike:[/] {sentence}")
    grid = Grid(title=f"beside {old.versions.commit}, {old.taken_at}: new ÷ old")
    for heading in ("figure", "value", "ratio to its limit", "beyond the spread"):
        grid.add_column(heading)
    for moved in compared(new, old):
        grid.add_row(moved.title, readable(moved.value), readable(moved.ratio), "yes" if moved.is_beyond_spread else "")
    console.print(grid)


def main() -> int:
    arguments = parse_arguments()
    console = Console(highlight=False)
    if arguments.list:
        for name, line in described_figures().items():
            console.print(f"{name:18} {line}")
        return 0
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    forget_settings()
    quick = arguments.quick
    bench = Bench(
        runs=int(arguments.runs or (2 if quick else 3)),
        seconds=arguments.seconds or (2.0 if quick else 8.0),
        scale=arguments.scale or (0.02 if quick else 1.0),
        folder=CACHE,
        say=lambda _: None,
    )
    try:
        old = read_results(arguments.compare) if arguments.compare else None
        file = arguments.output or RESULTS / f"{datetime.now(UTC):%Y%m%d-%H%M%S}.json"
        suite = Suite(console, bench, file)
        with stop_signals_interrupt():
            suite.measure(find_figures(arguments.only or NAMES))
    except KeyboardInterrupt:
        console.print("Stopped; every process that was started has ended.")
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
