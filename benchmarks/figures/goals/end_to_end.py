"""End to end: changes per second from request to landing file on two cores, compared with the best competitor."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from typing import Final

from app.local.embedded import find_java
from benchmarks.bench import Bench, scratch_folder
from benchmarks.competitors.runner import ConversionJob, find_competitors, write_source
from benchmarks.gateway import Gateway
from benchmarks.loads.driver import load_on, send_at_once
from benchmarks.loads.workloads import find_workload
from benchmarks.reports.figure import BenchmarkFailed, Figure, Goal, Measured, readable

CORES: Final = 2
API_PROCESSES: Final = 2
CONNECTIONS: Final = 4
"""Per API process; each has its own port, as behind a load balancer."""
SECONDS: Final = 60

SELECT_SUSTAINED = """
    SELECT least(
        (SELECT coalesce(sum(change_count), 0) FROM mirrorgate.landing_files
         WHERE published_at >= :start AND published_at < :end),
        (SELECT coalesce(sum(change_count), 0) FROM mirrorgate.staged_blocks
         WHERE staged_at >= :start AND staged_at < :end))::bigint"""
"""The lesser of changes published and accepted in a period, because a backlog before or after it can inflate either."""


def measure(bench: Bench) -> list[Figure]:
    """Measure each competitor alone on the cores, then the gateway.

    The load generator, one API process per core, Postgres, the drain and Spark share the same cores.
    """
    seconds = bench.scaled(SECONDS, least=6)
    with limit_cores(CORES):
        competitors, reasons = _competitors(bench, seconds)
        published, details = _gateway(bench, seconds)
    best = max(competitors, key=lambda name: competitors[name])
    return [
        Figure(
            "end-to-end",
            f"End to end: changes published, sustained {seconds} s on {CORES} cores",
            "changes/s",
            published,
            Measured.of([competitors[best]] * len(published.runs)),
            f"the fastest competitor: {best}",
            Goal(3.0, at_least=True),
            details | {name: f"{readable(rate)} changes/s" for name, rate in competitors.items()} | reasons,
        )
    ]


@contextmanager
def limit_cores(most: int) -> Iterator[None]:
    """Restrict the current process, and those that it starts meanwhile, to the first `most` cores."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:most])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _gateway(bench: Bench, seconds: int) -> tuple[Measured, dict[str, str]]:
    """Return the changes per second that were both accepted and published, in consecutive parts of the time."""
    workload = find_workload("bulk")
    with bench.gateway() as gateway:
        gateway.start_drain()
        apis = [gateway.start_api() for _ in range(API_PROCESSES)]
        apis[0].prepare(workload)
        with ExitStack() as stack:
            loads = [stack.enter_context(load_on(api.url, gateway.key, workload.name, CONNECTIONS)) for api in apis]
            bench.show_status("end to end, warming up")
            send_at_once(loads, max(5.0, seconds / 6))
            start: datetime = gateway.value("SELECT clock_timestamp()")
            bench.show_status(f"end to end, {seconds} s")
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


def _competitors(bench: Bench, seconds: int) -> tuple[dict[str, float], dict[str, str]]:
    """Return changes per second by competitor, and why one is missing.

    Raises BenchmarkFailed when all of them are.
    """
    rates: dict[str, float] = {}
    reasons: dict[str, str] = {}
    with scratch_folder(bench.folder) as folder:
        write_source(find_workload("bulk"), folder / "source")
        java = {"JAVA_HOME": str(find_java(folder, os.environ))}
        for competitor in find_competitors():
            bench.show_status(f"end to end, {competitor.name}, {seconds} s")
            try:
                job = ConversionJob(str(folder / "source"), str(folder / competitor.module), seconds)
                rates[competitor.name] = competitor.rate(job, java)
            except BenchmarkFailed as error:
                reasons[competitor.name] = f"skipped: {error}"
    if not rates:
        raise BenchmarkFailed(f"no competitor could be measured: {reasons}")
    return rates, reasons
