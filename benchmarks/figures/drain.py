"""Drain: rows published per second, with fsync and ledger, compared with a plain loop over the same payloads."""

import shutil
from itertools import chain
from typing import Final

from benchmarks.bench import Bench
from benchmarks.ledger_query import drain_paused
from benchmarks.limits.plain_drain import PlainDrainJob, plain_rate
from benchmarks.loads.staged_rows import registered, stage_rows
from benchmarks.loads.workloads import TableSpec
from benchmarks.reports.figure import Figure, Goal, Measured

ROWS: Final = 20_000_000
WARM_UP_ROWS: Final = 100_000


def measure(bench: Bench) -> list[Figure]:
    """Drain a new table in each run, and then write the same files again with the plain loop."""
    rows = bench.scaled(ROWS, least=50_000)
    drained, plain = [], []
    with bench.gateway() as gateway:
        gateway.start_drain(max_delay_seconds=0)
        for number in chain([0], bench.each_run("drain")):
            spec = TableSpec(f"bench.drain_{number}")
            table = registered(gateway.engine, spec, paused=True)
            stage_rows(gateway.engine, table, rows if number else min(rows, WARM_UP_ROWS))
            found = drain_paused(gateway, table)
            folder = gateway.folder / "plain"
            job = PlainDrainJob(
                gateway.database_url,
                table.table_id,
                bytes(table.schema.arrow.serialize()),
                tuple((file.first_sequence, file.last_sequence) for file in found.files),
                str(folder),
            )
            limit = plain_rate(job)
            shutil.rmtree(folder)
            if number:
                drained.append(found.rate)
                plain.append(limit)
    return [
        Figure(
            "drain",
            "Drain: rows published of a backlog of one table",
            "rows/s",
            Measured.of(drained),
            Measured.of(plain),
            "a plain single-process loop, the same payloads into the same Parquet",
            Goal(1.2, at_least=True),
            {"rows per run": f"{rows:,}", "files per run": str(len(found.files))},
        )
    ]
