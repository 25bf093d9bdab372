"""The results of one run of the suite, as JSON and as Markdown."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.machine.description import Machine, Versions
from benchmarks.reports.bottlenecks import bottleneck_lines
from benchmarks.reports.figure import BenchmarkFailed, Figure, Measured, ratio_text, readable


class Results(msgspec.Struct, frozen=True):
    """Figures and what they were measured on; `failures` says, by name, why a figure is missing."""

    taken_at: str
    machine: Machine
    versions: Versions
    runs: int
    scale: float
    seconds: float
    figures: tuple[Figure, ...]
    failures: dict[str, str] = {}


MISSED = "Why goals are not reached, and what a next step would gain:\n"


FULL_RUNS: Final = 3
FULL_SECONDS: Final = 8.0
FULL_SCALE: Final = 1.0
"""The defaults of the suite; figures of fewer or shorter runs are not published."""
MAX_IDLE_LOAD: Final = 0.3
"""Load average of the last minute from which a machine counts as busy, whatever its cores."""


def read_results(file: Path) -> Results:
    """Read a results file.

    Raises BenchmarkFailed for a file that is missing or holds something else.
    """
    try:
        return msgspec.json.decode(file.read_bytes(), type=Results)
    except (OSError, msgspec.MsgspecError) as error:
        raise BenchmarkFailed(f"{file} holds no results of the benchmarks: {error}") from error


def write_results(file: Path, results: Results) -> None:
    """Write a results file; its folder is created."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def replace_figures(results: Results, later: Results) -> Results:
    """Return results with the figures of a later run, which replace those of the same name or are added."""
    newer = {figure.name: figure for figure in later.figures}
    kept = [newer.pop(figure.name, figure) for figure in results.figures]
    return msgspec.structs.replace(results, figures=(*kept, *newer.values()))


def setting_lines(results: Results) -> list[str]:
    """Describe machine, versions and settings, one sentence per line."""
    machine, versions = results.machine, results.versions
    packages = ", ".join(f"{name} {version}" for name, version in versions.packages.items())
    changed = ", with uncommitted changes" if versions.dirty else ""
    return [
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB, {machine.system}; "
        f"load {machine.load_before:g} before.",
        f"Commit {versions.commit}{changed}, Python {versions.python}, Postgres {versions.postgres}, {packages}.",
        f"{results.runs} runs of {results.seconds:g} s, scale {results.scale:g}, taken {results.taken_at}.",
    ]


def caveats(results: Results) -> str:
    """Return why the figures are too rough to plan with; empty for full-length runs on an idle machine."""
    reasons = roughness(results)
    if not reasons:
        return ""
    return (
        f"**Accuracy.** {' and '.join(reasons).capitalize()}, on a small virtual machine that "
        "also ran the load generator. Ratios to a limit of the same run carry over. Absolute rates can be off by a "
        "factor of two in either direction. Measure on your machine before you buy hardware.\n"
    )


def roughness(results: Results) -> list[str]:
    """Return why the figures should not be published; empty for full-length runs on an idle machine."""
    machine = results.machine
    reasons = []
    if results.seconds < FULL_SECONDS or results.scale < FULL_SCALE or results.runs < FULL_RUNS:
        reasons.append(
            f"the runs were few or short ({results.runs} of {results.seconds:g} s at scale {results.scale:g})"
        )
    if machine.load_before >= MAX_IDLE_LOAD:
        reasons.append(f"the machine was not idle (load {machine.load_before:g} on {machine.cores} cores)")
    return reasons


def cell(measured: Measured | None, text: Callable[[float], str] = readable) -> str:
    """Return the median, with the spread if there are several runs; empty for None."""
    if measured is None:
        return ""
    if len(measured.runs) == 1:
        return text(measured.median)
    return f"{text(measured.median)} ({text(measured.low)} to {text(measured.high)})"


HEADINGS: Final = ("figure", "unit", "median (lowest to highest)", "limit", "limit: what it measures", "ratio")
GOAL_HEADINGS: Final = ("figure", "unit", "median", "limit", "ratio", "goal", "reached")


def cells(figure: Figure) -> tuple[str, ...]:
    """Return a figure as a row of the table of all figures."""
    ratio = cell(figure.ratio, ratio_text)
    return figure.title, figure.unit, cell(figure.value), cell(figure.limit), figure.limit_name, ratio


def goal_cells(figure: Figure) -> tuple[str, ...]:
    """Return a figure with a goal as a row of the table of goals."""
    return (
        figure.title,
        figure.unit,
        readable(figure.value.median),
        readable(figure.limit.median) if figure.limit else "",
        ratio_text(figure.ratio.median) if figure.ratio else "",
        str(figure.goal or ""),
        "yes" if figure.reached else "no",
    )


def with_goals(figures: Sequence[Figure]) -> list[Figure]:
    """Return the figures that have a goal, in their order."""
    return [figure for figure in figures if figure.goal is not None]


def markdown_table(figures: Sequence[Figure]) -> str:
    """Return all figures as a Markdown table."""
    return _markdown(HEADINGS, map(cells, figures))


def goals_table(figures: Sequence[Figure]) -> str:
    """Return the figures that have a goal as a Markdown table."""
    return _markdown(GOAL_HEADINGS, map(goal_cells, with_goals(figures)))


def _markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [headings, ("---",) * len(headings), *rows])


def detail_lines(results: Results) -> list[str]:
    """Return a Markdown list of other observations and of figures that are missing."""
    details = [
        f"- {figure.title}: " + expand_units("; ".join(f"{name} {value}" for name, value in figure.details.items()))
        for figure in results.figures
        if figure.details
    ]
    details += [f"- {name} was not measured: {reason}" for name, reason in results.failures.items()]
    return details


def expand_units(text: str) -> str:
    """Write out thousands and millions that earlier runs recorded as 67.1k or 3.26M."""
    factors = {"k": 1e3, "M": 1e6, "G": 1e9}
    return re.sub(r"\b(\d[\d.]*)([kMG])(?= )", lambda found: f"{float(found[1]) * factors[found[2]]:,.0f}", text)


def markdown(results: Results) -> str:
    """Return the whole result: setting, goals, all figures, details."""
    setting = "".join(f"{line}\n" for line in setting_lines(results))
    details = "".join(f"{line}\n" for line in detail_lines(results))
    goals = ["## Goals\n", goals_table(results.figures), missed_goals(results)]
    return "\n".join(
        ["# Benchmark results\n", setting, *goals, "## Figures\n", markdown_table(results.figures), details]
    )


def missed_goals(results: Results) -> str:
    """Return why goals are not reached; empty if all are."""
    lines = bottleneck_lines(results.figures)
    return "".join(f"{line}\n" for line in [MISSED, *lines]) if lines else ""
