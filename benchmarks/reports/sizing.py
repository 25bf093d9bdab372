"""Cores, bytes and processes that a rate of changes needs, calculated from the measured costs of one change."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.settings import Settings
from benchmarks.costs import Costs
from benchmarks.reports.figure import BenchmarkFailed, Figure, ratio_text, readable
from benchmarks.reports.results import Results, caveats, expand_units, setting_lines
from spark_jobs.drain_cycle import MAX_FILES_AHEAD

RATE: Final = 1_000_000
"""Changes per second that the page calculates for."""
BUSY: Final = 0.7
"""Share of a core to plan for; the rest is for peaks and for catching up after an outage."""
DAY: Final = 86_400

REQUEST_SIZES: Final[Mapping[str, str]] = {
    "small": "1 change",
    "small-10": "10 changes",
    "small-100": "100 changes",
    "bulk": "1,000 changes",
    "replicate": "1,000 changes, Replicate",
    "wide": "100 changes of 200 columns",
    "many-tables": "10 changes, 1,000 tables in turn",
}


@dataclass(frozen=True, slots=True)
class Sizing:
    """What `rate` changes per second need at these costs; bytes are per second."""

    costs: Costs
    rate: float

    @property
    def api_cores(self) -> int:
        """Return the cores of the API."""
        return _cores(self.costs.api, self.rate)

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
    def on_disk(self) -> float:
        """Return the bytes per second by which the database grows."""
        return self.rate * self.costs.disk_bytes

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


def sizing_tables(results: Results) -> str:
    """Return the tables of docs/sizing.md as Markdown."""
    costs = find_costs(results)
    parts = [
        "".join(f"- {line}\n" for line in setting_lines(results)),
        *filter(None, [caveats(results)]),
        "**Cost of one change**\n",
        _costs_table(costs),
        f"**Resources for {RATE:,} changes per second**\n",
        _sizing_table(Sizing(costs, RATE)),
    ]
    by_name = {figure.name: figure for figure in results.figures}
    if sizes := [(title, by_name[name]) for name, title in REQUEST_SIZES.items() if name in by_name]:
        parts += ["**Rate of one API process, by size of request**\n", _request_table(sizes)]
    if (standalone := by_name.get("standalone")) and standalone.ratio:
        parts.append(
            f"{standalone.title}: {readable(standalone.value.median)} {standalone.unit}, "
            f"{ratio_text(standalone.ratio.median)} of {standalone.limit_name}; "
            + expand_units("; ".join(f"{name} {value}" for name, value in standalone.details.items()))
            + ".\n"
        )
    return "\n".join(parts)


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


def _sizing_table(sizing: Sizing) -> str:
    costs, settings = sizing.costs, Settings.model_fields
    cap, backlog = int(settings["retention_bytes"].default), int(settings["max_total_backlog_bytes"].default)
    postgres = costs.postgres_accepting + costs.postgres_draining
    lines = [
        ("API", _calculation(costs.api), f"{sizing.api_cores} cores, one process each"),
        ("Postgres", _calculation(postgres), f"{sizing.postgres_cores} cores"),
        ("executors", _calculation(costs.drain), f"{sizing.drain_cores} cores"),
        ("network into the API", f"{costs.sent_bytes:,.0f} B × {RATE:,}/s", _gigabits(sizing.sent)),
        ("network from Postgres to executors", f"{costs.staged_bytes:.0f} B × {RATE:,}/s", _gigabits(sizing.staged)),
        ("log of Postgres", f"{costs.log_bytes:.0f} B × {RATE:,}/s", _megabytes(sizing.logged)),
        ("landing zone", f"{costs.file_bytes:.0f} B × {RATE:,}/s", _megabytes(sizing.landed)),
        ("disk of Postgres for a day", f"{costs.disk_bytes:.0f} B × {RATE:,}/s × {DAY:,} s", _terabytes(sizing)),
        (
            "age up to which files can be repaired, by default",
            f"{cap / 2**30:.0f} GiB ÷ {sizing.staged / 1e6:,.0f} MB/s",
            f"{sizing.kept_seconds(cap) / 60:.0f} minutes",
        ),
        (
            "longest outage of the drains, by default",
            f"{backlog / 2**30:.0f} GiB ÷ {sizing.staged / 1e6:,.0f} MB/s",
            f"{sizing.kept_seconds(backlog) / 60:.0f} minutes",
        ),
        (
            "one table, maximum accepted",
            f"1 s ÷ {costs.postgres_accepting:.2f} µs",
            f"{readable(sizing.table_accepts)} changes/s",
        ),
        (
            "one table, maximum published",
            f"{MAX_FILES_AHEAD} concurrent files ÷ {costs.drain:.1f} µs",
            f"{readable(sizing.table_publishes)} rows/s",
        ),
    ]
    return _table(("part", "calculation", "needs"), lines)


def _request_table(sizes: list[tuple[str, Figure]]) -> str:
    lines = []
    for title, figure in sizes:
        rate = figure.value.median
        lines.append((title, readable(rate), f"{math.ceil(RATE / rate / BUSY):,}"))
    return _table(("request", "changes/s", f"processes for {RATE:,} changes/s"), lines)


def _calculation(microseconds: float) -> str:
    return f"{microseconds:.2f} µs × {RATE:,}/s ÷ {BUSY:g}"


def _megabytes(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e6:,.0f} MB/s"


def _gigabits(bytes_per_second: float) -> str:
    return f"{bytes_per_second * 8 / 1e9:.1f} Gbit/s"


def _terabytes(sizing: Sizing) -> str:
    return f"{sizing.on_disk * DAY / 1e12:.1f} TB"


def _table(headings: tuple[str, ...], lines: Sequence[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in [headings, ("---",) * len(headings), *lines])
