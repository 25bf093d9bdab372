"""The mirror as a process: its options, what it opens and locks, its signals and its exit status.

`run_mirror` needs a landing zone and a target, no Postgres: the zone may be another publisher's. With `--once`,
`progress_shown` shows progress on a terminal, and `tell_result` prints in the end what was applied and which tables
need attention. `reports_stored` stores the mirror's reports in the gateway's database, where the API reads them.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import structlog
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from app.domain.mirror_report import MirrorState, TableReport
from app.domain.publication import described
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.zone import PathKind
from app.landing.zone_owner import unavailable_zone
from app.local.child_process import exit_with_parent, run_process
from app.mirror.table_mirror import MirrorLimits
from app.mirror.target import MirrorTarget
from app.mirror.target_lock import HeldTarget, exclusive_target
from app.observability.mirror_metrics import MIRROR, REPORT_FAILURES, MirrorView, applied_counts, serve_mirror_metrics
from app.observability.periodic_thread import PeriodicThread
from app.observability.process_metrics import MetricsAddress
from app.observability.resource_watch import ResourceWatch, raise_descriptor_limit
from app.observability.telemetry import configure_logging, log_crashes
from app.settings import Settings
from app.staging.connection.database import Engine, disposed, open_engine
from app.staging.mirror import CONFIRM_SECONDS, store_reports
from app.zone_settings import zone_address
from mirrorgate.errors import Code, InvariantBroken, Misconfigured, RejectedInput
from spark_jobs.mirroring.loop import MirrorLoop
from spark_jobs.mirroring.task import MirrorJob
from spark_jobs.spark.health import SparkPing
from spark_jobs.spark.session import is_one_process, running_spark
from spark_jobs.spark.watchdog import SPARK_ENDED, BoundedStop, spark_watched

_FINE = (MirrorState.IN_STEP, MirrorState.DROPPED)


@contextmanager
def progress_shown(console: Console, reports: Callable[[], Sequence[TableReport]]) -> Iterator[Callable[[], None]]:
    """Yield a function that shows how many landing files are applied, if the console is a terminal."""
    columns = (TextColumn("Mirroring files"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("files", total=None)

        def update() -> None:
            found = reports()
            applied = sum(report.file_number for report in found)
            bar.update(task, completed=applied, total=applied + sum(report.pending_files for report in found))

        yield update


def tell_result(console: Console, reports: Sequence[TableReport], seconds: float) -> bool:
    """Print what was applied, and each table that is not in step with its reason and remedy.

    Return whether every table is in step.
    """
    left = [report for report in reports if report.code is not None or report.state not in _FINE]
    files, rows = applied_counts()
    applied = f"applied {files:,} files with {rows:,} rows in {seconds:.1f} s"
    _say(console, f"{len(reports):,} tables, {len(left):,} not in step; {applied}")
    for report in left:
        reason = "not finished" if report.code is None else f"{report.code}: {report.detail}"
        _say(console, f"{report.table}: {report.state}: {reason}")
        if report.remedy:
            _say(console, f"  remedy: {report.remedy}")
    return not left


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


log = structlog.get_logger()

_LOOK_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 2.0


@contextmanager
def reports_stored(
    database_url: str | None, reports: Callable[[], Sequence[TableReport]], *, database_seconds: float
) -> Iterator[None]:
    """Store the reports that have changed, and every few seconds all of them, until the block ends.

    Without a database, do nothing.

    A separate thread stores them. The mirror works without a database, so a failure here is logged and retried, and
    delays no file.
    """
    if database_url is None:
        yield
        return
    engine = open_engine(database_url, pool_size=1, application="mirrorgate mirror", silence_seconds=database_seconds)
    store = _ReportStore(engine, reports).store
    keeper = PeriodicThread(
        "mirror-reports", _LOOK_SECONDS, store, waits_first=True, at_end=store, join_seconds=_JOIN_SECONDS
    )
    with disposed(engine), keeper:
        yield


@dataclass
class _ReportStore:
    engine: Engine
    reports: Callable[[], Sequence[TableReport]]
    _stored: dict[str, TableReport] = field(default_factory=dict)
    _confirmed_at: float = 0.0

    def store(self) -> None:
        """Store what is new, and everything when that was last done some seconds ago."""
        reports = self.reports()
        now = time.monotonic()
        if now - self._confirmed_at >= CONFIRM_SECONDS:
            self._stored, self._confirmed_at = {}, now
        changed = [report for report in reports if self._stored.get(report.table) != report]
        if not changed:
            return
        try:
            store_reports(self.engine, changed)
        except Exception as error:  # noqa: BLE001  # for example, Postgres fails over: the next round stores them
            REPORT_FAILURES.inc()
            log.warning("mirror_reports_not_stored", **asdict(described(error)))
            return
        self._stored |= {report.table: report for report in changed}


_LOCAL_POLL_SECONDS: Final = 0.5
_REMOTE_POLL_SECONDS: Final = 15.0
_WAIT_FOR_PREDECESSOR: Final = 30.0
"""Seconds for which a child of `mirrorgate up` waits for a mirror of a killed `up`, which ends by itself within 20."""
_INTERRUPTED: Final = 130


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """The options of the command line besides the settings."""

    once: bool = False
    tables: frozenset[str] = frozenset()
    """Names of the tables to mirror, folded to lower case; empty: all."""
    replace_old: bool = False
    is_child: bool = False
    ready_file: Path | None = None
    """File to write with this process's pid as soon as tables are mirrored."""


def run_mirror(settings: Settings, options: MirrorOptions) -> int:
    """Run until SIGTERM or SIGINT, or with `once` until every table is in step, waits or is stopped.

    Return the exit status: with `once`, 1 if a table is not in step and 130 after a signal. Raise Misconfigured
    `mirror_running` if another mirror writes to the target, and InvariantBroken `spark_failed` when Spark ended.
    """
    configure_logging(settings)
    raise_descriptor_limit()
    address = zone_address(settings)
    _check_zone(address, once=options.once)
    target = MirrorTarget(settings.require_mirror_target(), settings.mirror_options)
    _check_apart(address, target)
    with BoundedStop() as stop:
        _handle_signals(lambda: sys.exit(_INTERRUPTED))  # nothing is mirrored yet
        patience = _WAIT_FOR_PREDECESSOR if options.is_child else 0.0
        with (
            exclusive_target(target.location, target.storage_options, wait_seconds=patience) as held,
            _resource_watch(settings, address, target),
            running_spark(settings, "mirror") as spark,
        ):
            _handle_signals(stop.ask)  # after Spark, which sets its own handler of SIGINT
            limits = MirrorLimits(
                settings.mirror_files_per_version,
                replace_old=options.replace_old,
                row_group_rows=settings.row_group_rows,
            )
            job = MirrorJob(address, target, limits, settings.mirror_upkeep)
            status = _mirror(settings, options, job, held, stop, spark)
        if stop.failure is not None:
            raise InvariantBroken(Code.SPARK_FAILED, stop.failure, remedy=SPARK_ENDED)
        log.info("mirror_stopped")
        return status


def _handle_signals(react: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: react())


def _mirror(
    settings: Settings, options: MirrorOptions, job: MirrorJob, held: HeldTarget, stop: BoundedStop, spark: SparkSession
) -> int:
    """Mirror with a running Spark, and return the exit status of `once`."""
    loop = MirrorLoop(spark, job, held, stop.stopping, only=options.tables)
    ping = SparkPing(spark, stuck_seconds=settings.spark_stuck_seconds)
    stop.last_acts.append(ping.kill)
    view = MirrorView(
        reports=loop.states.reports,
        is_waiting=lambda: loop.waits_for is not None,
        is_spark_up=lambda: ping.has_ended() is None,
        spark_silent_seconds=lambda: max(loop.calls.silent_seconds(), ping.silent_seconds()),
    )
    port = serve_mirror_metrics(MetricsAddress(settings.metrics_host, settings.mirror_metrics_port), view)
    database = None if settings.database_url is None else settings.database_url.get_secret_value()
    watched = spark_watched(
        ping,
        loop.calls,
        stop,
        stuck_seconds=settings.spark_stuck_seconds,
        newest_statement=lambda: None,  # a task shows no progress: a commit must take less time than this limit
    )
    stored = reports_stored(database, loop.states.reports, database_seconds=settings.database_seconds)
    _warn_of_cluster(spark.sparkContext.master, job)
    with watched, stored:
        log.info("mirror_started", zone=job.zone.location, target=job.target.location, metrics_port=port)
        if options.once:
            return _run_once(options, job, loop)
        if options.ready_file is not None:
            _write_ready_file(options.ready_file, job.target.location, port)
        loop.run(settings.mirror_poll_seconds or (_REMOTE_POLL_SECONDS if job.zone.is_remote else _LOCAL_POLL_SECONDS))
        return 0


def _run_once(options: MirrorOptions, job: MirrorJob, loop: MirrorLoop) -> int:
    console, started = Console(stderr=True), time.monotonic()
    try:
        with progress_shown(console, loop.states.reports) as update:
            loop.run_once(update)
    except OSError as error:
        raise unavailable_zone(error, job.zone.location) from error
    reports = loop.states.reports()
    if loop.stopping.is_set():
        console.print("stopped before every table was in step; the next run continues there")
        return _INTERRUPTED
    missing = options.tables - {report.table.casefold() for report in reports}
    if missing:
        raise RejectedInput(
            Code.UNKNOWN_TABLE,
            f"the landing zone has no table {', '.join(sorted(missing))}",
            remedy="Give `table` for a folder of the zone, `schema.table` for a folder of `schema.schema`.",
        )
    return 0 if tell_result(console, reports, time.monotonic() - started) else 1


def _check_zone(address: ZoneAddress, *, once: bool) -> None:
    """Raise Misconfigured `landing_zone_unusable` for a zone that is not a folder, with `once` also if missing."""
    address.check()
    with suppress(OSError):  # the loop asks again
        kind = open_zone(address).kind("")
        if kind not in (PathKind.FOLDER, PathKind.ABSENT) or (once and kind is PathKind.ABSENT):
            why = "does not exist" if kind is PathKind.ABSENT else "is not a folder"
            raise Misconfigured(
                Code.LANDING_ZONE_UNUSABLE,
                f"the landing zone {address.location} {why}",
                remedy="Give the folder or address below which the tables' folders are.",
            )


def _check_apart(zone: ZoneAddress, target: MirrorTarget) -> None:
    """Raise Misconfigured for a target inside the zone, whose tables would be mirrored again, or around it."""
    paths = [os.path.realpath(place.location) if not place.is_remote else place.location for place in (zone, target)]
    one, other = (f"{path.rstrip('/')}/" for path in paths)
    if one.startswith(other) or other.startswith(one):
        raise Misconfigured(
            Code.BAD_SETTING,
            f"the mirror's target {target.location} and the landing zone {zone.location} lie in each other",
            remedy="Give a target outside the landing zone with --to or MIRRORGATE_MIRROR_TARGET.",
        )


def _resource_watch(settings: Settings, zone: ZoneAddress, target: MirrorTarget) -> ResourceWatch:
    """Watch the space where the mirror writes, as far as it is on this machine."""
    folders = {} if target.is_remote else {"mirror_space": Path(target.location)}
    return ResourceWatch(folders, min_free=settings.min_free_bytes, low=MIRROR.resource_low)


def _warn_of_cluster(master: str | None, job: MirrorJob) -> None:
    """Say that the executors of a cluster need the same folders, which this process cannot check."""
    local = [place.location for place in (job.zone, job.target) if not place.is_remote]
    if local and not is_one_process(master):
        log.warning("folders_of_executors", folders=local, detail="executors on other machines must see these folders")


def _write_ready_file(file: Path, target: str, port: int | None) -> None:
    """Write the file in one step; a process that dies inside leaves the file absent."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(json.dumps({"pid": os.getpid(), "target": target, "metrics_port": port}) + "\n")
    new.replace(file)


def main() -> None:
    """Run the mirror as a process, with its exit status."""
    parser = argparse.ArgumentParser(prog="python -m spark_jobs.mirror", description="Mirror landing files to Delta.")
    parser.add_argument("--once", action="store_true", help="apply what is there now, then exit")
    parser.add_argument("--table", action="append", default=[], help="mirror this table only; may be repeated")
    parser.add_argument("--replace", action="store_true", help="delete the Delta table of an ended generation")
    parser.add_argument("--parent-pid", type=int, help="stop when this process is gone")
    parser.add_argument("--ready-file", type=Path, help="file to write when tables are mirrored")
    arguments = parser.parse_args()
    is_child = arguments.parent_pid is not None
    options = MirrorOptions(
        arguments.once,
        frozenset(name.casefold() for name in arguments.table),
        arguments.replace,
        is_child,
        arguments.ready_file,
    )

    def mirror() -> None:
        if is_child:
            exit_with_parent(arguments.parent_pid)
        log_crashes()
        try:
            status = run_mirror(Settings.from_environment(), options)
        except KeyboardInterrupt:  # of Spark's handler, while Spark starts
            status = _INTERRUPTED
        if status:
            sys.exit(status)

    run_process(mirror, is_child=is_child)
