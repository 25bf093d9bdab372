"""Bulk: durable changes a second at 1,000 changes a request, beside only decoding the same bytes."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.decoding import decoding_rate
from benchmarks.figure import Figure, Goal, Measured
from benchmarks.load import described, described_ceiling, load_on
from benchmarks.workloads import find_workload

CONNECTIONS: Final = 8


def measure(bench: Bench) -> list[Figure]:
    """One API process beside `orjson.loads`, then two API processes beside one: they take turns, on one Postgres."""
    workload = find_workload("bulk")
    bodies = workload.bodies()
    decoded, one, two = [], [], []
    with bench.gateway() as gateway:
        alone, pair = gateway.start_api(), gateway.start_api(processes=2)
        alone.prepare(workload)
        with (
            load_on(alone.url, gateway.key, workload.name, CONNECTIONS) as to_one,
            load_on(pair.url, gateway.key, workload.name, CONNECTIONS) as to_two,
        ):
            bench.say("bulk, warming up")
            for load in (to_one, to_two):
                load.send(bench.seconds / 2)
            for _ in bench.each_run("bulk"):
                decoded.append(decoding_rate(bodies, bench.seconds / 4) * workload.per_request)
                sent = to_one.send(bench.seconds)
                one.append(sent.requests * workload.per_request / sent.seconds)
                sent_to_two = to_two.send(bench.seconds)
                two.append(sent_to_two.requests * workload.per_request / sent_to_two.seconds)
    details = described(sent) | described_ceiling(workload.name, CONNECTIONS, bench.seconds / 4)
    return [
        Figure(
            "bulk",
            f"Bulk: durable changes, {workload.per_request:,} a request, one API process",
            "changes/s",
            Measured.of(one),
            Measured.of(decoded),
            "orjson.loads of the same bytes, one thread",
            Goal(0.5, at_least=True),
            details,
        ),
        Figure(
            "bulk-two-processes",
            "Bulk with two API processes",
            "changes/s",
            Measured.of(two),
            Measured.of(one),
            "one API process",
            Goal(1.3, at_least=True),
            described(sent_to_two),
        ),
    ]
