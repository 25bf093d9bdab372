"""The results of one run of the suite, as JSON and as Markdown."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.machine.description import Machine, Versions
from benchmarks.reports.bottlenecks import bottleneck_lines
from benchmarks.reports.figure import BenchmarkFailed, Figure, Measured, readable


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


LONG_RUN_SECONDS: Final = 30
IDLE_LOAD: Final = 0.1
"""Load average per core up to which a machine counts as idle."""


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


def setting_lines(results: Results) -> list[str]:
    """Describe machine, versions and settings, one sentence per line."""
    machine, versions = results.machine, results.versions
    packages = ", ".join(f"{name} {version}" for name, version in versions.packages.items())
    return [
        f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB, {machine.system}; "
        f"load {machine.load_before:g} before.",
        f"Commit {versions.commit}, Python {versions.python}, Postgres {versions.postgres}, {packages}.",
        f"{results.runs} runs of {results.seconds:g} s, scale {results.scale:g}, taken {results.taken_at}.",
    ]


def caveats(results: Results) -> str:
    """Return why the figures are too rough to plan with; empty for long runs on an idle machine."""
    machine = results.machine
    reasons = []
    if results.seconds < LONG_RUN_SECONDS or results.scale < 1:
        reasons.append(f"the runs were short ({results.seconds:g} s at scale {results.scale:g})")
    if machine.load_before > IDLE_LOAD * machine.cores:
        reasons.append(f"the machine was not idle (load {machine.load_before:g} on {machine.cores} cores)")
    if not reasons:
        return ""
    return (
        f"**Accuracy.** {' and '.join(reasons).capitalize()}, on a small virtual machine that "
        "also ran the load generator. Ratios to a limit of the same run carry over. Absolute rates can be off by a "
        "factor of two in either direction. Measure on your machine before you buy hardware.\n"
    )


def cell(measured: Measured) -> str:
    """Return the median, with the spread if there are several runs."""
    if len(measured.runs) == 1:
        return readable(measured.median)
    return f"{readable(measured.median)} ({readable(measured.low)} to {readable(measured.high)})"


HEADINGS = (
    "figure",
    "unit",
    "median (lowest to highest)",
    "limit",
    "limit: what it measures",
    "ratio",
    "goal",
    "reached",
)


def cells(figure: Figure) -> tuple[str, ...]:
    """Return a figure as a row of the table."""
    reached = {True: "yes", False: "no", None: ""}[figure.reached]
    return (
        figure.title,
        figure.unit,
        cell(figure.value),
        cell(figure.limit),
        figure.limit_name,
        cell(figure.ratio),
        str(figure.goal or ""),
        reached,
    )


def markdown_table(figures: Sequence[Figure]) -> str:
    """Return all figures as a Markdown table."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *map(cells, figures)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


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
    """Return the whole result: setting, table, details."""
    setting = "".join(f"{line}\n" for line in setting_lines(results))
    details = "".join(f"{line}\n" for line in detail_lines(results))
    return "\n".join(
        ["# Benchmark results\n", setting, markdown_table(results.figures), details, missed_goals(results)]
    )


def missed_goals(results: Results) -> str:
    """Return why goals are not reached; empty if all are."""
    lines = bottleneck_lines(results.figures)
    return "".join(f"{line}\n" for line in [MISSED, *lines]) if lines else ""
