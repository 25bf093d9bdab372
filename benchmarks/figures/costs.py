"""Costs: processor time of a change in all parts, from request to landing file, compared with only decoding it."""

import statistics
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Final

import msgspec

from app.domain.model.table import Table, TableState
from benchmarks.bench import Bench
from benchmarks.costs import Costs
from benchmarks.gateway import Gateway
from benchmarks.ledger_query import drain_paused
from benchmarks.loads.decoding import decoding_rate
from benchmarks.loads.driver import load_on
from benchmarks.loads.staged_rows import registered, set_state, stage_rows
from benchmarks.loads.workloads import find_workload
from benchmarks.machine.resource_usage import ResourceUsage
from benchmarks.reports.figure import Figure, Measured, readable

CONNECTIONS: Final = 8
ROWS: Final = 4_000_000

SELECT_BYTES: Final = """
    SELECT (SELECT coalesce(sum(payload_bytes), 0) FROM mirrorgate.staged_blocks)::float8,
        pg_database_size(current_database())::float8,
        (SELECT coalesce(sum(file_bytes), 0) FROM mirrorgate.landing_files)::float8"""
"""Bytes staged, of the whole database, and landed."""
SELECT_ACCEPTED: Final = "SELECT sum(accepted_changes)::bigint FROM mirrorgate.table_counters"


def measure(bench: Bench) -> list[Figure]:
    """Accept changes while nothing is published, then publish them while nothing is accepted."""
    workload = find_workload("bulk")
    bodies = workload.bodies()
    sent_bytes = sum(map(len, bodies)) / len(bodies) / workload.per_request
    found, decoded, staging = [], [], []
    with bench.gateway() as gateway:
        api, drain = gateway.start_api(), gateway.start_drain(max_delay_seconds=0)
        table = registered(gateway.engine, workload.tables[0])
        with load_on(api.url, gateway.key, workload.name, CONNECTIONS) as load:
            for number in chain([0], bench.each_run("costs")):
                rate = decoding_rate(bodies, bench.seconds / 4) * workload.per_request
                run = _Run(gateway, {"api": api.pid, "drain": drain.pid}, table)
                costs = run.costs(lambda: load.send(bench.seconds), bench.scaled(ROWS, least=50_000), sent_bytes)
                if number:
                    found.append(costs)
                    decoded.append(1e6 / rate)
                    staging.append(run.staging_rate)
    return [
        Figure(
            "costs",
            f"Processor time of a change, {workload.per_request:,} per request, all parts together",
            "µs",
            Measured.of([costs.processors for costs in found]),
            Measured.of(decoded),
            "orjson.loads of the same bytes, one thread",
            details={
                "one writer, one table, without HTTP and typing": f"{readable(statistics.median(staging))} rows/s"
            },
            costs=_medians(found),
        )
    ]


class _Run:
    """Accepts changes over HTTP and more rows without it while the table is paused, then publishes all of them."""

    def __init__(self, gateway: Gateway, parts: Mapping[str, int], table: Table) -> None:
        self._gateway, self._parts, self._table = gateway, parts, table
        self.staging_rate = 0.0

    def costs(self, send: Callable[[], object], rows: int, sent_bytes: float) -> Costs:
        """Measure one run.

        `rows` are staged directly, so that draining takes long enough to measure whatever the rate of the API.
        """
        gateway, table = self._gateway, self._table
        set_state(gateway.engine, table, TableState.PAUSED)
        bytes_before, changes_before = gateway.rows(SELECT_BYTES)[0], gateway.value(SELECT_ACCEPTED)
        began = self._read()
        send()
        accepting = self._read().since(began)
        changes = int(gateway.value(SELECT_ACCEPTED) - changes_before)
        staging = self._read()
        stage_rows(gateway.engine, table, rows)
        draining = self._read()
        self.staging_rate = rows / draining.since(staging).at
        drain_paused(gateway, table)
        publishing, both = self._read().since(draining), changes + rows
        bytes_after = gateway.rows(SELECT_BYTES)[0]
        staged, disk, landed = ((now - then) / both for now, then in zip(bytes_after, bytes_before, strict=True))
        return Costs(
            api=accepting.microseconds("api", changes),
            postgres_accepting=accepting.microseconds("postgres", changes),
            drain=publishing.microseconds("drain", both),
            postgres_draining=publishing.microseconds("postgres", both),
            sent_bytes=sent_bytes,
            log_bytes=accepting.log_bytes / changes + publishing.log_bytes / both,
            staged_bytes=staged,
            disk_bytes=disk,
            file_bytes=landed,
        )

    def _read(self) -> ResourceUsage:
        return ResourceUsage.take(self._gateway, **self._parts)


def _medians(found: list[Costs]) -> Costs:
    """Return the median of each cost by itself."""
    values = [msgspec.to_builtins(costs) for costs in found]
    return msgspec.convert({name: statistics.median(one[name] for one in values) for name in values[0]}, Costs)
