"""Debezium: durable changes per second with the schema in each event, compared with Arcion's bulk rate."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.paired import Side, measure_in_turn
from benchmarks.loads.workloads import find_workload
from benchmarks.reports.figure import Figure

DEBEZIUM: Final = Side("debezium", 8)
BULK: Final = Side("bulk", 8)


def measure(bench: Bench) -> list[Figure]:
    """Send events of 16 columns and Arcion's changes of 16 columns in turn, 1,000 in each request."""
    workload = find_workload(DEBEZIUM.workload)
    size = len(workload.body(0)) / workload.per_request
    with bench.gateway() as gateway:
        found = measure_in_turn(bench, gateway, gateway.start_api(), "debezium", DEBEZIUM, BULK)
    title, limit = "Debezium with schema, 1,000 events per request", "Arcion, 1,000 changes per request"
    return [found.figure("debezium", title, limit, 0.5, **{"bytes per event": f"{size:,.0f}"})]
