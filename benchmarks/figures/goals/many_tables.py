"""Many tables in turn: durable changes per second over 1,000 tables, compared with the same requests for one table."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.paired import Side, measure_in_turn
from benchmarks.reports.figure import Figure

IN_TURN: Final = Side("many-tables", 32)
ONE_TABLE: Final = Side("small-10", 32)


def measure(bench: Bench) -> list[Figure]:
    """Send requests of ten changes, each for the next of 1,000 tables or all for one, in turn to one API process."""
    with bench.gateway() as gateway:
        found = measure_in_turn(bench, gateway, gateway.start_api(), "many tables", IN_TURN, ONE_TABLE)
    return [
        found.figure(
            "many-tables",
            f"1,000 tables in turn, 10 changes per request, {IN_TURN.connections} connections",
            f"one table, 10 changes per request, {ONE_TABLE.connections} connections, the same server",
            0.7,
        )
    ]
