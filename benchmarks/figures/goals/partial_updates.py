"""Partial updates: durable changes per second when each is completed from its row image, compared with full images."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.paired import Side, measure_in_turn
from benchmarks.loads.workloads import PARTIAL_ROWS
from benchmarks.reports.figure import Figure

PARTIAL: Final = Side("partial", 4)
WHOLE: Final = Side("whole", 4)


def measure(bench: Bench) -> list[Figure]:
    """Update the same rows: 4 of 16 columns in a table that completes them, all 16 in one that does not."""
    with bench.gateway() as gateway:
        found = measure_in_turn(bench, gateway, gateway.start_api(), "partial updates", PARTIAL, WHOLE)
        images = gateway.value("SELECT pg_total_relation_size('mirrorgate.row_images')")
    details = {"row images": f"{images / PARTIAL_ROWS:,.0f} bytes per row on disk"}
    title, limit = "Partial updates completed, 4 of 16 columns given", "the same table without completion, full images"
    return [found.figure("partial-updates", title, limit, 0.6, **details)]
