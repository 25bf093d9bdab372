"""One workload on one API process, in turn with only decoding its bytes."""

from benchmarks.bench import Bench
from benchmarks.gateway import Api, Gateway
from benchmarks.loads.decoding import decoding_rate
from benchmarks.loads.driver import load_details, load_on
from benchmarks.loads.workloads import find_workload
from benchmarks.reports.figure import Figure, Goal, Measured


def measure_beside_decoding(
    bench: Bench, gateway: Gateway, api: Api, name: str, title: str, connections: int, goal: Goal | None = None
) -> Figure:
    """Prepare the workload, warm up, and return its durable changes per second beside those of `orjson.loads`."""
    workload = find_workload(name)
    bodies = workload.bodies()
    durable, decoded = [], []
    bench.show_status(f"{title}, preparing")
    api.prepare(workload)
    with load_on(api.url, gateway.key, name, connections) as load:
        load.send(bench.seconds / 2)
        for _ in bench.each_run(title):
            decoded.append(decoding_rate(bodies, bench.seconds / 4) * workload.per_request)
            sent = load.send(bench.seconds)
            durable.append(sent.requests * workload.per_request / sent.seconds)
    return Figure(
        name,
        title,
        "changes/s",
        Measured.of(durable),
        Measured.of(decoded),
        "orjson.loads of the same bytes, one thread",
        goal,
        load_details(sent),
    )
