"""Memory: peak memory of the API process, with bodies of 16 MB on 8 connections."""

from typing import Final

from benchmarks.bench import Bench
from benchmarks.loads.driver import load_details, load_on
from benchmarks.loads.workloads import find_workload
from benchmarks.machine.process_facts import resident
from benchmarks.reports.figure import Figure, Goal, Measured, Of, readable

CONNECTIONS: Final = 8


def measure(bench: Bench) -> list[Figure]:
    """Start a new API process for each run, so that the peak is that of the run."""
    workload = find_workload("large")
    peaks, idle = [], []
    with bench.gateway() as gateway:
        for number in bench.each_run("memory"):
            api = gateway.start_api()
            if number == 1:
                api.prepare(workload)
            idle.append(resident(api.pid, "VmRSS"))
            with load_on(api.url, gateway.key, workload.name, CONNECTIONS) as load:
                sent = load.send(bench.seconds)
            peaks.append(resident(api.pid, "VmHWM"))
    rate = sent.requests * workload.per_request / sent.seconds
    return [
        Figure(
            "memory",
            f"Peak memory of the API process, bodies of 16 MB, {CONNECTIONS} connections",
            "MB",
            Measured.of(peaks),
            Measured.of(idle),
            "the same process before the first request",
            Goal(400, at_least=False, of=Of.VALUE),
            load_details(sent) | {"rate at the same time": f"{readable(rate)} changes/s"},
        )
    ]
