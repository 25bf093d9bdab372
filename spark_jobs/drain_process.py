"""The process of the drain: checks, threads, signals and exit status.

It checks what must be right before Spark starts (the database's revision, the landing zone, and their safety), then
runs the loop beside two threads: one renews the drain's lease, one wakes the loop when an API process has staged
changes. A drain that stops renewing loses its tables when the lease expires; W2 of their next owner makes that safe.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Final
from uuid import UUID, uuid4

import structlog
from pyspark.sql import SparkSession

from app.checks.preflight import examine, require_safe
from app.domain.publication import FileLimits, described
from app.landing.adls.retries import TransientStorageError
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.parquet_file import FileLayout
from app.landing.publish import announce_partner
from app.landing.zone import PathKind
from app.local.child_process import exit_with_parent, run_process
from app.observability.drain_metrics import DRAIN, LEASE_FAILURES, LEASE_RENEWED, DrainView, serve_metrics
from app.observability.periodic_thread import PeriodicThread
from app.observability.process_metrics import MetricsAddress
from app.observability.resource_watch import ResourceWatch, raise_descriptor_limit
from app.observability.telemetry import configure_logging, log_crashes
from app.observability.tracing import traced
from app.settings import Settings
from app.staging.connection.database import (
    answer_within,
    disposed,
    driver_url,
    open_engine,
    pin_marker_position,
    translated_errors,
    watched_pool,
)
from app.staging.connection.notifications import NotificationListener
from app.staging.connection.schema_revision import program_revision, require_migrated
from app.staging.ledger.leases import give_up_lease, newest_statement_at
from app.staging.retention.rounds import RetentionLimits
from app.zone_settings import zone_address
from mirrorgate.errors import Code, InvariantBroken, Misconfigured, TemporarilyUnavailable
from spark_jobs.build_files import MIN_CLUSTER_JOB_BYTES, MIN_LOCAL_JOB_BYTES, BuildConfig
from spark_jobs.drain_cycle import DrainCycle, open_cycle
from spark_jobs.drain_loop import DrainLoop, maintenance_running, try_maintenance
from spark_jobs.fabric_status import FabricStatusReader
from spark_jobs.spark.health import SparkPing
from spark_jobs.spark.session import ExecutorWatch, is_one_process, running_spark
from spark_jobs.spark.watchdog import SPARK_ENDED, BoundedStop, spark_watched

log = structlog.get_logger()


@contextmanager
def keep_lease(cycle: DrainCycle, seconds: float) -> Iterator[None]:
    """Renew the drain's lease three times per `seconds` while the block runs, and release it at the end.

    If the process dies inside, its tables are free when the lease expires.
    """
    renew(cycle, seconds)
    try:
        with PeriodicThread("lease", seconds / 3, lambda: renew(cycle, seconds), waits_first=True):
            yield
    finally:
        release_lease(cycle)


def renew(cycle: DrainCycle, seconds: float) -> None:
    """Renew the lease; log and count a failure."""
    try:
        with translated_errors(), answer_within(seconds / 3):
            cycle.renew_lease(seconds)
        LEASE_RENEWED.set_to_current_time()
    except Exception as error:  # noqa: BLE001  # this thread must live: without it the drain loses its tables
        LEASE_FAILURES.inc()
        log.warning("lease_renewal_failed", **asdict(described(error)))


def release_lease(cycle: DrainCycle) -> None:
    """Release the lease at once; if that fails, it expires by itself."""
    try:
        with translated_errors(), cycle.context.engine.begin() as connection:
            give_up_lease(connection, cycle.context.worker_id)
    except Exception as error:  # noqa: BLE001  # the lease expires by itself
        log.warning("lease_release_failed", **asdict(described(error)))


_WAIT_SECONDS: Final = 1.0


def start_notification_listener(database_url: str, wake: threading.Event, stopping: threading.Event) -> None:
    """Set `wake` at each notification, and at least once a second, until `stopping` is set."""
    listener = NotificationListener(database_url)

    def listen() -> None:
        listener.wait(_WAIT_SECONDS)
        wake.set()

    PeriodicThread("notification-listener", 0.0, listen, at_end=listener.close, ended=stopping).start()


def check_start(settings: Settings) -> None:
    """Check everything that would make publication unsafe or impossible.

    Raise Misconfigured for a database of another revision, a landing zone that cannot be one, and an unsafe setup;
    TemporarilyUnavailable while Postgres or the zone's service is unreachable, which another start may outlive.
    """
    address, database_url = zone_address(settings), settings.require_database_url()
    with disposed(open_engine(database_url)) as engine:
        require_migrated(engine)
        pin_marker_position(engine, marker_first=settings.marker_first)
        _check_landing_zone(address)
    require_safe(examine(address, database_url, os.environ), allow_unsafe=settings.allow_unsafe)


def _check_landing_zone(address: ZoneAddress) -> None:
    """Raise Misconfigured `landing_zone_unusable` for a zone that cannot be read or is not a folder."""
    try:
        usable = open_zone(address).kind("") in (PathKind.ABSENT, PathKind.FOLDER)
    except TransientStorageError as error:
        raise TemporarilyUnavailable(Code.NOT_READY, f"landing zone {address.location}: {error}") from error
    except OSError as error:
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"landing zone {address.location}: {error}") from error
    if not usable:
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"landing zone {address.location} is not a folder")


_MAX_POLL_SECONDS: Final = 1.0
_MIN_POLL_SECONDS: Final = 0.05


def run_drain(settings: Settings, *, once: bool) -> None:
    """Run until SIGTERM or SIGINT, or with `once` until nothing is due; exit with 130 if a signal came first.

    Raise InvariantBroken `spark_failed` when Spark ended the drain, and with `once` `build_failed` when tables could
    not be published.
    """
    configure_logging(settings)
    raise_descriptor_limit()
    check_start(settings)
    executors = ExecutorWatch()
    with (
        traced(settings, "drain"),
        BoundedStop() as stop,
        _resource_watch(settings),
        running_spark(settings, executors=executors) as spark,
    ):
        cycle = configured_cycle(settings, spark, uuid4())
        cycle.executors = executors
        context = cycle.context
        announce_partner(context.zone, context.worker_id, settings.partner_events)
        ping = SparkPing(spark, stuck_seconds=settings.spark_stuck_seconds)
        stop.last_acts += [ping.kill, partial(release_lease, cycle)]
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.ask())
        watched = spark_watched(
            ping,
            cycle.builder.calls,
            stop,
            stuck_seconds=settings.spark_stuck_seconds,
            newest_statement=lambda: newest_statement_at(context.engine, context.config.application),
        )
        with watched, keep_lease(cycle, settings.lease_seconds):
            address = MetricsAddress(settings.metrics_host, settings.drain_metrics_port)
            metrics_port = serve_metrics(address, view_of(cycle, ping))
            log.info(
                "drain_started",
                worker=str(context.worker_id),
                landing_zone=context.config.landing_zone.location,
                metrics_port=metrics_port,
            )
            loop = DrainLoop(cycle, worker_slots=settings.drain_slots, stopping=stop.stopping)
            (_run_once if once else _run_until_stopped)(settings, cycle, loop)
        if stop.failure is not None:
            raise InvariantBroken(Code.SPARK_FAILED, stop.failure, remedy=SPARK_ENDED)
        log.info("drain_stopped", worker=str(context.worker_id))
        if once and stop.stopping.is_set():
            sys.exit(130)


def configured_cycle(settings: Settings, spark: SparkSession, worker_id: UUID) -> DrainCycle:
    """Open the drain's database and landing zone as the settings say."""
    layout = FileLayout(settings.marker_first, str(settings.compression), settings.row_group_rows)
    application = f"mirrorgate build {worker_id.hex[:12]}"
    config = BuildConfig(settings.require_database_url(), zone_address(settings), layout, application)
    limits = FileLimits(settings.target_file_bytes, settings.target_file_rows, settings.max_delay)
    min_bytes = settings.spark_job_min_bytes
    if min_bytes is None:
        min_bytes = MIN_LOCAL_JOB_BYTES if is_one_process(spark.sparkContext.master) else MIN_CLUSTER_JOB_BYTES
    return open_cycle(
        worker_id,
        spark,
        config,
        limits,
        spark_job_min_bytes=min_bytes,
        drop_wait_seconds=settings.drop_wait_seconds,
        database_seconds=settings.database_seconds,
    )


def _run_once(settings: Settings, cycle: DrainCycle, loop: DrainLoop) -> None:
    """Publish and maintain once. Raise InvariantBroken `build_failed` when tables could not be published."""
    failed = loop.drain_pending()
    if loop.stopping.is_set():
        return
    try_maintenance(cycle, _retention_limits(settings))
    with closing(FabricStatusReader(cycle.context.engine, settings, cycle.context.config.landing_zone)) as fabric:
        fabric.store()
    if failed:
        raise InvariantBroken(Code.BUILD_FAILED, f"{len(failed)} tables could not be published")


def _run_until_stopped(settings: Settings, cycle: DrainCycle, loop: DrainLoop) -> None:
    """Publish until the loop is asked to stop, with maintenance and Fabric's status in separate threads."""
    context = cycle.context
    FabricStatusReader(context.engine, settings, context.config.landing_zone).watch(loop.stopping)
    wake = threading.Event()
    start_notification_listener(driver_url(context.engine), wake, loop.stopping)
    poll_seconds, rest_seconds = pace_of(settings.max_delay)
    with maintenance_running(cycle, _retention_limits(settings)):
        loop.run(wake, poll_seconds, rest_seconds=rest_seconds)


def pace_of(max_delay: float) -> tuple[float, float]:
    """Return the longest and the shortest time between two queries for due tables, in seconds.

    Each API process notifies up to 20 times a second, and a query costs 2 ms of processor time. A batch may wait
    `max_delay` for its file, so a query per notification publishes nothing earlier. With a delay of
    0, a notification makes its batch due.
    """
    poll = min(_MAX_POLL_SECONDS, max(_MIN_POLL_SECONDS, max_delay / 4))
    return poll, min(poll / 2, max_delay / 8)


def _retention_limits(settings: Settings) -> RetentionLimits:
    return RetentionLimits(
        settings.retention_days * 86_400,
        settings.retention_bytes,
        audit_seconds=settings.audit_days * 86_400,
        history_seconds=settings.history_days * 86_400,
    )


def view_of(cycle: DrainCycle, ping: SparkPing) -> DrainView:
    """Return what the metrics show of this drain."""
    pool = watched_pool(cycle.context.engine)
    return DrainView(
        worker=str(cycle.context.worker_id),
        revision=program_revision(),
        leased=lambda: len(cycle.leased),
        failing=lambda: len(cycle.failures),
        is_waiting=lambda: cycle.waits_for is not None,
        is_spark_up=lambda: ping.has_ended() is None,
        spark_silent_seconds=lambda: max(cycle.builder.calls.silent_seconds(), ping.silent_seconds()),
        connections_in_use=pool.checkedout,
        connections_idle=pool.checkedin,
        connections_waiting=lambda: pool.waiting,
    )


def _resource_watch(settings: Settings) -> ResourceWatch:
    """Watch the space where the drain and Spark write, as far as it is on this machine."""
    address = zone_address(settings)
    zone = {} if address.is_remote else {"zone_space": Path(address.location)}
    folders = zone | {"temporary_space": Path(gettempdir())}
    return ResourceWatch(folders, min_free=settings.min_free_bytes, low=DRAIN.resource_low)


def main() -> None:
    """Run the drain as a process, with its exit status."""
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.drain", description="Publish staged batches.")
    parser.add_argument("--once", action="store_true", help="publish what is due now, then exit")
    parser.add_argument("--parent-pid", type=int, help="stop when this process is gone")
    arguments = parser.parse_args()

    def drain() -> None:
        if arguments.parent_pid is not None:
            exit_with_parent(arguments.parent_pid)
        log_crashes()
        run_drain(Settings.from_environment(max_delay_seconds=0.0 if arguments.once else None), once=arguments.once)

    run_process(drain, is_child=arguments.parent_pid is not None)
