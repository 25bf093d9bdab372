"""Ten changes a request: durable changes per second, compared with 1,000 a request on the same server."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.paired import Side, measure_in_turn
from benchmarks.reports.figure import Figure

TEN: Final = Side("small-10", 32)
THOUSAND: Final = Side("bulk", 8)


def measure(bench: Bench) -> list[Figure]:
    """Send requests of ten changes and of 1,000 in turn to one API process."""
    with bench.gateway() as gateway:
        found = measure_in_turn(bench, gateway, gateway.start_api(), "10 changes per request", TEN, THOUSAND)
    return [
        found.figure(
            "small-10",
            f"10 changes per request, {TEN.connections} connections",
            f"1,000 changes per request, {THOUSAND.connections} connections, the same server",
            0.35,
        )
    ]
