"""Two workloads in turn on one server: the two sides of a ratio, under the same conditions."""

from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.bench import Bench
from benchmarks.gateway import Api, Gateway
from benchmarks.loads.client import LoadResult
from benchmarks.loads.driver import load_details, load_on
from benchmarks.loads.workloads import find_workload
from benchmarks.reports.figure import Figure, Goal, Measured


@dataclass(frozen=True, slots=True)
class Side:
    """A workload and the connections that send it."""

    workload: str
    connections: int


@dataclass(frozen=True, slots=True)
class Paired:
    """Changes per second of both sides, run by run, and what the last run of the first sent."""

    value: Measured
    limit: Measured
    sent: LoadResult

    def figure(self, name: str, title: str, of_limit: str, least: float, **details: str) -> Figure:
        """Return the figure whose ratio must reach `least`; `of_limit` says what the limit measures."""
        goal = Goal(least, at_least=True)
        return Figure(
            name, title, "changes/s", self.value, self.limit, of_limit, goal, load_details(self.sent) | details
        )


def measure_in_turn(bench: Bench, gateway: Gateway, api: Api, what: str, value: Side, limit: Side) -> Paired:
    """Prepare both workloads, warm up, and send each side in every run; `what` names the figure in the progress."""
    rates: tuple[list[float], list[float]] = ([], [])
    with ExitStack() as stack:
        loads = []
        for side in (value, limit):
            workload = find_workload(side.workload)
            bench.show_status(f"{what}, preparing {workload.name}")
            api.prepare(workload)
            load = stack.enter_context(load_on(api.url, gateway.key, workload.name, side.connections))
            load.send(bench.seconds / 4)
            loads.append((load, workload.per_request))
        for _ in bench.each_run(what):
            sent = []
            for (load, per_request), found in zip(loads, rates, strict=True):
                sent.append(load.send(bench.seconds))
                found.append(sent[-1].requests * per_request / sent[-1].seconds)
    return Paired(Measured.of(rates[0]), Measured.of(rates[1]), sent[0])
