"""Cores, bytes and processes that a rate of changes needs, calculated from the measured costs of one change."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.settings import Settings
from benchmarks.costs import Costs
from benchmarks.reports.figure import BenchmarkFailed, readable
from benchmarks.reports.results import Results, caveats, expand_units
from spark_jobs.drain_cycle import MAX_FILES_AHEAD

RATES: Final = (1_000, 5_000, 20_000, 100_000)
"""Changes per second that the page calculates for."""
BUSY: Final = 0.7
"""Share of a core to plan for; the rest is for peaks and for catching up after an outage."""
DAY: Final = 86_400

REQUESTS: Final[Mapping[str, str]] = {
    "bulk": "1,000 changes",
    "small-100": "100 changes",
    "small-10": "10 changes",
    "small": "1 change",
    "replicate": "1,000 changes, Replicate",
    "wide": "100 changes of 200 columns",
    "many-tables": "10 changes, 1,000 tables in turn",
}
"""The figures that measure what one API process accepts, each with the content of its requests."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """What `rate` changes per second need at these costs; bytes are per second."""

    costs: Costs
    rate: float

    @property
    def postgres_cores(self) -> int:
        """Return the cores of Postgres."""
        return _cores(self.costs.postgres_accepting + self.costs.postgres_draining, self.rate)

    @property
    def drain_cores(self) -> int:
        """Return the cores of the driver and its executors."""
        return _cores(self.costs.drain, self.rate)

    @property
    def table_accepts(self) -> float:
        """Return the maximum changes per second of one table, whose transactions run one after the other."""
        return 1e6 / self.costs.postgres_accepting

    @property
    def table_publishes(self) -> float:
        """Return the maximum rows per second of one table, of which `MAX_FILES_AHEAD` files are built at a time."""
        return MAX_FILES_AHEAD * 1e6 / self.costs.drain

    @property
    def sent(self) -> float:
        """Return the bytes per second that sources send."""
        return self.rate * self.costs.sent_bytes

    @property
    def logged(self) -> float:
        """Return the bytes per second of the write-ahead log."""
        return self.rate * self.costs.log_bytes

    @property
    def staged(self) -> float:
        """Return the bytes per second of staged payloads."""
        return self.rate * self.costs.staged_bytes

    @property
    def landed(self) -> float:
        """Return the bytes per second of landing files."""
        return self.rate * self.costs.file_bytes

    def kept_seconds(self, staged_bytes: int) -> float:
        """Return how long this many payload bytes last, in seconds."""
        return staged_bytes / self.staged


def _cores(microseconds: float, rate: float) -> int:
    return math.ceil(microseconds * rate / 1e6 / BUSY)


def find_costs(results: Results) -> Costs:
    """Return the costs of the figure `costs`. Raises BenchmarkFailed for results without it."""
    for figure in results.figures:
        if figure.costs is not None:
            return figure.costs
    raise BenchmarkFailed("the results have no figure `costs` to calculate sizes from")


def sizing_tables(shown: Results, runs: Sequence[Results]) -> str:
    """Return the tables of the sizing page as Markdown, from figures that were measured in `runs`, oldest first."""
    costs = find_costs(shown)
    by_name = {figure.name: figure for figure in shown.figures}
    sizes = [(title, by_name[name].value.median) for name, title in REQUESTS.items() if name in by_name]
    parts = [
        "**What a rate needs**\n",
        _rates_table([Sizing(costs, rate) for rate in RATES], sizes),
        "**What one change costs**\n",
        _costs_table(costs),
        f"One table accepts at most {readable(Sizing(costs, 1).table_accepts)} changes/s and publishes at most "
        f"{readable(Sizing(costs, 1).table_publishes)} rows/s.\n",
    ]
    if freshness := by_name.get("freshness"):
        late = expand_units("; ".join(f"{name} {value}" for name, value in freshness.details.items()))
        parts.append(
            f"{freshness.title}: {readable(freshness.value.median)} {freshness.unit} ({late}), with "
            "`MIRRORGATE_MAX_DELAY_SECONDS=0` into a folder.\n"
        )
    parts.append("Measured here:\n")
    used = {*REQUESTS, "costs", "freshness"}
    for run in (run for run in runs if any(figure.name in used for figure in run.figures)):
        machine, versions = run.machine, run.versions
        parts.append(
            f"- {machine.cpu}, {machine.cores} cores, {machine.memory_gib:g} GiB; commit {versions.commit}, "
            f"{run.runs} runs of {run.seconds:g} s, taken {run.taken_at[:10]}."
        )
    return "\n".join([*parts, "", *filter(None, [caveats(runs[0])])])


def _rates_table(sizings: Sequence[Sizing], sizes: Sequence[tuple[str, float]]) -> str:
    """Return a table with a column per rate."""
    settings = Settings.model_fields
    cap, backlog = int(settings["retention_bytes"].default), int(settings["max_total_backlog_bytes"].default)
    days = float(settings["retention_days"].default)

    def row(name: str, value: Callable[[Sizing], str]) -> tuple[str, ...]:
        return (name, *map(value, sizings))

    lines = [
        (f"API processes, requests of {title}", *(_processes(sizing.rate, one) for sizing in sizings))
        for title, one in sizes
    ]
    lines += [
        row("Postgres, cores", lambda sizing: f"{sizing.postgres_cores}"),
        row("drain with its executors, cores", lambda sizing: f"{sizing.drain_cores}"),
        row("network into the API, uncompressed", lambda sizing: f"{readable(sizing.sent * 8 / 1e6)} Mbit/s"),
        row("log of Postgres", lambda sizing: _bytes(sizing.logged) + "/s"),
        row(
            f"payloads kept for repairs ({days:g} days, at most {cap / 2**30:.0f} GiB)",
            lambda sizing: _bytes(min(cap, sizing.staged * DAY * days)),
        ),
        row("landed in a day", lambda sizing: _bytes(sizing.landed * DAY)),
        row(
            f"outage of drains until 429 ({backlog / 2**30:.0f} GiB of backlog)",
            lambda sizing: _duration(sizing.kept_seconds(backlog)),
        ),
    ]
    return _table(("changes per second", *(f"{sizing.rate:,}" for sizing in sizings)), lines)


def _processes(rate: float, of_one: float) -> str:
    return f"{math.ceil(rate / of_one / BUSY):,}"


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"


def _duration(seconds: float) -> str:
    return f"{seconds / DAY:.0f} days" if seconds >= 2 * DAY else f"{seconds / 3600:.0f} hours"


def _costs_table(costs: Costs) -> str:
    lines = [
        ("API, processor time", f"{costs.api:.1f} µs"),
        ("Postgres, processor time: accepting", f"{costs.postgres_accepting:.2f} µs"),
        ("Postgres, processor time: draining", f"{costs.postgres_draining:.2f} µs"),
        ("drain with executors, processor time", f"{costs.drain:.1f} µs"),
        ("sent by the source, uncompressed", f"{costs.sent_bytes:,.0f} bytes"),
        ("staged payload, read once by an executor", f"{costs.staged_bytes:.0f} bytes"),
        ("written to the log of Postgres", f"{costs.log_bytes:.0f} bytes"),
        ("kept in Postgres until retention", f"{costs.disk_bytes:.0f} bytes"),
        ("landed as Parquet", f"{costs.file_bytes:.0f} bytes"),
    ]
    return _table(("per change", "cost"), lines)


def _table(headings: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in [headings, ("---",) * len(headings), *lines])
