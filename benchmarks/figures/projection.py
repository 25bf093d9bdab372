"""Audit and derived columns, transforms and flagged deletes: durable changes per second, compared with plain tables."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.paired import Side, measure_in_turn
from benchmarks.loads.workloads import MASK_SECRET, PROJECTIONS
from benchmarks.reports.figure import Figure

CONNECTIONS: Final = 8
OF_LIMIT: Final = "the same inserts without these options"
TITLES: Final = {
    "audited": "Four audit columns beside 16 columns, inserts",
    "transformed": "Rename, constant, two masks and a filter on 16 columns, inserts",
    "hashed": "One column of 16 hashed, all values distinct, inserts",
    "derived": "Two derived columns beside 16 columns, a joined text and a product, inserts",
}
FLAGGED: Final = "Deletes that are flagged, after 500 inserts 500 deletes by key in each request of 16 columns"
OF_FLAGGED: Final = "the same changes of a table without row images, whose deletes remove rows"
FLAGGED_GOAL: Final = 0.3
GOALS: Final = {"audited": 0.7, "transformed": 0.7, "hashed": 0.5, "derived": 0.8}


def measure(bench: Bench) -> list[Figure]:
    """Send the same changes to a table with each kind of option, in turn with one that has none."""
    with bench.gateway() as gateway:
        api = gateway.start_api(mask_secret=MASK_SECRET)
        limit = Side("bulk", CONNECTIONS)
        found = {
            name: measure_in_turn(bench, gateway, api, f"projection, {name}", Side(name, CONNECTIONS), limit)
            for name in PROJECTIONS
        }
        flagged, removed = Side("flagged", CONNECTIONS), Side("deleted", CONNECTIONS)
        deletes = measure_in_turn(bench, gateway, api, "projection, flagged", flagged, removed)
    figures = [one.figure(f"projection-{name}", TITLES[name], OF_LIMIT, GOALS[name]) for name, one in found.items()]
    return [*figures, deletes.figure("projection-flagged", FLAGGED, OF_FLAGGED, FLAGGED_GOAL)]
