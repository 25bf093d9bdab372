"""Replicate: durable changes per second at 1,000 changes per request, compared with only decoding the same bytes."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.beside_decoding import measure_beside_decoding
from benchmarks.reports.figure import Figure, Goal

CONNECTIONS: Final = 32


def measure(bench: Bench) -> list[Figure]:
    """Measure one API process and `orjson.loads` in turn."""
    title = f"Replicate, 1,000 changes per request, {CONNECTIONS} connections"
    with bench.gateway() as gateway:
        goal = Goal(0.5, at_least=True)
        return [measure_beside_decoding(bench, gateway, gateway.start_api(), "replicate", title, CONNECTIONS, goal)]
