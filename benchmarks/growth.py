"""Measure how the cost of a change grows with earlier changes, with the number of tables and with the columns."""

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
from benchmarks.gateway import Api, Gateway, clear_settings
from benchmarks.loads.driver import load_on
from benchmarks.loads.staged_rows import registered, set_states, stage_rows
from benchmarks.loads.workloads import TableSpec, Workload, find_workload
from benchmarks.machine.description import CACHE, REPOSITORY, describe_machine, describe_versions
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
"""Seconds from when the tables were resumed to the last file."""
SELECT_ACCEPTED = """
    SELECT coalesce(sum(accepted_changes), 0)::bigint FROM mirrorgate.table_counters
    JOIN mirrorgate.tables USING (table_id) WHERE folded_name <> 'bench.warm_up'"""


def measure(bench: Bench) -> Iterator[Series]:
    """Yield each series once it is measured."""
    yield Series("changes", "changes that went through the table before", tuple(_by_changes(bench)))
    yield Series("tables", "tables, each with as many changes", tuple(_by_tables(bench)))
    yield Series("columns", "columns of the table", tuple(_by_columns(bench)))


def _by_changes(bench: Bench) -> Iterator[Point]:
    """Measure one table, filled and drained up to each size beforehand."""
    workload = find_workload("bulk")
    with _started(bench) as (gateway, api):
        api.prepare(workload)
        table = registered(gateway.engine, workload.tables[0])
        for size in (bench.scaled(size, least=1_000) for size in CHANGES):
            bench.show_status(f"growth, {size:,} changes")
            stage_rows(gateway.engine, table, max(0, size - _accepted(gateway)))
            yield _stream_point(bench, gateway, api, workload, size)


def _by_columns(bench: Bench) -> Iterator[Point]:
    with _started(bench) as (gateway, api):
        for size in COLUMNS:
            bench.show_status(f"growth, {size} columns")
            workload = find_workload(f"columns-{size}")
            api.prepare(workload)
            yield _stream_point(bench, gateway, api, workload, size)


def _by_tables(bench: Bench) -> Iterator[Point]:
    """Accept a stream over each number of tables, then publish the same number of changes in each of them."""
    with _started(bench) as (gateway, api):
        for size in TABLES:
            bench.show_status(f"growth, {size:,} tables")
            workload = find_workload(f"tables-{size}")
            api.prepare(workload)
            accept = _accept(bench, gateway, api, workload)
            gateway.wait_published()
            with _paused(gateway) as tables:
                for table in tables:
                    stage_rows(gateway.engine, table, PER_TABLE)
            yield Point(size, accept, _publish(gateway, len(tables) * PER_TABLE))


def _stream_point(bench: Bench, gateway: Gateway, api: Api, workload: Workload, size: int) -> Point:
    """Accept changes while nothing is published, then publish them while nothing is accepted."""
    gateway.wait_published()
    with _paused(gateway):
        before = _accepted(gateway)
        accept = _accept(bench, gateway, api, workload)
        changes = _accepted(gateway) - before
    return Point(size, accept, _publish(gateway, changes))


@contextmanager
def _started(bench: Bench) -> Iterator[tuple[Gateway, Api]]:
    """Yield a gateway whose drain has already published once, and its API."""
    with bench.gateway() as gateway:
        gateway.start_drain(max_delay_seconds=0)
        stage_rows(gateway.engine, registered(gateway.engine, TableSpec("bench.warm_up")), 100_000)
        gateway.wait_published()
        yield gateway, gateway.start_api()


@contextmanager
def _paused(gateway: Gateway) -> Iterator[list[Table]]:
    """Pause all tables but the one for warming up while the block runs, and yield them."""
    with gateway.engine.begin() as connection:
        tables = [table for table in list_tables(connection) if table.name.table != "warm_up"]
    set_states(gateway.engine, tables, TableState.PAUSED)
    yield tables
    set_states(gateway.engine, tables, TableState.ACTIVE)


def _accept(bench: Bench, gateway: Gateway, api: Api, workload: Workload) -> float:
    """Return the microseconds per change until it is durable."""
    with load_on(api.url, gateway.key, workload.name, CONNECTIONS) as load:
        load.send(bench.seconds / 4)
        sent = load.send(bench.seconds)
    return sent.seconds / (sent.requests * workload.per_request) * 1e6


def _publish(gateway: Gateway, changes: int) -> float:
    """Wait for the changes that were just resumed; return the microseconds per change."""
    gateway.wait_published()
    return float(gateway.value(SELECT_SECONDS)) / changes * 1e6


def _accepted(gateway: Gateway) -> int:
    """Return the changes accepted so far in the tables that are measured."""
    return int(gateway.value(SELECT_ACCEPTED))


def _timed(measured: Iterable[Series], console: Console) -> Iterator[Series]:
    """Yield the series, and print how long each took."""
    started = time.monotonic()
    for series in measured:
        console.print(f"[dim]{series.name} took {time.monotonic() - started:.0f} s[/]")
        yield series
        started = time.monotonic()


def main() -> int:
    """Measure, write the results and draw them; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds per run under load (default: 5)")
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        help="size of the tables, as a factor; at 1 the largest has 10 million changes (default: 1)",
    )
    parser.add_argument("--output", type=Path, default=FILE, help="write the measurements to this file")
    arguments = parser.parse_args()
    console = Console(highlight=False)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    clear_settings()
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    try:
        with stop_signals_interrupt(), Progress(*columns, console=console) as progress:
            task = progress.add_task("", total=None)
            bench = Bench(
                1, arguments.seconds, arguments.scale, CACHE, lambda text: progress.update(task, description=text)
            )
            now = datetime.now(UTC).isoformat(timespec="seconds")
            machine, versions = describe_machine(), describe_versions()
            growth = Growth(now, machine, versions, arguments.scale, tuple(_timed(measure(bench), console)))
            write_growth(arguments.output, growth)
            bench.show_status("drawing")
            for file in draw(arguments.output):
                console.print(f"Drawn: {file.name}")
    except KeyboardInterrupt:
        console.print("Stopped; all started processes have ended.")
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
