"""Partial updates: durable changes per second when each is completed from its row image, compared with full images."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.driver import load_details, load_on
from benchmarks.loads.workloads import PARTIAL_ROWS, find_workload
from benchmarks.reports.figure import Figure, Goal, Measured

CONNECTIONS: Final = 4


def measure(bench: Bench) -> list[Figure]:
    """Update the same rows: 4 of 16 columns in a table that completes them, all 16 in one that does not."""
    partial, whole = find_workload("partial"), find_workload("whole")
    completed, plain = [], []
    with bench.gateway() as gateway:
        api = gateway.start_api()
        bench.show_status("partial updates, loading the rows")
        api.prepare(partial)
        api.prepare(whole)
        with (
            load_on(api.url, gateway.key, partial.name, CONNECTIONS) as to_partial,
            load_on(api.url, gateway.key, whole.name, CONNECTIONS) as to_whole,
        ):
            for load in (to_partial, to_whole):
                load.send(bench.seconds / 4)
            for _ in bench.each_run("partial updates"):
                sent = to_partial.send(bench.seconds)
                completed.append(sent.requests * partial.per_request / sent.seconds)
                without = to_whole.send(bench.seconds)
                plain.append(without.requests * whole.per_request / without.seconds)
        images = gateway.value("SELECT pg_total_relation_size('mirrorgate.row_images')")
    return [
        Figure(
            "partial-updates",
            "Partial updates completed, 4 of 16 columns given",
            "changes/s",
            Measured.of(completed),
            Measured.of(plain),
            "the same table without completion, full images",
            Goal(0.4, at_least=True),
            load_details(sent) | {"row images": f"{images / PARTIAL_ROWS:,.0f} bytes per row on disk"},
        )
    ]
