"""One cycle of the drain for a set of tables: claim, take over, plan, build, publish, record (W1 to W9).

Postgres has every decision, under the epoch of the claim, before the drain acts on it. So a process may die between
any two lines: the next owner claims a new epoch, revokes the old one's scratch and continues.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Final
from uuid import UUID

import structlog
from pyspark.sql import SparkSession

from app.domain.model.landing_file import PlannedFile
from app.domain.model.table import Epoch, Table, TableId
from app.domain.publication import FileLimits, described
from app.landing.landed_state import require_last_files
from app.landing.publish import repair_file
from app.observability.drain_metrics import PUBLISH_SECONDS
from app.staging.connection.database import translated_errors
from app.staging.ledger.files import files_to_repair, record_repaired, tables_to_repair
from app.staging.ledger.leases import Claim, database_run, due_tables, renew_lease
from app.staging.ledger.planning import plan_next_files
from app.staging.tables.registry import find_tables_by_id
from mirrorgate.errors import Code, InvariantBroken
from spark_jobs.background import Backfills, stop_all
from spark_jobs.build_files import BuildConfig, BuildFailure, BuildOrder, BuildResult, FileBuilder
from spark_jobs.rebuilding import Rebuilds
from spark_jobs.spark.session import ExecutorWatch
from spark_jobs.steps.context import DrainContext, log_fields, open_context
from spark_jobs.steps.dropping import Dropping
from spark_jobs.steps.failures import LeasedTables, TableFailures
from spark_jobs.steps.publishing import MAX_TABLES_PER_TRANSACTION, ClaimedTable, Failures, PublicationTrace, Publishing
from spark_jobs.steps.take_over import Claiming, TakeOver

log = structlog.get_logger()

MAX_FILES_AHEAD: Final = 8
"""Files of one table that one Spark job builds ahead; they are still published one by one, in order."""

REMOTE_PRESENCE_SECONDS: Final = 10.0
"""Seconds for which a remote zone counts as present before tables are claimed. A check costs a request, and each
take-over and each rename checks anyway."""


class DrainCycle:
    """One drain's work on its tables. Threads call the methods for different tables at the same time."""

    def __init__(
        self,
        context: DrainContext,
        builder: FileBuilder,
        limits: FileLimits,
        *,
        drop_wait_seconds: float,
    ) -> None:
        """Compose the steps over open resources; `open_cycle` opens them."""
        self.context = context
        self.builder = builder
        self.leased = LeasedTables()
        self.failures = TableFailures(context, self.leased)
        self.waits_for: Code | None = None
        """Reason why this drain publishes nothing; the lease keeper reports it."""
        self.executors = ExecutorWatch()
        """Knows whether the cluster gives this drain no executor, which the lease keeper reports, too."""
        self._database_run: str | None = None
        self._limits = limits
        # One slow remote rename must not keep the other tables of its transaction waiting.
        is_remote = context.config.landing_zone.is_remote
        self.publishing = Publishing(context, 1 if is_remote else MAX_TABLES_PER_TRANSACTION)
        self._claiming = Claiming(context)
        self._take_over = TakeOver(context, self.failures, self.publishing)
        self.rebuilds = Rebuilds(context, builder)
        self.backfills = Backfills(context.engine, context.worker_id)
        self._dropping = Dropping(context, self.leased, self.failures, drop_wait_seconds)

    def renew_lease(self, seconds: float) -> None:
        """Extend this drain's lease to `seconds` from now.

        Another run of the database than at the last renewal ends all claims: a standby that was promoted or a restored
        database may not know the last files. Each table is then claimed again, and compared with the landing zone.
        """
        waits_for = self.waits_for or (Code.SPARK_WITHOUT_EXECUTORS if self.executors.are_missing else None)
        with self.context.engine.begin() as connection:
            renew_lease(connection, self.context.worker_id, seconds, clock=time.time(), waits_for=waits_for)
            run = database_run(connection)
        if self._database_run not in (None, run):
            log.warning("database_run_changed", tables=len(self.leased), before=self._database_run, now=run)
            self.leased.forget_all()
        self._database_run = run

    def due(self) -> list[TableId]:
        """Return the tables with something to publish now that no other live drain owns.

        Raise TemporarilyUnavailable `landing_zone_away` while there are such tables and the zone is unreachable, and as
        `Claiming.require_known_zone`.
        """
        with translated_errors(), self.context.engine.begin() as connection:
            due = due_tables(connection, self.context.worker_id, self._limits)
            if due:
                self._claiming.require_known_zone(connection)
        if due:
            is_remote = self.context.config.landing_zone.is_remote
            self.context.claimed_zone.require(within=REMOTE_PRESENCE_SECONDS if is_remote else 0.0)
        return due

    def wait(self) -> bool:
        """Wait for the running attempts in the background; return whether one of them has ended its work."""
        return self.rebuilds.wait() or self.backfills.wait()

    def stop(self) -> None:
        """End the work in the background, which remains due."""
        stop_all((self.rebuilds, self.backfills))

    def prepare(self, table_id: TableId, *, tasks: int = 1) -> ClaimedTable | None:
        """Run W1 to W4 for one table whose files at most `tasks` tasks build at once.

        Return None if there is nothing to build, or if the table failed. A failure is logged and recorded, and stops no
        other table.
        """
        table: Table | None = None
        epoch: Epoch | None = None
        held = self.leased.resume(table_id)
        try:
            with translated_errors():
                table, epoch = self._claiming.run(table_id, held=held)
                if table is None or epoch is None:
                    return None
                if table.rebuild_due:
                    self.rebuilds.start(table_id)
                if table.backfill_due:
                    self.backfills.start(table_id)
                if not (table.state.publishes or table.state.deletes_folder):
                    if table.rebuild_due or table.backfill_due:
                        self.leased.await_background(table_id, epoch)
                    return None
                return self._prepare(table, epoch, tasks)
        except Exception as error:  # noqa: BLE001  # whatever fails for one table stops no other
            self.failures.add(table_id, table, epoch, error)
            return None

    def prepare_leased(
        self, table_ids: Sequence[TableId], *, tasks: int = 1
    ) -> tuple[list[ClaimedTable], list[TableId]]:
        """Run W4 in one transaction for the tables that this process has taken over.

        Return what to build, and the tables that need `prepare` because there is more to do or something failed.
        """
        epochs = self.leased.epochs(table_ids)
        if not epochs:
            return [], list(table_ids)
        try:
            with translated_errors(), self.context.engine.begin() as connection:
                tables = {table.table_id: table for table in find_tables_by_id(connection, epochs)}
                broken = tables_to_repair(connection, epochs)
                claims = [
                    Claim(table, epochs[table_id])
                    for table_id, table in tables.items()
                    if table.state.publishes
                    and not (table.rebuild_due or table.backfill_due)
                    and table_id not in broken
                ]
                plans = (
                    plan_next_files(connection, claims, self._limits, max_files=MAX_FILES_AHEAD, slots=tasks)
                    if claims
                    else {}
                )
                self._require_new(plans)
        except Exception as error:  # noqa: BLE001  # each table is prepared alone, where it can only fail itself
            log.info("joint_planning_failed", tables=len(epochs), **asdict(described(error)))
            return [], list(table_ids)
        claimed = [
            ClaimedTable(tables[table_id], epochs[table_id], files) for table_id, files in plans.items() if files
        ]
        return claimed, [table_id for table_id in table_ids if table_id not in plans]

    def build_and_publish(self, claimed: Iterable[ClaimedTable]) -> set[TableId]:
        """Run W5 to W9 for several tables at once; return the tables whose files were all published."""
        tables = {entry.table_id: entry for entry in claimed}
        failures: dict[TableId, Exception] = {}
        trace = PublicationTrace(self.context.engine)
        with PUBLISH_SECONDS.time():
            by_table = self._build_all(list(tables.values()), failures)
            trace.built()
            built = [tables[table_id] for table_id in by_table]
            failures |= self.publishing.publish(built, by_table)
        trace.published()
        for table_id, error in failures.items():
            self.failures.add(table_id, tables[table_id].table, tables[table_id].epoch, error)
        published = tables.keys() - failures.keys()
        for table_id in published:
            self.leased.note_published(table_id, tables[table_id].files[-1].identity)
        self.failures.clear(published)
        trace.send(list(tables.values()), failures)
        return published

    def _build_all(self, entries: Sequence[ClaimedTable], failures: Failures) -> dict[TableId, list[BuildResult]]:
        """W5 in one Spark job; if the job itself fails, in one job per table, so that only the culprit fails.

        A job fails as a whole when, for example, a worker runs out of memory.
        """
        orders = [BuildOrder(file, entry.epoch) for entry in entries for file in entry.files]
        by_table: dict[TableId, list[BuildResult]] = {entry.table_id: [] for entry in entries}
        try:
            for order, result in zip(orders, self.builder.build(orders), strict=True):
                by_table[order.planned.table_id].append(result)
        except Exception as error:  # noqa: BLE001  # kept for its table
            if len(entries) == 1:
                failures[entries[0].table_id] = error
                return {}
            log.warning("job_failed", tables=len(entries), **asdict(described(error)))
            return {
                table_id: built for entry in entries for table_id, built in self._build_all([entry], failures).items()
            }
        return by_table

    def _prepare(self, table: Table, epoch: Epoch, tasks: int) -> ClaimedTable | None:
        """W2 to W4 for a claimed table, after its drop or its repairs, if any."""
        if self.leased.epoch(table.table_id) != epoch:
            self._take_over.run(table, epoch)
            self.leased.add(table.table_id, epoch)
        if table.state.deletes_folder:
            next_generation = self._dropping.run(table, epoch)
            if next_generation is None or not next_generation.state.publishes:
                return None
            table = next_generation
        while broken := self._to_repair(table):
            self._repair(table, epoch, broken)
        with self.context.engine.begin() as connection:
            claim = Claim(table, epoch)
            plans = plan_next_files(connection, [claim], self._limits, max_files=MAX_FILES_AHEAD, slots=tasks)
            self._require_new(plans)
        files = plans[table.table_id]
        if not files:
            self.failures.clear({table.table_id})
        return ClaimedTable(table, epoch, files) if files else None

    def _require_new(self, plans: Mapping[TableId, Sequence[PlannedFile]]) -> None:
        """Reject plans of a number that this process has published: the ledger went back, as after a restore.

        The tables are then taken over again, with a listing of the landing zone. A lease from another run of the
        database is over anyway; this finds a database that went back within one. Raise InvariantBroken `stale_epoch`.
        """
        for table_id, files in plans.items():
            if files and self.leased.was_published(table_id, files[0].identity):
                detail = f"this drain has published file {files[0].identity.number}, which the database plans again"
                raise InvariantBroken(Code.STALE_EPOCH, detail)

    def _to_repair(self, table: Table) -> list[PlannedFile]:
        with self.context.engine.begin() as connection:
            return files_to_repair(connection, table, limit=MAX_FILES_AHEAD)

    def _repair(self, table: Table, epoch: Epoch, files: Sequence[PlannedFile]) -> None:
        """Write files again, none behind a gap; if the process dies inside, the next owner does it once more."""
        context, numbers = self.context, [file.identity.number for file in files]
        require_last_files(context.zone, table.name, numbers[-1], numbers)
        for built in self.builder.build([BuildOrder(file, epoch) for file in files]):
            if isinstance(built, BuildFailure):
                raise built.error()
            repair_file(context.zone, table, context.installation_id, built)
            with context.engine.begin() as connection:
                record_repaired(connection, built)
            log.info("file_repaired", **log_fields(table), number=built.planned.identity.number)


def open_cycle(
    worker_id: UUID,
    spark: SparkSession,
    config: BuildConfig,
    limits: FileLimits,
    *,
    tasks: int | None = None,
    spark_job_min_bytes: int = 0,
    drop_wait_seconds: float = 600.0,
    database_seconds: float = 10.0,
) -> DrainCycle:
    """Open the database and the landing zone, claim the zone, and return the cycle over them.

    The caller disposes of `context.engine`. Raise Misconfigured for a zone that is not this database's.
    """
    context = open_context(worker_id, config, database_seconds=database_seconds)
    builder = FileBuilder(spark, config, tasks, spark_job_min_bytes)
    return DrainCycle(context, builder, limits, drop_wait_seconds=drop_wait_seconds)
