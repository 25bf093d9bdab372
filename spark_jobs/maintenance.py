"""Maintenance in the drain, from a thread of its own: retention in Postgres every minute, the scratch every hour.

Nothing else waits for it. While it fails, payloads and scratch only grow; each failure is logged.
"""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final

import structlog

from app.domain.publication.failure import described
from app.landing.publish import Scratch
from app.landing.scratch_sweep import find_markers, remove_markers, sweep_dropped, sweep_prepared, sweep_scratch
from app.observability.drain_metrics import MAINTENANCE_FAILURES
from app.staging.connection.database import open_engine, translated_errors
from app.staging.ledger.leases import HeldTable, forget_epochs, held_tables
from app.staging.retention.rounds import RetentionLimits, run_retention
from app.staging.tables.registry import dropped_tables
from spark_jobs.drain_cycle import DrainCycle

log = structlog.get_logger()

EVERY_SECONDS: Final = 60.0
_ROUNDS_PER_SWEEP: Final = 60
_STOP_WITHIN: Final = 5.0
_STATEMENT_SECONDS: Final = 300.0
"""What one statement of retention may take; publication does not wait for it."""


def maintain(cycle: DrainCycle, limits: RetentionLimits, *, sweep: datetime | None) -> None:
    """One round: retention, unless another drain is at it; then, where it is said what time it is, the scratch of the
    tables that this drain holds."""
    engine = open_engine(
        cycle.place.database_url, pool_size=2, application="mirrorgate retention", silence_seconds=_STATEMENT_SECONDS
    )
    try:
        report = run_retention(engine, limits)
    finally:
        engine.dispose()
    if report is not None and any(asdict(report).values()):
        log.info("retention", **asdict(report))
    if sweep is not None:
        _sweep(cycle, sweep)


@contextmanager
def maintained(cycle: DrainCycle, limits: RetentionLimits) -> Iterator[None]:
    """Do a round at once and then every minute while the block runs, with the scratch in the first of each hour.

    A process that dies inside leaves the rest to another drain, or to its next start.
    """
    ended = threading.Event()

    def keep() -> None:
        for number in itertools.count():
            try_maintain(cycle, limits, sweep=number % _ROUNDS_PER_SWEEP == 0)
            if ended.wait(EVERY_SECONDS):
                return

    thread = threading.Thread(target=keep, name="maintenance", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_STOP_WITHIN)


def try_maintain(cycle: DrainCycle, limits: RetentionLimits, *, sweep: bool = True) -> None:
    """One round; what fails is logged and left to the next."""
    try:
        maintain(cycle, limits, sweep=datetime.now(UTC) if sweep else None)
    except Exception as error:  # noqa: BLE001  # the thread must live
        MAINTENANCE_FAILURES.inc()
        log.warning("maintenance_failed", **asdict(described(error)))


def _sweep(cycle: DrainCycle, now: datetime) -> None:
    with translated_errors(), cycle.engine.begin() as connection:
        held, dropped = held_tables(connection, cycle.worker_id), dropped_tables(connection)
    removed, markers = sweep_prepared(cycle.zone, now=now) + sweep_dropped(cycle.zone, dropped, now=now), 0
    for table in held:
        if cycle.held.get(table.table_id) == table.epoch:
            scratch = Scratch(table.table_id, table.epoch)
            removed += sweep_scratch(cycle.zone, scratch, recorded=table.recorded, now=now)
            markers += _sweep_markers(cycle, table, now)
    if removed or markers:
        log.info("scratch_swept", removed=removed, markers=markers)


def _sweep_markers(cycle: DrainCycle, table: HeldTable, now: datetime) -> int:
    """Delete markers that are too old to be needed, once that is recorded; how many there are still."""
    markers = find_markers(cycle.zone, Scratch(table.table_id, table.epoch), now=now)
    if not markers.old_through:
        return markers.count
    with translated_errors(), cycle.engine.begin() as connection:
        forget_epochs(connection, table.table_id, table.epoch, through=markers.old_through)
    return markers.count - remove_markers(cycle.zone, table.table_id, markers.old_through)
