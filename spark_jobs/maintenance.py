"""Maintenance in the drain, in its own thread: retention in Postgres every minute, the scratch sweep every hour.

Nothing waits for it. While it fails, payloads and scratch grow; each failure is logged.
"""

import itertools
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

import structlog

from app.domain.publication.failure import described
from app.landing.publish import Scratch
from app.landing.scratch_sweep import find_markers, remove_markers, sweep_dropped, sweep_prepared, sweep_scratch
from app.observability.drain_metrics import LAST_MAINTENANCE, MAINTENANCE_FAILURES, STALE_LOADS
from app.observability.periodic_thread import PeriodicThread
from app.staging.connection.database import open_engine, translated_errors
from app.staging.ledger.leases import HeldTable, forget_epochs, held_tables
from app.staging.retention.rounds import RetentionLimits, run_retention
from app.staging.tables.registry import dropped_tables
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.steps.context import DrainContext

log = structlog.get_logger()

INTERVAL_SECONDS: Final = 60.0
_RUNS_PER_SWEEP: Final = 60
_STOP_SECONDS: Final = 5.0
_MAX_STATEMENT_SECONDS: Final = 300.0
"""What one statement of retention may take; publication does not wait for it."""


def run_maintenance(cycle: DrainCycle, limits: RetentionLimits, *, sweep: datetime | None) -> None:
    """Run retention, unless another drain does; with the present time in `sweep`, also sweep the scratch.

    A process that dies inside leaves the rest to the next run. Raise OSError and the database's errors.
    """
    engine = open_engine(
        cycle.context.config.database_url,
        pool_size=2,
        application="mirrorgate retention",
        silence_seconds=_MAX_STATEMENT_SECONDS,
    )
    try:
        report = run_retention(engine, limits)
    finally:
        engine.dispose()
    if report is not None and any(asdict(report).values()):
        log.info("retention", **asdict(report))
        STALE_LOADS.inc(report.ended_loads)
    if sweep is not None:
        _sweep(cycle, sweep)


def maintenance_running(cycle: DrainCycle, limits: RetentionLimits) -> PeriodicThread:
    """Run maintenance at once and then every minute while a block runs; the first run of each hour sweeps scratch."""
    numbers = itertools.count()

    def run() -> None:
        try_maintenance(cycle, limits, sweep=next(numbers) % _RUNS_PER_SWEEP == 0)

    return PeriodicThread("maintenance", INTERVAL_SECONDS, run, join_seconds=_STOP_SECONDS)


def try_maintenance(cycle: DrainCycle, limits: RetentionLimits, *, sweep: bool = True) -> None:
    """Run maintenance once; log and count a failure, and leave it to the next run."""
    try:
        run_maintenance(cycle, limits, sweep=datetime.now(UTC) if sweep else None)
        LAST_MAINTENANCE.set_to_current_time()
    except Exception as error:  # noqa: BLE001  # the thread must live
        MAINTENANCE_FAILURES.inc()
        log.warning("maintenance_failed", **asdict(described(error)))


def _sweep(cycle: DrainCycle, now: datetime) -> None:
    """Sweep the root of the scratch, dropped tables, and the tables that this drain has taken over."""
    context = cycle.context
    with translated_errors(), context.engine.begin() as connection:
        leased, dropped = held_tables(connection, context.worker_id), dropped_tables(connection)
    removed = sweep_prepared(context.zone, now=now) + sweep_dropped(context.zone, dropped, now=now)
    markers = 0
    for table in leased:
        if cycle.leased.epoch(table.table_id) == table.epoch:
            scratch = Scratch(table.table_id, table.epoch)
            removed += sweep_scratch(context.zone, scratch, recorded=table.recorded, now=now)
            markers += _sweep_markers(context, table, now)
    if removed or markers:
        log.info("scratch_swept", removed=removed, markers=markers)


def _sweep_markers(context: DrainContext, table: HeldTable, now: datetime) -> int:
    """Delete revocation markers that are too old to be needed; return how many are left.

    Postgres records first that their epochs are over, so that no take-over writes the markers again.
    """
    markers = find_markers(context.zone, Scratch(table.table_id, table.epoch), now=now)
    if not markers.old_through:
        return markers.count
    with translated_errors(), context.engine.begin() as connection:
        forget_epochs(connection, table.table_id, table.epoch, through=markers.old_through)
    return markers.count - remove_markers(context.zone, table.table_id, markers.old_through)
