"""End to end: changes a second from request to landing file, sustained on two cores, beside the best of three peers."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Final

from app.local.embedded import find_java
from benchmarks.bench import Bench, scratch_folder
from benchmarks.competitors.runner import PeerOrder, find_peers, write_source
from benchmarks.gateway import Gateway
from benchmarks.loads.driver import load_on, send_at_once
from benchmarks.loads.workloads import find_workload
from benchmarks.reports.figure import BenchmarkFailed, Figure, Goal, Measured, readable

CORES: Final = 2
API_PROCESSES: Final = 2
CONNECTIONS: Final = 4
"""Of each API process, which has a port of its own, as behind a load balancer."""
SECONDS: Final = 60

SELECT_SUSTAINED = """
    SELECT least(
        (SELECT coalesce(sum(change_count), 0) FROM mirrorgate.landing_files
         WHERE published_at >= :start AND published_at < :end),
        (SELECT coalesce(sum(change_count), 0) FROM mirrorgate.staged_blocks
         WHERE staged_at >= :start AND staged_at < :end))::bigint"""
"""What was published and what was accepted meanwhile differ by the backlog before and after: the lesser goes on."""


def measure(bench: Bench) -> list[Figure]:
    """The load generator, an API process for each core, Postgres, the drain and Spark share the cores; then each peer
    has them alone."""
    seconds = bench.scaled(SECONDS, least=6)
    with on_cores(CORES):
        peers, reasons = _peers(bench, seconds)
        published, details = _gateway(bench, seconds)
    best = max(peers, key=lambda name: peers[name])
    return [
        Figure(
            "end-to-end",
            f"End to end: changes published, sustained {seconds} s on {CORES} cores",
            "changes/s",
            published,
            Measured.of([peers[best]] * len(published.runs)),
            f"the fastest competitor: {best}",
            Goal(3.0, at_least=True),
            details | {name: f"{readable(rate)} changes/s" for name, rate in peers.items()} | reasons,
        )
    ]


@contextmanager
def on_cores(most: int) -> Iterator[None]:
    """This process, and those that it starts meanwhile, run on so many cores at the most."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:most])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _gateway(bench: Bench, seconds: int) -> tuple[Measured, dict[str, str]]:
    """Changes accepted and published a second in consecutive parts of the time."""
    workload = find_workload("bulk")
    with bench.gateway() as gateway:
        gateway.start_drain()
        apis = [gateway.start_api() for _ in range(API_PROCESSES)]
        apis[0].prepare(workload)
        with ExitStack() as stack:
            loads = [stack.enter_context(load_on(api.url, gateway.key, workload.name, CONNECTIONS)) for api in apis]
            bench.say("end to end, warming up")
            send_at_once(loads, max(5.0, seconds / 6))
            start: datetime = gateway.value("SELECT clock_timestamp()")
            bench.say(f"end to end, {seconds} s")
            send_at_once(loads, seconds)
        end: datetime = gateway.value("SELECT clock_timestamp()")
        gateway.wait_published()
        caught_up: datetime = gateway.value("SELECT max(published_at) FROM mirrorgate.landing_files")
        return _rates(gateway, start, end, bench.runs), {
            "caught up": f"{max(0.0, (caught_up - end).total_seconds()):.1f} s after the last request",
        }


def _rates(gateway: Gateway, start: datetime, end: datetime, parts: int) -> Measured:
    part: timedelta = (end - start) / parts
    return Measured.of(
        [
            gateway.value(SELECT_SUSTAINED, start=start + number * part, end=start + (number + 1) * part)
            / part.total_seconds()
            for number in range(parts)
        ]
    )


def _peers(bench: Bench, seconds: int) -> tuple[dict[str, float], dict[str, str]]:
    """Changes a second by peer, and why one is missing. Raises BenchmarkFailed when all are."""
    rates: dict[str, float] = {}
    reasons: dict[str, str] = {}
    with scratch_folder(bench.folder) as folder:
        write_source(find_workload("bulk"), folder / "source")
        java = {"JAVA_HOME": str(find_java(folder, os.environ))}
        for peer in find_peers():
            bench.say(f"end to end, {peer.name}, {seconds} s")
            try:
                order = PeerOrder(str(folder / "source"), str(folder / peer.module), seconds)
                rates[peer.name] = peer.rate(order, java)
            except BenchmarkFailed as error:
                reasons[peer.name] = f"skipped: {error}"
    if not rates:
        raise BenchmarkFailed(f"no peer could be measured: {reasons}")
    return rates, reasons
