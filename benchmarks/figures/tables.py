"""Many tables: time per table of one drain cycle over 1,000 tables with one pending batch each."""

import os
import time
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from benchmarks.bench import Bench
from benchmarks.gateway import Gateway
from benchmarks.loads.staged_rows import registered, row_batch
from benchmarks.loads.workloads import FIRST_KEY, TABLES, TableSpec, find_workload
from benchmarks.reports.figure import Figure, Goal, Measured, Of

PLAIN_FILES: Final = 200

SELECT_CYCLE = """
    SELECT extract(epoch FROM max(f.published_at) - min(b.staged_at))::float8 * 1000 / count(*)
    FROM mirrorgate.staged_blocks b
    JOIN mirrorgate.landing_files f USING (table_id, generation)
    WHERE b.first_sequence = :sequence AND b.first_sequence BETWEEN f.first_sequence AND f.last_sequence"""


def measure(bench: Bench) -> list[Figure]:
    """Send one request with a change for each table, so that all are pending at the same moment.

    The first request creates the folders; it does not count as a run.
    """
    workload = find_workload("one-in-each-table")
    cycles, plain = [], []
    with bench.gateway() as gateway:
        api = gateway.start_api()
        bench.show_status(f"tables, registering {TABLES:,}")
        api.prepare(workload)
        gateway.start_drain(max_delay_seconds=0)

        def cycle(number: int) -> float:
            api.client.post_changes(workload.source_format, workload.body(number))
            gateway.wait_published()
            return float(gateway.value(SELECT_CYCLE, sequence=number + 1))

        bench.show_status("tables, the first cycle")
        first = cycle(0)
        for number in bench.each_run("tables"):
            cycles.append(cycle(number))
            plain.append(plain_milliseconds(gateway, gateway.folder / f"plain-{number}"))
    return [
        Figure(
            "tables",
            f"{TABLES:,} tables with one pending batch each: cycle time per table",
            "ms",
            Measured.of(cycles),
            Measured.of(plain),
            "one file of one row written, fsynced and renamed, and one commit",
            Goal(10, at_least=False, of=Of.VALUE),
            {"first cycle, which creates the folders": f"{first:.2f} ms per table"},
        )
    ]


def plain_milliseconds(gateway: Gateway, folder: Path) -> float:
    """Return the milliseconds that disk and database take for one file, without any concurrency."""
    table = registered(gateway.engine, TableSpec("bench.table_0000"))
    rows = pa.Table.from_batches([row_batch(table.schema.arrow, FIRST_KEY, 1)])
    folder.mkdir()
    directory = os.open(folder, os.O_RDONLY)
    started = time.perf_counter()
    for number in range(PLAIN_FILES):
        file = folder / f"{number}.tmp"
        with file.open("wb") as opened:
            pq.write_table(rows, opened, compression="zstd")
            opened.flush()
            os.fsync(opened.fileno())
        file.rename(folder / f"{number}.parquet")
        os.fsync(directory)
        with gateway.engine.begin() as connection:
            connection.execute(sa.text("UPDATE mirrorgate.installation SET created_at = created_at"))
    seconds = time.perf_counter() - started
    os.close(directory)
    return seconds * 1e3 / PLAIN_FILES
