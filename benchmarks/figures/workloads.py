"""The other workloads: durable changes per second of each, compared with only decoding the same bytes."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.beside_decoding import measure_beside_decoding
from benchmarks.reports.figure import Figure

CONNECTIONS: Final = 32
TITLES: Final = {
    "small-100": "100 changes per request",
    "wide": "200 columns, 100 changes per request",
}


def measure(bench: Bench) -> list[Figure]:
    """Measure each workload on one API process; none has a goal."""
    with bench.gateway() as gateway:
        api = gateway.start_api()
        return [
            measure_beside_decoding(bench, gateway, api, name, f"{title}, {CONNECTIONS} connections", CONNECTIONS)
            for name, title in TITLES.items()
        ]
