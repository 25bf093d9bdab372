"""`make bench-plots`: how the cost of a change grows with the changes before it, the tables, and the columns."""

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from app.domain.model.table import Table, TableState
from app.local.supervisor import stop_signals_interrupt
from app.staging.tables.registry import list_tables
from benchmarks.bench import Bench
from benchmarks.gateway import Api, Gateway, forget_settings
from benchmarks.loads.driver import load_on
from benchmarks.loads.staged_rows import registered, set_states, stage_rows
from benchmarks.loads.workloads import TableSpec, Workload, find_workload
from benchmarks.machine.description import CACHE, REPOSITORY, find_machine, find_versions
from benchmarks.reports.figure import BenchmarkFailed
from benchmarks.reports.growth_results import Growth, Point, Series, write_growth
from benchmarks.reports.plots import draw

FILE: Final = REPOSITORY / "benchmarks" / "results" / "growth.json"
CHANGES: Final = (10_000, 100_000, 1_000_000, 10_000_000)
TABLES: Final = (1, 10, 100, 1_000)
COLUMNS: Final = (4, 16, 64, 200, 400)
CONNECTIONS: Final = 8

PER_TABLE: Final = 1_000

SELECT_SECONDS = """
    SELECT extract(epoch FROM (SELECT max(published_at) FROM mirrorgate.landing_files)
        - (SELECT max(happened_at) FROM mirrorgate.table_events))::float8"""
"""From the moment when the tables were let go to the last file."""
SELECT_ACCEPTED = """
    SELECT coalesce(sum(accepted_changes), 0)::bigint FROM mirrorgate.table_counters
    JOIN mirrorgate.tables USING (table_id) WHERE folded_name <> 'bench.warm_up'"""


def measure(bench: Bench) -> Iterator[Series]:
    yield Series("changes", "changes that went through the table before", tuple(_by_changes(bench)))
    yield Series("tables", "tables, each with as many changes", tuple(_by_tables(bench)))
    yield Series("columns", "columns of the table", tuple(_by_columns(bench)))


def _by_changes(bench: Bench) -> Iterator[Point]:
    """One table, filled and drained up to each size before it is measured."""
    workload = find_workload("bulk")
    with _started(bench) as (gateway, api):
        api.prepare(workload)
        table = registered(gateway.engine, workload.tables[0])
        for size in (bench.scaled(size, least=1_000) for size in CHANGES):
            bench.say(f"growth, {size:,} changes")
            stage_rows(gateway.engine, table, max(0, size - _accepted(gateway)))
            yield _stream_point(bench, gateway, api, workload, size)


def _by_columns(bench: Bench) -> Iterator[Point]:
    with _started(bench) as (gateway, api):
        for size in COLUMNS:
            bench.say(f"growth, {size} columns")
            workload = find_workload(f"columns-{size}")
            api.prepare(workload)
            yield _stream_point(bench, gateway, api, workload, size)


def _by_tables(bench: Bench) -> Iterator[Point]:
    """Accepting a stream over so many tables; publishing as many changes in each of them."""
    with _started(bench) as (gateway, api):
        for size in TABLES:
            bench.say(f"growth, {size:,} tables")
            workload = find_workload(f"tables-{size}")
            api.prepare(workload)
            accept = _accept(bench, gateway, api, workload)
            gateway.wait_published()
            with _paused(gateway) as tables:
                for table in tables:
                    stage_rows(gateway.engine, table, PER_TABLE)
            yield Point(size, accept, _publish(gateway, len(tables) * PER_TABLE))


def _stream_point(bench: Bench, gateway: Gateway, api: Api, workload: Workload, size: int) -> Point:
    """Nothing is published while changes are accepted, then nothing is accepted while they are published."""
    gateway.wait_published()
    with _paused(gateway):
        before = _accepted(gateway)
        accept = _accept(bench, gateway, api, workload)
        changes = _accepted(gateway) - before
    return Point(size, accept, _publish(gateway, changes))


@contextmanager
def _started(bench: Bench) -> Iterator[tuple[Gateway, Api]]:
    """A gateway whose drain has published already."""
    with bench.gateway() as gateway:
        gateway.start_drain(max_delay_seconds=0)
        stage_rows(gateway.engine, registered(gateway.engine, TableSpec("bench.warm_up")), 100_000)
        gateway.wait_published()
        yield gateway, gateway.start_api()


@contextmanager
def _paused(gateway: Gateway) -> Iterator[list[Table]]:
    """Tables that publish nothing while the block runs: all but the one that warmed up."""
    with gateway.engine.begin() as connection:
        tables = [table for table in list_tables(connection) if table.name.table != "warm_up"]
    set_states(gateway.engine, tables, TableState.PAUSED)
    yield tables
    set_states(gateway.engine, tables, TableState.ACTIVE)


def _accept(bench: Bench, gateway: Gateway, api: Api, workload: Workload) -> float:
    """Microseconds a change until it is durable."""
    with load_on(api.url, gateway.key, workload.name, CONNECTIONS) as load:
        load.send(bench.seconds / 4)
        sent = load.send(bench.seconds)
    return sent.seconds / (sent.requests * workload.per_request) * 1e6


def _publish(gateway: Gateway, changes: int) -> float:
    """Microseconds a change of those that were let go just now."""
    gateway.wait_published()
    return float(gateway.value(SELECT_SECONDS)) / changes * 1e6


def _accepted(gateway: Gateway) -> int:
    """Of the tables that are measured."""
    return int(gateway.value(SELECT_ACCEPTED))


def _timed(measured: Iterable[Series], console: Console) -> Iterator[Series]:
    """The series, each with a line on how long it took."""
    started = time.monotonic()
    for series in measured:
        console.print(f"[dim]{series.name} took {time.monotonic() - started:.0f} s[/]")
        yield series
        started = time.monotonic()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a run under load (5)")
    parser.add_argument("--scale", type=float, default=1.0, help="size of the largest table; 1 is 10 million changes")
    parser.add_argument("--output", type=Path, default=FILE, help="where the measurements go")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    forget_settings()
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    try:
        with stop_signals_interrupt(), Progress(*columns, console=console) as progress:
            task = progress.add_task("", total=None)
            bench = Bench(
                1, arguments.seconds, arguments.scale, CACHE, lambda text: progress.update(task, description=text)
            )
            now = datetime.now(UTC).isoformat(timespec="seconds")
            machine, versions = find_machine(), find_versions()
            growth = Growth(now, machine, versions, arguments.scale, tuple(_timed(measure(bench), console)))
            write_growth(arguments.output, growth)
            bench.say("drawing")
            for file in draw(arguments.output):
                console.print(f"Drawn: {file.name}")
    except KeyboardInterrupt:
        console.print("Stopped; every process that was started has ended.")
        return 130
    except BenchmarkFailed as error:
        console.print(f"[red]{escape(str(error))}[/]")
        return 2
    for series in growth.series:
        exponents = f"accept ^{series.accept_exponent:.2f}, publish ^{series.publish_exponent:.2f}"
        console.print(f"Cost of a change by {series.title}: {exponents}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
