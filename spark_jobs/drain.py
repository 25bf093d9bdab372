"""Entry point of the drain: `python -m spark_jobs.drain [--once]`, or `spark-submit … spark_jobs/drain.py`."""

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Final
from uuid import UUID, uuid4

import structlog
from pyspark.sql import SparkSession

from app.doctor import examine, landing_place, require_safe
from app.domain.drain_plan import FileLimits
from app.domain.table import TableId
from app.errors import Code, InvariantBroken, MirrorgateError, Misconfigured
from app.landing.open_zone import ZonePlace, open_zone
from app.landing.parquet_file import FileLayout
from app.landing.publish import announce_partner
from app.landing.zone import PathKind
from app.settings import Settings
from app.staging.database import open_engine, pin_marker_position, translated_errors
from app.staging.leases import give_up_lease, renew_lease
from app.staging.retention import RetentionLimits
from app.staging.schema_revision import require_migrated
from app.staging.wake import WakeListener
from app.supervisor import exit_with_parent
from app.telemetry import configure_logging
from spark_jobs.bins import balance
from spark_jobs.build_files import BuildPlace
from spark_jobs.drain_cycle import ClaimedTable, DrainCycle
from spark_jobs.maintenance import maintained, try_maintain
from spark_jobs.mirror_watch import note_mirror_states, watch_mirror

log = structlog.get_logger()

_LONGEST_POLL: Final = 1.0
_SHORTEST_POLL: Final = 0.05
_FIRST_BACKOFF: Final = 0.5
_LONGEST_BACKOFF: Final = 30.0
_CLAIMS: Final = 4
"""Tables that are claimed and planned at the same time: nearly all of that is waiting for Postgres."""
_CLAIMED_AT_ONCE: Final = 256
"""Of many due tables, so many are being built while the next are claimed."""

_MOST_BINS: Final = 32

_DEFAULTS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The JVM only schedules: a fast start matters more here than peak speed of compiled code.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # Over TCP each job waits 40 ms for a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
}
_ON_THIS_MACHINE: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


class Drain:
    """Finds due tables and hands them, in balanced bins, to threads that each run Spark jobs."""

    def __init__(self, cycle: DrainCycle, *, bins: int | None) -> None:
        """`bins` None: as many as Spark runs tasks at a time, which changes with a cluster's executors."""
        self._cycle = cycle
        self._bins = bins
        self._threads = ThreadPoolExecutor(bins or _MOST_BINS, thread_name_prefix="bin")
        self._claims = ThreadPoolExecutor(_CLAIMS, thread_name_prefix="claim")
        self._lock = threading.Lock()
        self._busy: set[TableId] = set()
        self._shares: set[Future[None]] = set()
        self._not_before: dict[TableId, tuple[float, float]] = {}
        """Per table that failed: when to try again, and how long to wait the time after."""
        self.stopping = threading.Event()

    def drain_pending(self) -> set[TableId]:
        """Publish until nothing is due, for `--once`; the tables that could not be published now."""
        while not self.stopping.is_set() and self._start_due():
            wait(self._shares)
        return set(self._not_before)

    def run(self, wake: threading.Event, poll_seconds: float) -> None:
        """Publish what is due at each wake and at least every `poll_seconds`, until `stopping` is set."""
        while not self.stopping.is_set():
            wake.wait(poll_seconds)
            wake.clear()
            try:
                self._start_due()
            except MirrorgateError as error:
                log.warning("drain_waits", code=error.code, detail=error.detail)
                self.stopping.wait(_FIRST_BACKOFF)
        self._claims.shutdown(wait=True)
        self._threads.shutdown(wait=True)

    def _start_due(self) -> bool:
        now = time.monotonic()
        due = self._cycle.due()
        with self._lock:
            waiting = {table_id for table_id, (moment, _) in self._not_before.items() if moment > now}
            ready = [table_id for table_id in due if table_id not in self._busy | waiting]
            slots = self._slots(len(ready) + len(self._busy))
        bins = self._bins or min(self._cycle.slots, _MOST_BINS)
        any_claimed = False
        for part in (ready[start : start + _CLAIMED_AT_ONCE] for start in range(0, len(ready), _CLAIMED_AT_ONCE)):
            claimed = [entry for entry in self._claims.map(lambda each: self._prepare(each, slots), part) if entry]
            any_claimed = any_claimed or bool(claimed)
            for share in balance(claimed, lambda entry: entry.rows, bins):
                with self._lock:
                    self._busy |= {entry.table.table_id for entry in share}
                self._shares.add(self._threads.submit(self._drain_share, share))
        self._shares -= {share for share in self._shares if share.done()}
        return any_claimed

    def _slots(self, tables: int) -> int:
        """How many tasks each of so many tables may take."""
        return max(1, self._cycle.slots // max(1, tables))

    def _prepare(self, table_id: TableId, slots: int) -> ClaimedTable | None:
        entry = self._cycle.prepare(table_id, slots=slots)
        if entry is None and (table_id not in self._cycle.held or table_id in self._cycle.waiting):
            self._back_off(table_id)
        return entry

    def _drain_share(self, share: list[ClaimedTable]) -> None:
        """Publish a share of tables, and what has become due for them meanwhile, until they are done."""
        tables = {entry.table.table_id for entry in share}
        try:
            while share and not self.stopping.is_set():
                published = self._cycle.build_and_publish(share)
                with self._lock:
                    for table_id in published:
                        self._not_before.pop(table_id, None)
                    slots = self._slots(len(self._busy))
                for entry in share:
                    if entry.table.table_id not in published:
                        self._back_off(entry.table.table_id)
                share = self._prepare_again(published, slots)
        except Exception as error:  # a thread must not die silently; the tables are tried again
            log.exception("share_failed", error=type(error).__name__)
            for table_id in tables:
                self._cycle.held.pop(table_id, None)
                self._back_off(table_id)
        finally:
            with self._lock:
                self._busy -= tables

    def _prepare_again(self, published: set[TableId], slots: int) -> list[ClaimedTable]:
        """Those of the tables that are due again; what cannot be known now is left to the next look."""
        try:
            due = self._cycle.due()
        except MirrorgateError as error:
            log.warning("drain_waits", code=error.code, detail=error.detail)
            return []
        again = (self._cycle.prepare(table_id, slots=slots) for table_id in due if table_id in published)
        return [entry for entry in again if entry is not None]

    def _back_off(self, table_id: TableId) -> None:
        with self._lock:
            _, pause = self._not_before.get(table_id, (0.0, _FIRST_BACKOFF))
            self._not_before[table_id] = (time.monotonic() + pause, min(2 * pause, _LONGEST_BACKOFF))


def start_spark(settings: Settings) -> SparkSession:
    """The Spark session with its Python workers warm. Under spark-submit, its options alone decide."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("mirrorgate drain")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has started the JVM already where it is set
        for name, value in spark_options(settings.spark_master).items():
            builder = builder.config(name, value)
    if settings.spark_master:
        builder = builder.master(settings.spark_master)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    parallelism = spark.sparkContext.defaultParallelism
    spark.sparkContext.parallelize(range(parallelism), parallelism).mapPartitions(iter).collect()
    return spark


def spark_options(master: str | None) -> dict[str, str]:
    """What the drain asks of Spark without spark-submit: executors on other machines must reach the driver."""
    return _DEFAULTS | (_ON_THIS_MACHINE if master is None or master.startswith("local") else {})


def open_cycle(settings: Settings, spark: SparkSession, worker_id: UUID) -> DrainCycle:
    """The drain's parts from its settings."""
    layout = FileLayout(settings.marker_first, str(settings.compression))
    place = BuildPlace(settings.require_database_url(), landing_place(settings), layout)
    limits = FileLimits(settings.target_file_bytes, settings.target_file_rows, settings.max_delay)
    return DrainCycle(
        worker_id,
        spark,
        place,
        limits,
        spark_job_min_bytes=settings.spark_job_min_bytes,
        drop_wait_seconds=settings.drop_wait_seconds,
    )


@contextmanager
def kept_lease(cycle: DrainCycle, seconds: float) -> Iterator[None]:
    """Renew this worker's lease three times per `seconds` while the block runs; give it up at the end.

    A process that dies inside loses its tables when the lease runs out.
    """
    ended = threading.Event()

    def renew() -> None:
        try:
            with translated_errors(), cycle.engine.begin() as connection:
                renew_lease(connection, cycle.worker_id, seconds)
        except MirrorgateError as error:
            log.warning("lease_not_renewed", code=error.code, detail=error.detail)

    def keep() -> None:
        while not ended.wait(seconds / 3):
            renew()

    renew()
    keeper = threading.Thread(target=keep, name="lease", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join()
        try:
            with translated_errors(), cycle.engine.begin() as connection:
                give_up_lease(connection, cycle.worker_id)
        except MirrorgateError as error:
            log.warning("lease_not_given_up", code=error.code, detail=error.detail)


def run_drain(settings: Settings, *, once: bool) -> None:
    """Run until SIGTERM or SIGINT, or with `once` until nothing is due."""
    _check_start(settings)
    spark = start_spark(settings)
    try:
        cycle = open_cycle(settings, spark, uuid4())
        drain = Drain(cycle, bins=settings.drain_bins)
        announce_partner(cycle.zone, cycle.worker_id, settings.partner_name, settings.source_type)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: drain.stopping.set())
        with kept_lease(cycle, settings.lease_seconds):
            limits = RetentionLimits(
                settings.retention_days * 86_400, settings.retention_bytes, audit_seconds=settings.audit_days * 86_400
            )
            log.info("drain_started", worker=str(cycle.worker_id), landing_zone=cycle.place.landing_zone.location)
            if once:
                failed = drain.drain_pending()
                try_maintain(cycle, limits)
                if settings.monitoring_seconds:
                    note_mirror_states(cycle.engine, cycle.place.landing_zone, settings.monitoring_seconds)
                if failed:
                    raise InvariantBroken(Code.BUILD_FAILED, f"{len(failed)} tables could not be published")
            else:
                if settings.monitoring_seconds:
                    watch_mirror(cycle.engine, cycle.place.landing_zone, settings.monitoring_seconds, drain.stopping)
                wake = threading.Event()
                _listen(cycle.place.database_url, wake, drain.stopping)
                with maintained(cycle, limits):
                    drain.run(wake, min(_LONGEST_POLL, max(_SHORTEST_POLL, settings.max_delay / 4)))
        log.info("drain_stopped", worker=str(cycle.worker_id))
    finally:
        spark.stop()


def _check_start(settings: Settings) -> None:
    """Refuse a database of another revision, a landing zone that cannot be one, and what is unsafe, before Spark
    starts."""
    configure_logging(settings)
    place, database_url = landing_place(settings), settings.require_database_url()
    engine = open_engine(database_url)
    try:
        require_migrated(engine)
        pin_marker_position(engine, marker_first=settings.marker_first)
        _check_landing_zone(place)
    finally:
        engine.dispose()
    require_safe(examine(place, database_url, os.environ), allow_unsafe=settings.allow_unsafe)


def _check_landing_zone(place: ZonePlace) -> None:
    """Raises Misconfigured `landing_zone_unusable` when it cannot be looked at, or is a file."""
    try:
        usable = open_zone(place).kind("") is not PathKind.FILE
    except OSError as error:
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"landing zone {place.location}: {error}") from error
    if not usable:
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"landing zone {place.location} is a file")


def _listen(database_url: str, wake: threading.Event, stopping: threading.Event) -> None:
    def listen() -> None:
        listener = WakeListener(database_url)
        while not stopping.is_set():
            listener.wait(_LONGEST_POLL)
            wake.set()
        listener.close()

    threading.Thread(target=listen, name="wake-listener", daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.drain", description="Publish staged batches.")
    parser.add_argument("--once", action="store_true", help="publish what is due now, then exit")
    parser.add_argument("--parent-pid", type=int, help="stop when this process is gone")
    arguments = parser.parse_args()
    if arguments.parent_pid is not None:
        exit_with_parent(arguments.parent_pid)
    settings = Settings.from_environment(max_delay_seconds=0.0 if arguments.once else None)
    run_drain(settings, once=arguments.once)


if __name__ == "__main__":
    try:
        main()
    except MirrorgateError as error:
        sys.exit(f"{error.detail}\nCode: {error.code}\nRemedy: {error.remedy}")
