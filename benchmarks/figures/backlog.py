"""Backlog: whether draining 10 M rows is as fast at the end as at the beginning."""

from datetime import datetime
from itertools import chain
from typing import Final

from benchmarks.bench import Bench
from benchmarks.ledger_query import Drained, drain_paused
from benchmarks.loads.staged_rows import PER_BATCH, registered, stage_rows
from benchmarks.loads.workloads import TableSpec
from benchmarks.reports.figure import Figure, Goal, Measured

ROWS: Final = 10_000_000
FILES: Final = 160
"""Files of a backlog: a tenth of them are two rounds of the drain, of eight files each."""


def measure(bench: Bench) -> list[Figure]:
    """Compare the rates of the last and the first tenth of one backlog; each run uses a new table."""
    rows_per_file = max(PER_BATCH, bench.scaled(ROWS, least=FILES * PER_BATCH) // FILES // PER_BATCH * PER_BATCH)
    rows = rows_per_file * FILES
    first, last, whole = [], [], []
    with bench.gateway() as gateway:
        gateway.start_drain(max_delay_seconds=0, target_file_rows=rows_per_file)
        for number in chain([0], bench.each_run("backlog")):
            table = registered(gateway.engine, TableSpec(f"bench.backlog_{number}"), paused=True)
            stage_rows(gateway.engine, table, rows if number else 16 * rows_per_file)
            drained = drain_paused(gateway, table)
            if number:
                begin, end = tenth_rates(drained)
                first.append(begin)
                last.append(end)
                whole.append(drained.rate)
    return [
        Figure(
            "backlog",
            f"Backlog of {rows:,} rows: rate of the last tenth",
            "rows/s",
            Measured.of(last),
            Measured.of(first),
            "its first tenth",
            Goal(0.9, at_least=True),
            {"the whole backlog": f"{Measured.of(whole).median:,.0f} rows/s", "files": str(len(drained.files))},
        )
    ]


def tenth_rates(drained: Drained) -> tuple[float, float]:
    """Return the rows per second of the first and of the last tenth of the files."""
    files, tenth = drained.files, max(1, len(drained.files) // 10)
    first, last = files[:tenth], files[-tenth:]

    def rate(rows: int, begin: datetime, end: datetime) -> float:
        return rows / (end - begin).total_seconds()

    return (
        rate(sum(file.rows for file in first), drained.started_at, first[-1].published_at),
        rate(sum(file.rows for file in last), files[-tenth - 1].published_at, last[-1].published_at),
    )
