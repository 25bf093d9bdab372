"""Bulk: durable changes per second at 1,000 changes per request, compared with only decoding the same bytes."""

from contextlib import ExitStack
from typing import Final

from benchmarks.bench import Bench
from benchmarks.gateway import Api
from benchmarks.loads.decoding import decoding_rate
from benchmarks.loads.driver import Load, ceiling_details, load_details, load_on, send_at_once
from benchmarks.loads.workloads import find_workload
from benchmarks.reports.figure import Figure, Goal, Measured

CONNECTIONS: Final = 8


def measure(bench: Bench) -> list[Figure]:
    """Measure one API process beside `orjson.loads`, then two processes beside one, in turn on one Postgres.

    Each process has its own port and half of the connections, as behind a load balancer.
    """
    workload = find_workload("bulk")
    bodies = workload.bodies()
    decoded, one, two = [], [], []
    with bench.gateway() as gateway, ExitStack() as loads:
        apis = [gateway.start_api(), gateway.start_api()]
        apis[0].prepare(workload)

        def load(api: Api, connections: int) -> Load:
            return loads.enter_context(load_on(api.url, gateway.key, workload.name, connections))

        to_one, to_two = load(apis[0], CONNECTIONS), [load(api, CONNECTIONS // 2) for api in apis]
        bench.show_status("bulk, warming up")
        to_one.send(bench.seconds / 2)
        send_at_once(to_two, bench.seconds / 2)
        for _ in bench.each_run("bulk"):
            decoded.append(decoding_rate(bodies, bench.seconds / 4) * workload.per_request)
            sent = to_one.send(bench.seconds)
            one.append(sent.requests * workload.per_request / sent.seconds)
            of_each = send_at_once(to_two, bench.seconds)
            two.append(sum(part.requests / part.seconds for part in of_each) * workload.per_request)
    details = load_details(sent) | ceiling_details(workload.name, CONNECTIONS, bench.seconds / 4)
    share = min(part.requests for part in of_each) / sum(part.requests for part in of_each)
    return [
        Figure(
            "bulk",
            f"Bulk: durable changes, {workload.per_request:,} per request, one API process",
            "changes/s",
            Measured.of(one),
            Measured.of(decoded),
            "orjson.loads of the same bytes, one thread",
            Goal(0.75, at_least=True),
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
            load_details(of_each[0]) | {"the less busy process": f"{share:.0%} of the work"},
        ),
    ]
