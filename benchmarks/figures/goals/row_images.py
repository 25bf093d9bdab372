"""Row images: durable changes per second of a table that keeps the newest row of each key, and of one that does not."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.paired import Side, measure_in_turn
from benchmarks.loads.workloads import PARTIAL_ROWS
from benchmarks.reports.figure import Figure

CONNECTIONS: Final = 8
OF_LIMIT: Final = "the same table without row images"
IMAGES: Final = "SELECT pg_total_relation_size('mirrorgate.row_images')"


def measure(bench: Bench) -> list[Figure]:
    """Update rows with full images, then insert new rows, in tables with `row_images=on` and without."""
    with bench.gateway() as gateway:
        api = gateway.start_api()
        sides = Side("kept", CONNECTIONS), Side("whole", CONNECTIONS)
        updates = measure_in_turn(bench, gateway, api, "row images, updates", *sides)
        size = {"row images": f"{gateway.value(IMAGES) / PARTIAL_ROWS:,.0f} bytes per row on disk"}
        sides = Side("new-kept", CONNECTIONS), Side("new", CONNECTIONS)
        bulk = measure_in_turn(bench, gateway, api, "row images, bulk", *sides)
    return [
        bulk.figure("row-images", "Row images kept, bulk inserts of 16 columns", OF_LIMIT, 0.6),
        updates.figure("row-images-updates", "Row images kept, full updates of 16 columns", OF_LIMIT, 0.6, **size),
    ]
