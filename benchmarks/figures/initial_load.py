"""Initial load: durable rows per second of one table as Arrow streams, compared with the writer alone."""

import time
from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.driver import load_details, load_on
from benchmarks.loads.staged_rows import registered, stage_rows
from benchmarks.loads.workloads import TableSpec, find_workload
from benchmarks.reports.figure import Figure, Measured

CONNECTIONS: Final = 4
"""Producers that load the table at the same time."""
ROWS: Final = 4_000_000
WHOLE: Final = 100_000_000
"""Rows of a large table."""


def measure(bench: Bench) -> list[Figure]:
    """Measure requests to one API process, and the same rows given to the writer in this process, in turn."""
    workload, rows = find_workload("load"), bench.scaled(ROWS, least=100_000)
    loaded, alone = [], []
    with bench.gateway() as gateway:
        api = gateway.start_api()
        api.prepare(workload)
        table = registered(gateway.engine, TableSpec("bench.writer"))
        with load_on(api.url, gateway.key, workload.name, CONNECTIONS) as load:
            load.send(bench.seconds / 4)
            for _ in bench.each_run("initial load"):
                sent = load.send(bench.seconds)
                loaded.append(sent.requests * workload.per_request / sent.seconds)
                started = time.perf_counter()
                stage_rows(gateway.engine, table, rows, per_batch=workload.per_request)
                alone.append(rows / (time.perf_counter() - started))
    value = Measured.of(loaded)
    return [
        Figure(
            "initial-load",
            f"Initial load as Arrow streams, {workload.per_request:,} rows per request, {CONNECTIONS} producers",
            "rows/s",
            value,
            Measured.of(alone),
            "the writer alone, without HTTP and checks",
            details=load_details(sent) | {f"{WHOLE:,} rows": f"{WHOLE / value.median / 60:.0f} minutes"},
        )
    ]
