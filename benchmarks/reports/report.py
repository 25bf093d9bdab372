"""Write docs/contribute/benchmarks.md and the tables of docs/operate/sizing.md from the committed results.

Run it as `python -m benchmarks.reports.report`. Given files, it first copies them to the committed results: a run of
the suite with --results, later runs of some of its figures with --later, and growth with --growth.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Final

from benchmarks.machine.description import REPOSITORY
from benchmarks.reports.figure import BenchmarkFailed
from benchmarks.reports.growth_results import Growth, Series, read_growth
from benchmarks.reports.plots import draw, plot_name
from benchmarks.reports.results import (
    Results,
    caveats,
    detail_lines,
    goals_table,
    markdown_table,
    missed_goals,
    read_results,
    replace_figures,
    roughness,
    setting_lines,
)
from benchmarks.reports.sizing import sizing_tables

REFERENCE: Final = REPOSITORY / "benchmarks" / "results" / "reference.json"
LATER_RUNS: Final = REPOSITORY / "benchmarks" / "results" / "later"
"""The folder of runs whose figures replace those of REFERENCE; the newest run counts."""

REFERENCE_GROWTH: Final = REPOSITORY / "benchmarks" / "results" / "reference-growth.json"
PAGE: Final = REPOSITORY / "docs" / "contribute" / "benchmarks.md"
SIZING_PAGE: Final = REPOSITORY / "docs" / "operate" / "sizing.md"
BEGIN: Final = "<!-- Written by `python -m benchmarks.reports.report`. -->\n"
END: Final = "<!-- End of what `python -m benchmarks.reports.report` wrote. -->\n"

_BEFORE: Final = """\
# Performance

`python -m benchmarks.reports.report` writes this page from the committed results; a test compares them.

Each figure is shown with its limit. Both are measured in turn, in the same run on the same machine. The ratio carries
over to another machine; the absolute rate does not. `make bench` measures all figures, `make bench ARGS="--list"` lists
their names, and `ARGS="--only bulk,small --runs 5"` measures two of them. `ARGS="--compare FILE"` shows a new result
beside an earlier one and marks each change that is larger than the spread of the runs. `ARGS="--goals"` measures only
reading, accepting and end to end.

The gateway is the real one: the embedded Postgres with fsync, the API under uvicorn, the drain under Spark. The load
generator runs on the same machine in its own process. The details below state its share of a core and its maximum rate.

The end-to-end figure is compared with a hand-written script of json and pandas in one process, with dlt, and with
Spark's own reader and writer. They read the same changes from existing NDJSON files, do not handle NULL, and give no
guarantees. All of them run for the same time as the gateway.

The mirror is the real process with its own Spark, on a landing zone in a local folder. Its inserts are compared with
`deltalake`, which appends the same rows from memory; their time begins when the table's folder appears, so it includes
the wait for the mirror's next look. Freshness is the time from when a file is visible until its Delta version is. Peak
memory is that of one task's work, without Spark. `ARGS="--only mirror_inserts,mirror_freshness"` measures two of them.

A full-length run does not start at a load of 0.3 or more, and `python -m benchmarks.reports.report` rejects short runs
and those of a busy machine. `--busy` overrides both; the page then says so, as it does for some of the runs below.

## Setting
"""

_GOALS: Final = """\
## Goals

A ratio divides the median by that of the limit, run by run. The next table says what each limit measures.
"""

_FIGURES: Final = """\
## Figures
"""

_GROWTH: Final = """\
## Growth

The table shows how the cost of a change, in microseconds, grows: until the change is durable (*accept*), and from then
until it is published (*publish*), each measured alone. The exponent is that of cost = c · size^e: 0 means that the cost
does not grow, 1 that it grows in proportion. `make bench-plots` measures it.
"""


def page(results: Results, growth: Growth | None, later: Sequence[Results] = ()) -> str:
    """Return the whole performance page. The figures of `later` runs, oldest first, replace those of `results`."""
    shown = reduce(replace_figures, later, results)
    parts = [
        _BEFORE,
        *_later_settings(later),
        "".join(f"- {line}\n" for line in setting_lines(results)),
        *filter(None, [caveats(results)]),
        _GOALS,
        goals_table(shown.figures),
        *filter(None, [missed_goals(shown)]),
        _FIGURES,
        markdown_table(shown.figures),
        "".join(f"{line}\n" for line in detail_lines(shown)),
    ]
    if growth is not None:
        lines = ["| by | from | to | accept, exponent | publish, exponent |\n", "|---|---|---|---|---|\n"]
        parts += [_GROWTH, "".join([*lines, *map(_growth_line, growth.series)])]
        parts += [f"![Cost of a change by {series.title}]({plot_name(series)})\n" for series in growth.series]
        parts += [f"Commit {growth.versions.commit}, {growth.machine.cpu}, taken {growth.taken_at}.\n"]
    return "\n".join(parts)


def _later_settings(later: Sequence[Results]) -> list[str]:
    """Describe the setting of each later run, newest first, with the figures that no run after it has."""
    parts, told = [], set[str]()
    for run in reversed(later):
        names = [figure.name for figure in run.figures if figure.name not in told]
        told.update(names)
        if names:
            parts += [
                f"The figures {', '.join(f'`{name}`' for name in names)} were measured in this run:\n",
                "".join(f"- {line}\n" for line in setting_lines(run)),
                *filter(None, [caveats(run)]),
            ]
    return [*parts, "All other figures were measured in an earlier run:\n"] if parts else []


def _growth_line(series: Series) -> str:
    first, last = series.points[0].size, series.points[-1].size
    exponents = f"{series.accept_exponent:.2f} | {series.publish_exponent:.2f}"
    return f"| {series.title} | {first:,} | {last:,} | {exponents} |\n"


def committed_page() -> str | None:
    """Return the page for the committed results; None while there are none."""
    if not REFERENCE.exists():
        return None
    growth = read_growth(REFERENCE_GROWTH) if REFERENCE_GROWTH.exists() else None
    first, *later = committed_runs()
    return page(first, growth, later)


def committed_runs() -> list[Results]:
    """Return the committed run of the suite, and the later runs of some of its figures, oldest first."""
    return [
        read_results(REFERENCE),
        *sorted(map(read_results, LATER_RUNS.glob("*.json")), key=lambda run: run.taken_at),
    ]


def sizing_page(text: str, runs: Sequence[Results]) -> str:
    """Return the page with its tables replaced by those of these runs; the text around them is written by hand."""
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{sizing_tables(reduce(replace_figures, runs), runs)}\n{END}{after}"


def _require_publishable(results: Results, *, busy: bool) -> None:
    """Raise BenchmarkFailed for results that are too rough to publish, unless `busy` overrides it."""
    if not busy and (reasons := roughness(results)):
        raise BenchmarkFailed(
            f"These results are not published: {' and '.join(reasons)}. Measure again with the defaults on an idle "
            "machine, or override with --busy; the page then says so."
        )


def main() -> int:
    """Write the pages; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reports.report", description=__doc__)
    parser.add_argument("--results", type=Path, metavar="FILE", help="copy these results to the committed ones")
    parser.add_argument("--later", type=Path, metavar="FILE", help="replace the figures of these results on the page")
    parser.add_argument(
        "--growth", type=Path, metavar="FILE", help="copy this growth to the committed one, and draw it"
    )
    parser.add_argument("--busy", action="store_true", help="publish short runs and runs on a busy machine too")
    arguments = parser.parse_args()
    REFERENCE.parent.mkdir(exist_ok=True)
    try:
        if arguments.results:
            _require_publishable(read_results(arguments.results), busy=arguments.busy)
            shutil.copyfile(arguments.results, REFERENCE)
            shutil.rmtree(LATER_RUNS, ignore_errors=True)
        if arguments.later:
            later = read_results(arguments.later)
            _require_publishable(later, busy=arguments.busy)
            LATER_RUNS.mkdir(exist_ok=True)
            shutil.copyfile(arguments.later, LATER_RUNS / f"{later.taken_at[:19].replace(':', '')}.json")
        if arguments.growth:
            draw(arguments.growth)
            shutil.copyfile(arguments.growth, REFERENCE_GROWTH)
        text = committed_page()
        if text is not None and SIZING_PAGE.exists():
            written = SIZING_PAGE.read_text(encoding="utf-8")
            SIZING_PAGE.write_text(sizing_page(written, committed_runs()), encoding="utf-8")
    except BenchmarkFailed as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if text is None:
        sys.stderr.write(f"{REFERENCE.name} is missing; name the results to commit with --results FILE\n")
        return 2
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
