"""Entry point of the drain: `python -m spark_jobs.drain [--once]`, or `spark-submit … spark_jobs/drain.py`."""

import argparse
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import Final
from uuid import UUID, uuid4

import structlog
from pyspark.sql import SparkSession

from app.checks.preflight import examine, require_safe
from app.domain.publication.drain_plan import FileLimits
from app.domain.publication.failure import described
from app.errors import Code, InvariantBroken, Misconfigured, TemporarilyUnavailable
from app.landing.adls.retries import TransientStorageError
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.parquet_file import FileLayout
from app.landing.publish import announce_partner
from app.landing.zone import PathKind
from app.local.child_process import exit_with_parent, run_process
from app.observability.drain_metrics import LEASE_FAILURES, LEASE_RENEWED, serve_metrics
from app.observability.resource_watch import ResourceWatch, raise_descriptor_limit
from app.observability.telemetry import configure_logging, log_crashes
from app.settings import Settings
from app.staging.connection.database import answer_within, open_engine, pin_marker_position, translated_errors
from app.staging.connection.notifications import NotificationListener
from app.staging.connection.schema_revision import require_migrated
from app.staging.ledger.build_activity import newest_statement_at
from app.staging.ledger.leases import give_up_lease, renew_lease
from app.staging.retention.rounds import RetentionLimits
from app.zone_settings import zone_address
from spark_jobs.build_files import BuildConfig
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.drain_loop import Drain
from spark_jobs.fabric_watch import note_mirror_states, watch_mirror
from spark_jobs.maintenance import maintained, try_maintain
from spark_jobs.spark.bounded_stop import BoundedStop
from spark_jobs.spark.health import SparkPing, SparkWatch
from spark_jobs.spark.session import running_spark

log = structlog.get_logger()

_LONGEST_POLL: Final = 1.0
_SHORTEST_POLL: Final = 0.05
_SPARK_ENDED: Final = (
    "Start the drain again; `mirrorgate up` does. If it happens again and again, look at the machine's memory and at "
    "what Spark logged before, or raise MIRRORGATE_SPARK_STUCK_SECONDS."
)


def open_cycle(settings: Settings, spark: SparkSession, worker_id: UUID) -> DrainCycle:
    """The drain's parts from its settings."""
    layout = FileLayout(settings.marker_first, str(settings.compression))
    application = f"mirrorgate build {worker_id.hex[:12]}"
    place = BuildConfig(settings.require_database_url(), zone_address(settings), layout, application)
    limits = FileLimits(settings.target_file_bytes, settings.target_file_rows, settings.max_delay)
    return DrainCycle(
        worker_id,
        spark,
        place,
        limits,
        spark_job_min_bytes=settings.spark_job_min_bytes,
        drop_wait_seconds=settings.drop_wait_seconds,
        database_seconds=settings.database_seconds,
    )


@contextmanager
def kept_lease(cycle: DrainCycle, seconds: float) -> Iterator[None]:
    """Renew this worker's lease three times per `seconds` while the block runs; give it up at the end.

    A process that dies inside loses its tables when the lease runs out.
    """
    ended = threading.Event()

    def renew() -> None:
        try:
            with translated_errors(), answer_within(seconds / 3), cycle.engine.begin() as connection:
                renew_lease(connection, cycle.worker_id, seconds, clock=time.time(), waits_for=cycle.waits_for)
            LEASE_RENEWED.set_to_current_time()
        except Exception as error:  # noqa: BLE001  # this thread must live: without it the drain loses its tables
            LEASE_FAILURES.inc()
            failure = described(error)
            log.warning("lease_renewal_failed", code=failure.code, detail=failure.detail)

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
        _give_up(cycle)


def _give_up(cycle: DrainCycle) -> None:
    try:
        with translated_errors(), cycle.engine.begin() as connection:
            give_up_lease(connection, cycle.worker_id)
    except Exception as error:  # noqa: BLE001  # the lease runs out by itself
        failure = described(error)
        log.warning("lease_release_failed", code=failure.code, detail=failure.detail)


def run_drain(settings: Settings, *, once: bool) -> None:
    """Run until SIGTERM or SIGINT, or with `once` until nothing is due."""
    _check_start(settings)
    with BoundedStop() as stop, _resources_watched(settings), running_spark(settings) as spark:
        cycle = open_cycle(settings, spark, uuid4())
        drain = Drain(cycle, bins=settings.drain_slots, stopping=stop.stopping)
        announce_partner(cycle.zone, cycle.worker_id, settings.partner_name, settings.source_type)
        ping = SparkPing(spark, stuck_seconds=settings.spark_stuck_seconds)
        stop.last_acts += [ping.kill, partial(_give_up, cycle)]
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.ask())
        with _spark_watched(ping, cycle, stop, settings.spark_stuck_seconds), kept_lease(cycle, settings.lease_seconds):
            limits = RetentionLimits(
                settings.retention_days * 86_400, settings.retention_bytes, audit_seconds=settings.audit_days * 86_400
            )
            log.info(
                "drain_started",
                worker=str(cycle.worker_id),
                landing_zone=cycle.place.landing_zone.location,
                metrics_port=serve_metrics(
                    settings.drain_metrics_port,
                    held=lambda: len(cycle.held),
                    troubled=lambda: len(cycle.troubled),
                ),
            )
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
        if stop.failure is not None:
            raise InvariantBroken(Code.SPARK_FAILED, stop.failure, remedy=_SPARK_ENDED)
        log.info("drain_stopped", worker=str(cycle.worker_id))


def _resources_watched(settings: Settings) -> ResourceWatch:
    """Watch the space where the drain and Spark write, as far as it is on this machine."""
    place = zone_address(settings)
    zone = {} if place.is_remote else {"zone_space": Path(place.location)}
    return ResourceWatch(zone | {"temporary_space": Path(gettempdir())}, least_free=settings.min_free_bytes)


@contextmanager
def _spark_watched(ping: SparkPing, cycle: DrainCycle, stop: BoundedStop, stuck_seconds: float) -> Iterator[None]:
    """End the drain when Spark ends or hangs within the block: what runs it, such as `mirrorgate up`, starts it
    again."""
    over = threading.Event()

    def end(reason: str) -> None:
        if not over.is_set():
            log.error("spark_failed", code=Code.SPARK_FAILED, detail=reason, remedy=_SPARK_ENDED)
            stop.ask(reason)

    watch = SparkWatch(
        cycle.calls,
        stuck_seconds=stuck_seconds,
        has_ended=ping.has_ended,
        newest_statement=lambda: newest_statement_at(cycle.engine, cycle.place.application),
        on_dead=end,
    )
    ping.start(over)
    watch.start(over)
    try:
        yield
    finally:
        over.set()


def _check_start(settings: Settings) -> None:
    """Reject a database of another revision, a landing zone that cannot be one, and what is unsafe, before Spark
    starts."""
    configure_logging(settings)
    raise_descriptor_limit()
    place, database_url = zone_address(settings), settings.require_database_url()
    engine = open_engine(database_url)
    try:
        require_migrated(engine)
        pin_marker_position(engine, marker_first=settings.marker_first)
        _check_landing_zone(place)
    finally:
        engine.dispose()
    require_safe(examine(place, database_url, os.environ), allow_unsafe=settings.allow_unsafe)


def _check_landing_zone(place: ZoneAddress) -> None:
    """Raises Misconfigured `landing_zone_unusable` when it cannot be looked at, or is no folder; TemporarilyUnavailable
    while its service is away, which another start may outlive."""
    try:
        usable = open_zone(place).kind("") in (PathKind.ABSENT, PathKind.FOLDER)
    except TransientStorageError as error:
        raise TemporarilyUnavailable(Code.NOT_READY, f"landing zone {place.location}: {error}") from error
    except OSError as error:
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"landing zone {place.location}: {error}") from error
    if not usable:
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"landing zone {place.location} is not a folder")


def _listen(database_url: str, wake: threading.Event, stopping: threading.Event) -> None:
    def listen() -> None:
        listener = NotificationListener(database_url)
        while not stopping.is_set():
            listener.wait(_LONGEST_POLL)
            wake.set()
        listener.close()

    threading.Thread(target=listen, name="notification-listener", daemon=True).start()


def main() -> None:
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


if __name__ == "__main__":
    main()
