"""Audit columns and transforms: durable inserts per second, compared with a table that lands its rows as they are."""

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
}
GOALS: Final = {"audited": 0.7, "transformed": 0.7, "hashed": 0.5}


def measure(bench: Bench) -> list[Figure]:
    """Send the inserts of `bulk` to a table with each kind of option, in turn with one that has none."""
    with bench.gateway() as gateway:
        api = gateway.start_api(mask_secret=MASK_SECRET)
        limit = Side("bulk", CONNECTIONS)
        found = {
            name: measure_in_turn(bench, gateway, api, f"projection, {name}", Side(name, CONNECTIONS), limit)
            for name in PROJECTIONS
        }
    return [one.figure(f"projection-{name}", TITLES[name], OF_LIMIT, GOALS[name]) for name, one in found.items()]
