"""The mirror's loop: find tables with changes, and hand them to worker slots, each of which runs one Spark job.

Invariant: a table is in at most one job at a time, so one task owns its Delta log while it commits.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Final

import structlog
from pyspark.sql import SparkSession

from app.domain.mirror.table_report import MirrorState, TableReport
from app.domain.publication.failure import described
from app.errors import Code, Misconfigured, TemporarilyUnavailable
from app.landing.open_zone import open_zone
from app.landing.zone import LandingZone, PathKind
from app.mirror.target_lock import HeldTarget
from app.observability import mirror_metrics as metrics
from app.published.table_folders import PublishedTable, list_tables
from spark_jobs.mirroring.folder_changes import stamps_of
from spark_jobs.mirroring.table_states import TableStates
from spark_jobs.mirroring.task import DueTable, MirrorJob, TableOutcome, run_task
from spark_jobs.spark.health import SparkCalls
from spark_jobs.worker_slots import MAX_WORKER_SLOTS

log = structlog.get_logger()

_MIN_PAUSE: Final = 0.5
_MAX_PAUSE: Final = 5.0
"""Pauses between two looks at a landing zone or a target that is away."""
_MIN_ROUND_SECONDS: Final = 0.05
"""Between two rounds, so that tables that are behind do not cause a look at the zone for each finished job."""
_MAX_SLICE_SECONDS: Final = 0.2
_PAUSE: Final = threading.Event()
"""Never set."""


class MirrorLoop:
    """Keeps Delta tables in step with a landing zone."""

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
        self.states = TableStates()
        self.waits_for: Code | None = None
        """Why the last round could not look at the zone and the target; None if it could."""

    def run(self, poll_seconds: float) -> None:
        """Look at the zone every `poll_seconds`, and whenever a job ends with files left, until `stopping` is set.

        A zone or target that is away is asked again after a growing pause, and everything known is kept. Raise
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

        Tables that failed are not tried again. Raise OSError or TemporarilyUnavailable if the zone or target is away.
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

        Raise OSError or TemporarilyUnavailable if the zone or the target is away.
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
        except Exception as error:  # noqa: BLE001  # a thread must not die silently; the tables are tried again
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
    failed = outcome.failure is not None or after.state is MirrorState.STOPPED
    if failed:
        metrics.FAILURES.labels(after.code).inc()
    if after.code is not None and (before is None or (before.code, before.detail) != (after.code, after.detail)):
        event = "mirror_failed" if outcome.failure is not None else f"table_{after.state}"
        log.warning(event, **facts, code=after.code, detail=after.detail, remedy=after.remedy)
    if after.state is MirrorState.DROPPED and not failed:
        log.info("table_dropped", **facts)
