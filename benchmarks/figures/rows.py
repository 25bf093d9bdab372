"""Plain rows: durable rows per second as NDJSON, Arrow and CSV, compared with bulk requests of Arcion messages."""

from contextlib import ExitStack
from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.driver import load_details, load_on
from benchmarks.loads.workloads import find_workload
from benchmarks.reports.figure import Figure, Goal, Measured

CONNECTIONS: Final = 8
LIMIT: Final = "bulk"
TITLES: Final = {"rows": "as NDJSON", "rows-arrow": "as an Arrow stream", "rows-csv": "as CSV"}
GOALS: Final = {"rows": Goal(1.0, at_least=True)}


def measure(bench: Bench) -> list[Figure]:
    """Measure each form on one API process, in turn with the same values as Arcion inserts."""
    names = (LIMIT, *TITLES)
    rates: dict[str, list[float]] = {name: [] for name in names}
    details = {}
    with bench.gateway() as gateway, ExitStack() as stack:
        api = gateway.start_api()
        loads = {}
        for name in names:
            api.prepare(find_workload(name))
            loads[name] = stack.enter_context(load_on(api.url, gateway.key, name, CONNECTIONS))
            loads[name].send(bench.seconds / 4)
        for _ in bench.each_run("rows"):
            for name in names:
                sent = loads[name].send(bench.seconds)
                rates[name].append(sent.requests * find_workload(name).per_request / sent.seconds)
                details[name] = load_details(sent)
    per_request = find_workload("rows").per_request
    return [
        Figure(
            name,
            f"Plain rows {title}, {per_request:,} a request",
            "rows/s",
            Measured.of(rates[name]),
            Measured.of(rates[LIMIT]),
            f"the same values as Arcion inserts over {CONNECTIONS} connections",
            GOALS.get(name),
            details[name],
        )
        for name, title in TITLES.items()
    ]
