"""Standalone: rows drained per second by a Spark master with two workers, compared with local mode on two cores."""

from itertools import chain
from typing import Final

from benchmarks.bench import Bench
from benchmarks.gateway import Gateway
from benchmarks.ledger_query import Drained, drain_paused
from benchmarks.loads.staged_rows import PER_BATCH, registered, stage_rows
from benchmarks.loads.workloads import TableSpec
from benchmarks.machine.process_facts import resident_below
from benchmarks.machine.standalone_cluster import standalone_cluster
from benchmarks.reports.figure import Figure, Measured

ROWS: Final = 4_000_000
FILES: Final = 8
"""Files of a backlog: one round of the drain, so that each core builds several."""
WORKERS: Final = 2


def measure(bench: Bench) -> list[Figure]:
    """Drain the same backlog in two gateways, one after the other; both drains keep running, and one is idle."""
    rows_per_file = max(PER_BATCH, bench.scaled(ROWS, least=50_000) // FILES // PER_BATCH * PER_BATCH)
    rows = rows_per_file * FILES
    on_cluster, in_local_mode = [], []
    with (
        bench.gateway() as local,
        bench.gateway() as remote,
        standalone_cluster(remote.folder / "cluster", workers=WORKERS) as cluster,
    ):
        for gateway, master in ((local, f"local[{WORKERS}]"), (remote, cluster.url)):
            gateway.start_drain(
                environment=cluster.environment,
                spark_master=master,
                max_delay_seconds=0,
                target_file_rows=rows_per_file,
            )
        for number in chain([0], bench.each_run("standalone")):
            here, there = (_drained(gateway, number, rows) for gateway in (local, remote))
            if number:
                in_local_mode.append(here.rate)
                on_cluster.append(there.rate)
        memory = max(resident_below(worker.process.pid, "VmHWM") for worker in cluster.workers)
    return [
        Figure(
            "standalone",
            f"Drain under a standalone Spark master with {WORKERS} workers of one core",
            "rows/s",
            Measured.of(on_cluster),
            Measured.of(in_local_mode),
            f"the same in local mode with {WORKERS} cores",
            details={
                "rows per run": f"{rows:,}",
                "files per run": str(FILES),
                "peak memory of an executor with its Python worker": f"{memory:,.0f} MB",
            },
        )
    ]


def _drained(gateway: Gateway, number: int, rows: int) -> Drained:
    table = registered(gateway.engine, TableSpec(f"bench.standalone_{number}"), paused=True)
    stage_rows(gateway.engine, table, rows)
    return drain_paused(gateway, table)
