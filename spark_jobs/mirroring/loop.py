"""The mirror's loop: find tables with changes, and hand them to worker slots, each of which runs one Spark job.

`stamps_of` tells which table folders have changed, and `TableStates` has what the process knows of each table between
two rounds. `MirrorLoop` hands out the tables. Invariant: a table is in at most one job at a time, so one task owns its
Delta log while it commits.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from typing import Final, TypeAlias

import structlog
from pyspark.sql import SparkSession

from app.domain.mirror_report import NO_UPKEEP, MirrorState, TableReport, Upkeep
from app.domain.publication import Failure, described
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.zone import LandingZone, PathKind
from app.mirror.target_lock import HeldTarget
from app.observability import mirror_metrics as metrics
from app.published.table_files import PublishedTable, list_tables
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable
from spark_jobs.mirroring.task import DueTable, MirrorJob, TableOutcome, run_task, version_of
from spark_jobs.scheduling import MAX_WORKER_SLOTS, RetrySchedule
from spark_jobs.spark.health import SparkCalls

_SETTLED_NS: Final = 2 * 10**9
"""Longer than the tick of any file system's clock that a landing zone may have."""
_MAX_REQUESTS: Final = 16
"""Folders of a remote zone that are listed at the same time."""

Stamp: TypeAlias = Hashable
"""Equal stamps: no file of the folder was added, removed, renamed or replaced by another in between."""
TakeStamps: TypeAlias = Callable[[Sequence[PublishedTable]], Mapping[PublishedTable, Stamp]]


def stamps_of(address: ZoneAddress, zone: LandingZone) -> TakeStamps:
    """Return the function that takes the stamps of tables of a zone. It raises OSError if a remote store fails.

    Stamps show at little cost per table which folders have changed since the mirror last looked. In a local zone, one
    `stat` per folder tells: a file that is added, removed or renamed changes the folder's modification time. A file
    system's clock has ticks, so a folder that changed within the last two seconds is listed as well. In a remote zone,
    each folder is listed.
    """
    if address.is_remote:
        return lambda tables: _listed(zone, tables)
    return lambda tables: {table: _local_stamp(f"{address.location}/{table.folder}") for table in tables}


def _local_stamp(folder: str) -> Stamp:
    try:
        state = os.stat(folder)  # noqa: PTH116  # a Path per table and round costs more than the call
        settled = time.time_ns() - state.st_mtime_ns > _SETTLED_NS
        names = None if settled else frozenset(os.listdir(folder))  # noqa: PTH208
    except OSError:  # it is gone, or a task reports why it cannot be read
        return None
    return state.st_dev, state.st_ino, state.st_mtime_ns, names


def _listed(zone: LandingZone, tables: Sequence[PublishedTable]) -> dict[PublishedTable, Stamp]:
    with ThreadPoolExecutor(_MAX_REQUESTS, thread_name_prefix="zone-listing") as threads:
        found = threads.map(lambda table: frozenset(zone.entries(table.folder).items()), tables)
        return dict(zip(tables, found, strict=True))


_RELOOK_SECONDS: Final = (450.0, 750.0)
"""After a time between these two, a table is looked at without a change of its folder: its Delta table may be gone."""


_PARTITIONED_RELOOK_SECONDS: Final = 5.0
"""The same for a table whose files are in folders of partitions: a change of the table folder does not show them."""


@dataclass(slots=True)
class _Known:
    stamp: Stamp = None
    """Stamp of the folder before the last look; None: look again."""
    relook_at: float = 0.0
    looked_at: float = 0.0
    upkeep_on: date | None = None
    """The day, in UTC, of its last daily upkeep in this process."""
    report: TableReport | None = None


class TableStates:
    """The tables, what they wait for, and the last report of each. Threads share it.

    All of it can be found out again after a restart.
    """

    def __init__(self, upkeep: Upkeep = NO_UPKEEP) -> None:
        self._upkeep = upkeep
        self._lock = threading.Lock()
        self._known: dict[PublishedTable, _Known] = {}
        self._busy: dict[PublishedTable, Stamp] = {}
        self.retries = RetrySchedule[PublishedTable]()

    def find_due(self, stamps: Mapping[PublishedTable, Stamp], *, retry: bool = True) -> list[PublishedTable]:
        """Return the tables to look at, those that have waited longest first; without `retry`, none that has failed.

        `stamps` are of all tables of the zone. A table that is no longer there is due once more, to be reported.
        """
        now, today = time.monotonic(), self._upkeep_day()
        postponed = self.retries.postponed(now) if retry else self.retries.failed()
        with self._lock:
            gone = [table for table, known in self._known.items() if table not in stamps and not _is_dropped(known)]
            due = [
                table
                for table, stamp in stamps.items()
                if (known := self._known.setdefault(table, _Known())).stamp is None
                or known.stamp != stamp
                or known.relook_at <= now
                or (today is not None and known.upkeep_on != today)
            ]
            ready = [table for table in (*gone, *due) if table not in self._busy and table not in postponed]
            return sorted(ready, key=lambda table: self._known[table].looked_at)

    def start(self, tables: Iterable[PublishedTable], stamps: Mapping[PublishedTable, Stamp]) -> list[DueTable]:
        """Mark tables as being worked on, with the stamps that were taken before."""
        today = self._upkeep_day()
        with self._lock:
            started = []
            for table in tables:
                known = self._known[table]
                self._busy[table] = stamps.get(table)
                is_daily = today is not None and known.upkeep_on != today
                known.upkeep_on = today or known.upkeep_on
                started.append(DueTable(table, None if known.report is None else version_of(known.report), is_daily))
            return started

    def _upkeep_day(self) -> date | None:
        """Return the day of the upkeep that is due now; None outside its window, or if there is none."""
        now = datetime.now(UTC)
        has_upkeep = self._upkeep.small_files or self._upkeep.retention_hours
        return now.date() if has_upkeep and self._upkeep.is_open(now) else None

    def record(self, outcome: TableOutcome) -> tuple[TableReport | None, TableReport | None]:
        """Keep what a task found, and when to look again. Return the reports before and after."""
        table, report = outcome.table, outcome.report
        with self._lock:
            known = self._known[table]
            before = known.report
            now = time.monotonic()
            is_partitioned = report is not None and report.is_partitioned
            relook = random.uniform(*_RELOOK_SECONDS) if not is_partitioned else _PARTITIONED_RELOOK_SECONDS
            known.looked_at, known.relook_at = now, now + relook
            known.report = report if outcome.failure is None else _failing(table, report or before, outcome.failure)
            must_back_off = outcome.failure is not None or (
                report is not None
                and (report.state is MirrorState.STOPPED or (outcome.is_due_again and not outcome.commits))
            )
            known.stamp = None if must_back_off or outcome.is_due_again else self._busy[table]
        if must_back_off:
            self.retries.back_off(table)
        else:
            self.retries.reset([table])
        return before, known.report

    def finish(self, tables: Iterable[PublishedTable]) -> None:
        """Mark tables as no longer worked on; those that were not reached remain due."""
        with self._lock:
            for table in tables:
                self._busy.pop(table, None)

    def reports(self) -> list[TableReport]:
        """Return the last report of each table that was looked at."""
        with self._lock:
            return [known.report for known in self._known.values() if known.report is not None]


def _is_dropped(known: _Known) -> bool:
    return known.report is not None and known.report.state is MirrorState.DROPPED and known.report.code is None


def _failing(table: PublishedTable, report: TableReport | None, failure: Failure) -> TableReport:
    """Return the last known report with the reason why the last look failed."""
    known = report or TableReport(str(table), MirrorState.BEHIND)
    return replace(known, code=str(failure.code), detail=failure.detail, remedy=failure.remedy)


log = structlog.get_logger()

_MIN_PAUSE: Final = 0.5
_MAX_PAUSE: Final = 5.0
"""Pauses between two checks of a landing zone or a target that is unreachable."""
_MIN_ROUND_SECONDS: Final = 0.05
"""Between two rounds, so that tables that are behind do not cause a check of the zone for each finished job."""
_MAX_SLICE_SECONDS: Final = 0.2
_PAUSE: Final = threading.Event()
"""Never set."""


class MirrorLoop:
    """Loop that keeps Delta tables up to date with a landing zone."""

    def __init__(
        self,
        spark: SparkSession,
        job: MirrorJob,
        held: HeldTarget,
        stopping: threading.Event,
        *,
        only: frozenset[str] = frozenset(),
    ) -> None:
        """Start no thread yet. `only`: names of the tables to mirror, folded to lower case; empty: all."""
        self._spark = spark
        self._job = job
        self._held = held
        self._only = only
        self._zone: LandingZone = open_zone(job.zone)
        self._take_stamps = stamps_of(job.zone, self._zone)
        self._threads = ThreadPoolExecutor(MAX_WORKER_SLOTS, thread_name_prefix="worker-slot")
        self._jobs: set[Future[None]] = set()
        self._wake = threading.Event()
        self.stopping = stopping
        self.calls = SparkCalls()
        self.states = TableStates(job.upkeep)
        self.waits_for: Code | None = None
        """Reason why the last round could not look at the zone and the target; None if it could."""

    def run(self, poll_seconds: float) -> None:
        """Look at the zone every `poll_seconds`, and whenever a job ends with files left, until `stopping` is set.

        A zone or target that is unreachable is asked again after a growing pause, and everything known is kept. Raise
        Misconfigured `mirror_running` once another mirror has taken the target.
        """
        pause = _MIN_PAUSE
        try:
            while not self.stopping.is_set():
                self._wake.clear()
                try:
                    self._start_due()
                    self.waits_for = None
                    rest, pause = poll_seconds, _MIN_PAUSE
                except Misconfigured:
                    raise
                except Exception as error:  # noqa: BLE001  # for example, a lost mount: ask again
                    self.waits_for = _log_waiting(error)
                    rest, pause = pause, min(2 * pause, _MAX_PAUSE)
                self._rest(rest)
        finally:
            self._threads.shutdown(wait=True)

    def run_once(self, on_progress: Callable[[], None]) -> None:
        """Apply everything that can be applied now, or until `stopping` is set; call `on_progress` often.

        Tables that failed are not retried. Raise OSError or TemporarilyUnavailable if the zone or target is
        unreachable.
        """
        try:
            while not self.stopping.is_set() and self._start_due(retry=False):
                while not wait(self._jobs, _MAX_SLICE_SECONDS, return_when=FIRST_COMPLETED).done:
                    on_progress()
                on_progress()
        finally:
            self._threads.shutdown(wait=True)

    def _rest(self, seconds: float) -> None:
        """Wait until a job ends with files left, `seconds` are over, or the process stops.

        Waits in slices, because a signal handler must not set an event that the main thread waits for.
        """
        give_up = time.monotonic() + seconds
        _PAUSE.wait(_MIN_ROUND_SECONDS)
        while not self.stopping.is_set() and (left := give_up - time.monotonic()) > 0:
            if self._wake.wait(min(left, _MAX_SLICE_SECONDS)):
                return

    def _start_due(self, *, retry: bool = True) -> bool:
        """Hand the due tables to free worker slots, and return whether any table is due or worked on.

        Raise OSError or TemporarilyUnavailable if the zone or the target is unreachable.
        """
        self._held.check()
        if self._zone.kind("") is PathKind.ABSENT:
            raise TemporarilyUnavailable(
                Code.LANDING_ZONE_AWAY,
                f"the landing zone {self._job.zone.location} is not there",
                remedy="Create or mount it; the mirror then continues without a restart.",
            )
        tables = [table for table in list_tables(self._zone) if not self._only or str(table).casefold() in self._only]
        stamps = self._take_stamps(tables)
        due = self.states.find_due(stamps, retry=retry)
        metrics.LAST_ROUND.set_to_current_time()
        self._jobs = {job for job in self._jobs if not job.done()}
        slots = min(int(self._spark.sparkContext.defaultParallelism), MAX_WORKER_SLOTS) - len(self._jobs)
        for share in (due[number::slots] for number in range(min(slots, len(due)))):
            self._jobs.add(self._threads.submit(self._work_on, share, self.states.start(share, stamps)))
        return bool(self._jobs)

    def _work_on(self, tables: Sequence[PublishedTable], due: Sequence[DueTable]) -> None:
        """Run one job for some tables, and record what it found."""
        outcomes: list[TableOutcome] = []
        try:
            outcomes = self._run_job(due)
        except Exception as error:  # noqa: BLE001  # a thread must not die silently; the tables are retried
            failure = described(error)
            log.warning("mirror_job_failed", tables=len(tables), code=failure.code, detail=failure.detail)
            outcomes = [TableOutcome(table, failure=failure) for table in tables]
        finally:
            for outcome in outcomes:
                _log_outcome(outcome, *self.states.record(outcome))
            self.states.finish(tables)
            if len(outcomes) < len(tables) or any(outcome.is_due_again for outcome in outcomes):
                self._wake.set()

    def _run_job(self, due: Sequence[DueTable]) -> list[TableOutcome]:
        job = self._spark.sparkContext.parallelize([due], 1).mapPartitions(partial(run_task, self._job))
        with self.calls.running(), metrics.JOB_SECONDS.time():
            found: list[TableOutcome] = job.collect()
        return found


def _log_waiting(error: Exception) -> Code:
    failure = described(error)
    metrics.ROUND_FAILURES.labels(failure.code).inc()
    log.warning("mirror_waiting", code=failure.code, detail=failure.detail, remedy=failure.remedy)
    return failure.code


def _log_outcome(outcome: TableOutcome, before: TableReport | None, after: TableReport | None) -> None:
    """Count what a task did, and log commits and every change of the reason why a table cannot advance."""
    metrics.COMMITS.inc(outcome.commits)
    metrics.APPLIED_FILES.inc(outcome.files)
    metrics.APPLIED_ROWS.inc(outcome.rows)
    if after is None:
        return
    facts = {"table": after.table, "version": after.version, "file_number": after.file_number}
    if outcome.commits:
        metrics.LAST_COMMIT.set_to_current_time()
        log.info("table_mirrored", **facts, files=outcome.files, rows=outcome.rows, commits=outcome.commits)
    if outcome.compacted or outcome.vacuumed:
        log.info("table_upkeep", **facts, compacted_files=outcome.compacted, deleted_files=outcome.vacuumed or 0)
    failed = outcome.failure is not None or after.state is MirrorState.STOPPED
    if failed:
        metrics.FAILURES.labels(after.code).inc()
    if after.code is not None and (before is None or (before.code, before.detail) != (after.code, after.detail)):
        event = "mirror_failed" if outcome.failure is not None else f"table_{after.state}"
        log.warning(event, **facts, code=after.code, detail=after.detail, remedy=after.remedy)
    if after.state is MirrorState.DROPPED and not failed:
        log.info("table_dropped", **facts)
