"""Bulk: durable changes a second at 1,000 changes a request, beside only decoding the same bytes."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.decoding import decoding_rate
from benchmarks.figure import BenchmarkFailed, Figure, Goal, Measured
from benchmarks.load import Load, described, described_ceiling, load_on
from benchmarks.process_facts import children, cpu_seconds
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
            to_one.send(bench.seconds / 2)
            await_both(to_two, pair.pid)
            to_two.send(bench.seconds / 2)
            for _ in bench.each_run("bulk"):
                decoded.append(decoding_rate(bodies, bench.seconds / 4) * workload.per_request)
                sent = to_one.send(bench.seconds)
                one.append(sent.requests * workload.per_request / sent.seconds)
                spent = worker_seconds(pair.pid)
                sent_to_two = to_two.send(bench.seconds)
                spent = [now - before for now, before in zip(worker_seconds(pair.pid), spent, strict=True)]
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
            described(sent_to_two) | {"the less busy process": f"{min(spent) / sum(spent):.0%} of the work"},
        ),
    ]


def await_both(load: Load, pid: int) -> None:
    """Send until both processes take part: the second one serves a while after the first.

    Raises BenchmarkFailed when one stays idle.
    """
    in_a_row = 0
    for _ in range(30):
        before = worker_seconds(pid)
        load.send(1.0)
        spent = [now - then for now, then in zip(worker_seconds(pid), before, strict=False)]
        in_a_row = in_a_row + 1 if len(spent) == 2 and min(spent) > 0.1 else 0
        if in_a_row == 3:
            return
    raise BenchmarkFailed("one of two API processes takes no requests")


def worker_seconds(pid: int) -> list[float]:
    """Processor time of the API processes under `pid`, in the order of their start; the first child is none."""
    return [cpu_seconds(child) for child in sorted(children(pid))[1:]]
