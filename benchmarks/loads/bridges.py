"""A bridge in turn with bulk requests: the two sides of the figures of bridges, and what only reading allows."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from benchmarks.bench import Bench
from benchmarks.gateway import Api, Gateway, wait_until
from benchmarks.loads.driver import load_details, load_on
from benchmarks.loads.workloads import find_workload
from benchmarks.machine.processes import started
from benchmarks.machine.resource_usage import ResourceUsage
from benchmarks.reports.figure import Figure, Goal, Measured, readable

CONNECTIONS: Final = 8
_SECTIONS: Final = """
gateway: {{url: "{url}", key: "{key}", requests: {requests}}}
health: {{port: 0}}
"""
_STAGED: Final = "SELECT coalesce(sum(change_count), 0) FROM mirrorgate.staged_blocks WHERE staged_at > :began"
_RATE: Final = """
    WITH block AS (
        SELECT staged_at, sum(change_count) OVER (ORDER BY staged_at) AS so_far, sum(change_count) OVER () AS total
        FROM mirrorgate.staged_blocks WHERE staged_at > :began)
    SELECT (max(so_far) - min(so_far)) / extract(epoch FROM max(staged_at) - min(staged_at))
    FROM block WHERE so_far <= 0.9 * total"""
"""Without the end, where some partitions or tables have nothing left and the others wait for records.

So a run needs several requests of each partition or table.
"""
_LOOK_SECONDS: Final = 0.1
"""At 50 queries a second, Postgres would spend more on them than on the changes."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A source that is full of messages, and the bridge to start on it."""

    bridge: str
    """`kafka` or `objects`."""
    configuration: str
    """The sections of its file about the source."""
    messages: int
    read: Callable[[], float]
    """Reads the source without doing anything else; returns the messages per second."""
    processes: Mapping[str, int] = field(default_factory=dict)
    """Processes that serve the source, by what they are."""


def measure_bridge(
    bench: Bench,
    gateway: Gateway,
    api: Api,
    figure: str,
    title: str,
    prepare: Callable[[str], Prepared],
    goal: Goal | None = None,
) -> Figure:
    """Measure bulk requests, the bridge, and only reading its source, in turn. `prepare` gets the name of the run.

    The processor time of each process is a detail: on a busy machine it tells more than the rates.
    """
    workload = find_workload("bulk")
    api.prepare(workload)
    posted, bridged, read, costs = [], [], [], {}
    with load_on(api.url, gateway.key, workload.name, CONNECTIONS) as load:
        load.send(bench.seconds / 4)
        for number in bench.each_run(f"{figure} bridge"):
            before = ResourceUsage.take(gateway, api=api.pid)
            sent = load.send(bench.seconds)
            used, changes = ResourceUsage.take(gateway, api=api.pid).since(before), sent.requests * workload.per_request
            posted.append(changes / sent.seconds)
            costs["processor time of a posted change"] = _costs(used, changes)
            prepared = prepare(f"run{number}")
            run = _Run(gateway, api, prepared, f"run{number}")
            bridged.append(run.rate)
            costs["processor time of a bridged change"] = _costs(run.used, run.counted)
            read.append(prepared.read())
    return Figure(
        figure,
        title,
        "changes/s",
        Measured.of(bridged),
        Measured.of(posted),
        f"bulk requests of {workload.per_request:,} changes over {CONNECTIONS} connections",
        goal,
        load_details(sent) | costs | {"only reading the source": f"{readable(median(read))} messages/s"},
    )


class _Run:
    """A new bridge that reads its source to the end: the rate of the first 90 % that are durable, and its cost.

    The cost counts from the first durable changes on, without the start of the bridge.
    """

    def __init__(self, gateway: Gateway, api: Api, prepared: Prepared, name: str) -> None:
        configuration = gateway.folder / f"{name}.yaml"
        sections = _SECTIONS.format(url=api.url, key=gateway.key, requests=CONNECTIONS)
        configuration.write_text(sections + prepared.configuration)
        began = gateway.value("SELECT clock_timestamp()")

        def staged() -> int:
            return int(gateway.value(_STAGED, began=began))

        command = [sys.executable, "-m", "mirrorgate.cli", "bridge", prepared.bridge, "--config", str(configuration)]
        with started("bridge", command, log_file=gateway.folder / f"{name}.log") as process:
            parts = {"api": api.pid, "bridge": process.pid, **prepared.processes}
            wait_until(lambda: staged() > 0, "the bridge has started", process, every=_LOOK_SECONDS)
            before, first = ResourceUsage.take(gateway, **parts), staged()
            wait_until(
                lambda: staged() >= prepared.messages, "all is durable", process, within=300.0, every=_LOOK_SECONDS
            )
            self.used = ResourceUsage.take(gateway, **parts).since(before)
        self.counted = max(1, prepared.messages - first)
        self.rate = float(gateway.value(_RATE, began=began))


def _costs(used: ResourceUsage, changes: int) -> str:
    return ", ".join(f"{name} {used.microseconds(name, changes):.1f} µs" for name in used.cpu_seconds)
