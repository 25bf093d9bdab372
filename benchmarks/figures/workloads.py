"""The other workloads: durable changes per second of each, compared with only decoding the same bytes."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.gateway import Api, Gateway
from benchmarks.loads.decoding import decoding_rate
from benchmarks.loads.driver import load_details, load_on
from benchmarks.loads.workloads import find_workload
from benchmarks.reports.figure import Figure, Measured

CONNECTIONS: Final = 32
TITLES: Final = {
    "small-10": "10 changes per request",
    "small-100": "100 changes per request",
    "wide": "200 columns, 100 changes per request",
    "many-tables": "1,000 tables in turn, 10 changes per request",
    "replicate": "Replicate, 1,000 changes per request",
}


def measure(bench: Bench) -> list[Figure]:
    """Measure each workload on one API process; none has a goal."""
    with bench.gateway() as gateway:
        api = gateway.start_api()
        return [_measured(bench, gateway, api, name) for name in TITLES]


def _measured(bench: Bench, gateway: Gateway, api: Api, name: str) -> Figure:
    workload = find_workload(name)
    bodies = workload.bodies()
    durable, decoded = [], []
    bench.show_status(f"{TITLES[name]}, preparing")
    api.prepare(workload)
    with load_on(api.url, gateway.key, name, CONNECTIONS) as load:
        load.send(bench.seconds / 4)
        for _ in bench.each_run(TITLES[name]):
            decoded.append(decoding_rate(bodies, bench.seconds / 8) * workload.per_request)
            sent = load.send(bench.seconds / 2)
            durable.append(sent.requests * workload.per_request / sent.seconds)
    return Figure(
        name,
        f"{TITLES[name]}, {CONNECTIONS} connections",
        "changes/s",
        Measured.of(durable),
        Measured.of(decoded),
        "orjson.loads of the same bytes, one thread",
        details=load_details(sent),
    )
