"""Small requests: one change each over 32 connections, compared with the empty endpoint of the same server."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.driver import ceiling_details, load_details, load_on
from benchmarks.loads.workloads import find_workload
from benchmarks.reports.figure import Figure, Goal, Measured

CONNECTIONS: Final = 32


def measure(bench: Bench) -> list[Figure]:
    """Send durable requests and empty ones in turn, from the same load generator to the same API process."""
    workload = find_workload("small-1")
    durable, empty = [], []
    with bench.gateway() as gateway:
        api = gateway.start_api()
        api.prepare(workload)
        with load_on(api.url, gateway.key, workload.name, CONNECTIONS) as load:
            bench.show_status("small, warming up")
            load.send(bench.seconds / 2)
            load.send_empty(bench.seconds / 4)
            for _ in bench.each_run("small"):
                sent = load.send(bench.seconds)
                durable.append(sent.requests / sent.seconds)
                nothing = load.send_empty(bench.seconds / 2)
                empty.append(nothing.requests / nothing.seconds)
    return [
        Figure(
            "small",
            f"Small: durable requests of one change, {CONNECTIONS} connections",
            "requests/s",
            Measured.of(durable),
            Measured.of(empty),
            "the same server's empty endpoint",
            Goal(0.5, at_least=True),
            load_details(sent) | ceiling_details(workload.name, CONNECTIONS, bench.seconds / 4),
        )
    ]
