"""Size: disk space of Postgres after 10 M rows were published and purged, compared with before."""

import time
from typing import Final

from app.staging.retention.rounds import RetentionLimits, run_retention
from benchmarks.bench import Bench
from benchmarks.gateway import Gateway
from benchmarks.loads.staged_rows import registered, stage_rows
from benchmarks.loads.workloads import TableSpec
from benchmarks.reports.figure import BenchmarkFailed, Figure, Goal, Measured

ROWS: Final = 10_000_000
AT_ONCE: Final = RetentionLimits(keep_seconds=0, keep_bytes=2**40, quiet_seconds=0)
"""Treats everything published as expired, so that retention does now what otherwise takes days."""
VACUUM_SECONDS: Final = 75
"""Autovacuum runs once a minute."""

SELECT_SIZE = """
    SELECT (pg_database_size(current_database()) - pg_total_relation_size('mirrorgate.row_images'))::float8 / 1e6"""


def measure(bench: Bench) -> list[Figure]:
    """Measure one run: the limit is the size of a new database."""
    rows = bench.scaled(ROWS, least=50_000)
    with bench.gateway() as gateway:
        gateway.start_drain(max_delay_seconds=0)
        table = registered(gateway.engine, TableSpec("bench.size"))
        before = float(gateway.value(SELECT_SIZE))
        bench.show_status(f"size, {rows:,} rows")
        stage_rows(gateway.engine, table, rows)
        gateway.wait_published()
        full = float(gateway.value(SELECT_SIZE))
        bench.show_status("size, purging")
        purge(gateway)
        purged = float(gateway.value(SELECT_SIZE))
        bench.show_status("size, waiting for autovacuum")
        time.sleep(bench.scaled(VACUUM_SECONDS, least=5))
        after = float(gateway.value(SELECT_SIZE))
    return [
        Figure(
            "size",
            f"Postgres after draining and purging {rows:,} rows",
            "MB",
            Measured.of([after]),
            Measured.of([before]),
            "before the first row",
            Goal(1.5, at_least=False),
            {"before the purge": f"{full:,.1f} MB", "right after the purge": f"{purged:,.1f} MB"},
        )
    ]


def purge(gateway: Gateway) -> None:
    """Run retention until no payload is left. Raises BenchmarkFailed when some remain."""
    for _ in range(20):
        while run_retention(gateway.engine, AT_ONCE) is None:
            time.sleep(0.1)
        if not gateway.value("SELECT count(*) FROM mirrorgate.block_payloads"):
            run_retention(gateway.engine, AT_ONCE)
            return
    raise BenchmarkFailed("retention leaves published payloads")
