"""The drain's loop: find due tables, prepare them, and assign them to worker slots; and its maintenance thread.

`DrainLoop` assigns tables to worker slots, which build and publish. Invariant: a table is in at most one assignment at
a time, so its files are published by one thread, in order.

`maintenance_running` runs maintenance in a separate thread: retention in Postgres every minute, the scratch sweep every
hour. Nothing waits for it. While it fails, payloads and scratch grow; each failure is logged.
"""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from app.domain.model.table import TableId
from app.domain.publication import described
from app.landing.publish import Scratch, find_markers, remove_markers, sweep_dropped, sweep_prepared, sweep_scratch
from app.observability.drain_metrics import LAST_MAINTENANCE, MAINTENANCE_FAILURES, STALE_LOADS
from app.observability.periodic_thread import PeriodicThread
from app.staging.connection.database import disposed, open_engine, translated_errors
from app.staging.ledger.leases import HeldTable, forget_epochs, held_tables
from app.staging.retention.rounds import RetentionLimits, run_retention
from app.staging.tables.registry import dropped_tables
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.scheduling import MAX_WORKER_SLOTS, MIN_BACKOFF, RetrySchedule, balance
from spark_jobs.steps.context import DrainContext
from spark_jobs.steps.publishing import MAX_TABLES_PER_TRANSACTION, ClaimedTable

log = structlog.get_logger()

INTERVAL_SECONDS: Final = 60.0
_RUNS_PER_SWEEP: Final = 60
_STOP_SECONDS: Final = 5.0
_MAX_STATEMENT_SECONDS: Final = 300.0
"""Seconds that one statement of retention may take; publication does not wait for it."""


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
    with disposed(engine):
        report = run_retention(engine, limits)
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


_CLAIM_THREADS: Final = 4
"""Tables that are claimed and planned at the same time: nearly all of that is waiting for Postgres."""
_MAX_BUSY: Final = 1_000
"""The other due tables are left to other drains, or wait."""
_MAX_CLAIMED_AT_ONCE: Final = 256
"""Of many due tables, these are built while the next are claimed."""

_MAX_DATABASE_BACKOFF: Final = 5.0
"""Short: all tables wait for Postgres, and one question costs little."""


class DrainLoop:
    """Loop that finds due tables and assigns them to worker slots: threads that each build and publish."""

    def __init__(self, cycle: DrainCycle, *, worker_slots: int | None, stopping: threading.Event | None = None) -> None:
        """Start no thread yet. `worker_slots` None: as many as Spark runs tasks, which changes with its executors."""
        self._cycle = cycle
        self._worker_slots = worker_slots
        self._slots = ThreadPoolExecutor(worker_slots or MAX_WORKER_SLOTS, thread_name_prefix="worker-slot")
        self._claims = ThreadPoolExecutor(_CLAIM_THREADS, thread_name_prefix="claim")
        self._lock = threading.Lock()
        self._busy: set[TableId] = set()
        self._assignments: set[Future[None]] = set()
        self._retries = RetrySchedule[TableId]()
        self.stopping = stopping or threading.Event()

    def drain_pending(self) -> set[TableId]:
        """Publish until nothing is due, for `--once`; return the tables that could not be published now."""
        while not self.stopping.is_set() and (self._start_due() or self._cycle.wait()):
            wait(self._assignments)
        return self._retries.failed()

    def run(self, wake: threading.Event, poll_seconds: float, *, rest_seconds: float = 0.0) -> None:
        """Publish what is due at each wake and at least every `poll_seconds`, until `stopping` is set.

        After each query for due tables, wakes wait for `rest_seconds`. A wake after a longer silence is not delayed.
        """
        pause = MIN_BACKOFF
        while not self.stopping.is_set():
            wake.wait(poll_seconds - rest_seconds)
            wake.clear()
            try:
                self._start_due()
                self._cycle.waits_for = None
                pause = MIN_BACKOFF
            except Exception as error:  # noqa: BLE001  # for example, Postgres fails over: ask again
                self._wait(error, pause)
                pause = min(2 * pause, _MAX_DATABASE_BACKOFF)
            self.stopping.wait(rest_seconds)
        self._slots.shutdown(wait=True)
        self._claims.shutdown(wait=True)
        self._cycle.stop()

    def _start_due(self) -> bool:
        """Prepare and assign the due tables; return whether there was anything to build, or a first failure."""
        due = self._cycle.due()
        with self._lock:
            left_out = self._busy | self._retries.postponed(time.monotonic())
            ready = [table_id for table_id in due if table_id not in left_out][: _MAX_BUSY - len(self._busy)]
            tasks = self._tasks_per_table(len(ready) + len(self._busy))
        slots = self._worker_slots or min(self._cycle.builder.parallel_tasks, MAX_WORKER_SLOTS)
        any_found = False
        for part in _parts(ready, _MAX_CLAIMED_AT_ONCE):
            claimed, failed = self._prepare(part, tasks, self._claims.map)
            any_found = any_found or bool(claimed) or not self._retries.failed().issuperset(failed)
            for table_id in failed:
                self._retries.back_off(table_id)
            for assignment in balance(claimed, lambda entry: entry.rows, slots):
                with self._lock:
                    self._busy |= {entry.table_id for entry in assignment}
                self._assignments.add(self._slots.submit(self._work_on, assignment))
        self._assignments -= {assignment for assignment in self._assignments if assignment.done()}
        return any_found

    def _tasks_per_table(self, tables: int) -> int:
        return max(1, self._cycle.builder.parallel_tasks // max(1, tables))

    def _prepare(
        self, table_ids: Sequence[TableId], tasks: int, each: Callable[..., Iterable[Any]]
    ) -> tuple[list[ClaimedTable], list[TableId]]:
        """Return what there is to build of these tables, and which of them failed.

        Tables that this drain has taken over are planned together, the others are prepared one by one. `each` is `map`
        or one that works on several at the same time.
        """
        claimed: list[ClaimedTable] = []
        alone: list[TableId] = []
        parts = _parts(table_ids, MAX_TABLES_PER_TRANSACTION)
        for entries, left in each(lambda part: self._cycle.prepare_leased(part, tasks=tasks), parts):
            claimed += entries
            alone += left
        entries = list(each(lambda table_id: self._cycle.prepare(table_id, tasks=tasks), alone))
        failed = [table_id for table_id in alone if self._cycle.leased.must_back_off(table_id)]
        return claimed + [entry for entry in entries if entry is not None], failed

    def _work_on(self, assignment: list[ClaimedTable]) -> None:
        """Publish the assigned tables, and what becomes due for them meanwhile, until nothing is left."""
        tables = {entry.table_id for entry in assignment}
        try:
            while assignment and not self.stopping.is_set():
                published = self._cycle.build_and_publish(assignment)
                self._retries.reset(published)
                with self._lock:
                    tasks = self._tasks_per_table(len(self._busy))
                for table_id in {entry.table_id for entry in assignment} - published:
                    self._retries.back_off(table_id)
                assignment = self._prepare_again(published, tasks)
        except Exception as error:  # noqa: BLE001  # a thread must not die silently; the tables are retried
            log.warning("worker_slot_failed", tables=len(tables), **asdict(described(error)))
            for table_id in tables:
                self._cycle.leased.forget(table_id)
                self._retries.back_off(table_id)
        finally:
            with self._lock:
                self._busy -= tables

    def _prepare_again(self, published: set[TableId], tasks: int) -> list[ClaimedTable]:
        """Return those of the tables that are due again; what is unknown now is left to the loop."""
        try:
            due = self._cycle.due()
        except Exception as error:  # noqa: BLE001  # the loop asks again
            self._wait(error, 0.0)
            return []
        # In this thread, because tables that need a claim or a drop may take long. The loop finds what fails here.
        again, _ = self._prepare([table_id for table_id in due if table_id in published], tasks, map)
        return again

    def _wait(self, error: Exception, seconds: float) -> None:
        """Report what keeps the drain from finding due tables, and give it time to pass."""
        failure = described(error)
        self._cycle.waits_for = failure.code
        log.warning("drain_waiting", code=failure.code, detail=failure.detail, remedy=failure.remedy)
        self.stopping.wait(seconds)


def _parts(table_ids: Sequence[TableId], size: int) -> list[Sequence[TableId]]:
    return [table_ids[start : start + size] for start in range(0, len(table_ids), size)]
