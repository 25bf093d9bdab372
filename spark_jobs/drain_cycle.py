"""One cycle of the drain for a set of tables: claim, revoke, look, plan, build, publish, record (W1 to W9).

Every decision is recorded in Postgres under the epoch of the claim before it is acted on, so a process may die
between any two lines: the next owner claims a new epoch, revokes the old one's scratch and carries on.
"""

from collections.abc import Iterable, Sequence, Set
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from uuid import UUID

import structlog
from pyspark.sql import SparkSession

from app.checks.zone_claim import claim_landing_zone
from app.domain.model.landing_file import BuiltFile, PlannedFile
from app.domain.model.table import Epoch, Table, TableId, TableState
from app.domain.publication.drain_plan import FileLimits
from app.domain.publication.failure import described
from app.errors import Code, InvariantBroken, TemporarilyUnavailable
from app.landing.claimed_zone import ClaimedZone
from app.landing.open_zone import open_zone
from app.landing.publish import (
    Scratch,
    remove_table_folder,
    repair_file,
    revoke_older_epochs,
)
from app.landing.scratch_sweep import newest_epoch
from app.landing.zone import LandingZone
from app.observability.drain_metrics import FAILED_ATTEMPTS, PUBLISH_SECONDS
from app.staging.connection.database import (
    Connection,
    Engine,
    answer_within,
    installation_id,
    open_engine,
    translated_errors,
)
from app.staging.ledger.fabric_status import note_folder_gone
from app.staging.ledger.failures import FAILING_AFTER, clear_failures, has_failed, record_failure
from app.staging.ledger.files import files_to_repair, record_repaired, tables_to_repair
from app.staging.ledger.landing_zone import known_zone
from app.staging.ledger.leases import (
    Claim,
    check_epoch,
    claim_table,
    due_tables,
    raise_epoch,
    revoked_through,
)
from app.staging.ledger.planning import plan_next_files
from app.staging.tables.drop_completion import finish_drop
from app.staging.tables.registry import find_table_by_id, find_tables_by_id, note_drop_trouble, quarantine_table
from spark_jobs.build_files import BuildConfig, BuildFailure, BuildOrder, build_files
from spark_jobs.fabric_watch import is_mirrored
from spark_jobs.marker_rewrite import MarkerRewrite
from spark_jobs.publishing import TOGETHER, ClaimedTable, Failures, Publishing
from spark_jobs.reconciliation import Reconciliation
from spark_jobs.spark.health import SparkCalls

log = structlog.get_logger()

FILES_PER_ROUND: Final = 8
"""Files of one table that one Spark job may build ahead; they are still published one by one, in order."""

REMOTE_SEEN_SECONDS: Final = 10.0
"""A remote zone that was seen so short a time ago is not asked for again before tables are claimed: it costs a request,
and each take-over and each rename asks anyway."""

DROP_SECONDS: Final = 600.0
"""Deleting all that is staged of a large table takes far longer than any other transaction."""

QUARANTINES: Final = frozenset(
    {Code.FOREIGN_FILE, Code.LANDING_FOLDER_LOST, Code.LEDGER_BEHIND_ZONE, Code.PAYLOAD_CORRUPT}
)
"""What must never happen: the table stops until an operator has looked. Everything else is tried again."""


@dataclass
class DrainCycle:
    """The worker's view of its tables. Methods are called for different tables from different threads."""

    worker_id: UUID
    spark: SparkSession
    place: BuildConfig
    limits: FileLimits
    tasks: int | None = None
    """Of one Spark job at the most; None: as many as Spark runs at a time."""
    spark_job_min_bytes: int = 0
    """Fewer compressed payload bytes are built without a Spark job."""
    drop_wait_seconds: float = 600.0
    """How long a drop waits at the most until mirroring no longer has the table."""
    database_seconds: float = 10.0
    """How long Postgres may take for an answer."""
    held: dict[TableId, Epoch] = field(default_factory=dict)
    """Epochs whose predecessors this process has revoked; forgotten after any failure."""

    calls: SparkCalls = field(default_factory=SparkCalls)
    """Calls to Spark that have not returned."""

    troubled: set[TableId] = field(default_factory=set)
    """Tables whose failure is on record, to be cleared at their next success."""

    waiting: set[TableId] = field(default_factory=set)
    """Tables whose drop waits for mirroring."""

    waits_for: Code | None = None
    """What keeps this drain from publishing anything, for the heartbeat to tell."""

    def __post_init__(self) -> None:
        self.engine: Engine = open_engine(
            self.place.database_url,
            pool_size=8,
            application="mirrorgate drain",
            silence_seconds=self.database_seconds,
        )
        self.zone: LandingZone = open_zone(self.place.landing_zone)
        try:
            known = claim_landing_zone(self.engine, self.place.landing_zone)
        except Exception:
            self.engine.dispose()
            raise
        with translated_errors(), self.engine.begin() as connection:
            self.installation_id = installation_id(connection)
        self.claimed_zone = ClaimedZone(self.zone, known, self.installation_id)
        remote = self.place.landing_zone.is_remote
        self.publishing = Publishing(
            self.engine, self.zone, self.claimed_zone, self.installation_id, together=1 if remote else TOGETHER
        )

    @property
    def slots(self) -> int:
        """`tasks`, or those that Spark runs at a time now: a cluster's executors come and go."""
        return self.tasks or int(self.spark.sparkContext.defaultParallelism)

    def due(self) -> list[TableId]:
        """Tables with something to publish now that no other live worker owns.

        Raises TemporarilyUnavailable `landing_zone_away` while there are such tables and the zone is away.
        """
        with translated_errors(), self.engine.begin() as connection:
            due = due_tables(connection, self.worker_id, self.limits, most=1_000)
        if due:
            self.claimed_zone.require(within=REMOTE_SEEN_SECONDS if self.place.landing_zone.is_remote else 0.0)
        return due

    def prepare(self, table_id: TableId, *, slots: int = 1) -> ClaimedTable | None:
        """W1 to W4 for one table whose files may be built by `slots` tasks at once; None when there is nothing to do,
        or when it failed (which is logged)."""
        table: Table | None = None
        epoch: Epoch | None = None
        self.waiting.discard(table_id)
        try:
            with translated_errors():
                table, epoch = self._claim(table_id)
                if table is None or epoch is None or not (table.state.publishes or table.state is TableState.DROPPING):
                    return None
                return self._prepare(table, epoch, slots)
        except Exception as error:  # noqa: BLE001  # one table's trouble, whatever it is, stops no other table
            self._fail(table_id, table, epoch, error)
            return None

    def prepare_held(self, table_ids: Sequence[TableId], *, slots: int = 1) -> tuple[list[ClaimedTable], list[TableId]]:
        """W4 in one transaction for the tables whose epoch this process holds; and those of the tables that need
        `prepare`, because there is more to do or something failed."""
        held = {table_id: epoch for table_id in table_ids if (epoch := self.held.get(table_id)) is not None}
        if not held:
            return [], list(table_ids)
        try:
            with translated_errors(), self.engine.begin() as connection:
                tables = {table.table_id: table for table in find_tables_by_id(connection, held)}
                broken = tables_to_repair(connection, held)
                claims = [
                    Claim(table, held[table_id])
                    for table_id, table in tables.items()
                    if table.state.publishes and table_id not in broken
                ]
                plans = (
                    plan_next_files(connection, claims, self.limits, most=FILES_PER_ROUND, slots=slots)
                    if claims
                    else {}
                )
        except Exception as error:  # noqa: BLE001  # each is looked at alone, where it can only fail itself
            failure = described(error)
            log.info("joint_planning_failed", tables=len(held), code=failure.code, detail=failure.detail)
            return [], list(table_ids)
        claimed = [ClaimedTable(tables[table_id], held[table_id], files) for table_id, files in plans.items() if files]
        return claimed, [table_id for table_id in table_ids if table_id not in plans]

    def build_and_publish(self, claimed: Iterable[ClaimedTable]) -> set[TableId]:
        """W5 to W9 for several tables at once; the tables whose files were all published."""
        tables = {entry.table_id: entry for entry in claimed}
        failures: dict[TableId, Exception] = {}
        with PUBLISH_SECONDS.time():
            by_table = self._build_together(list(tables.values()), failures)
            built = [tables[table_id] for table_id in by_table]
            failures |= self.publishing.publish(built, by_table)
        for table_id, error in failures.items():
            self._fail(table_id, tables[table_id].table, tables[table_id].epoch, error)
        published = tables.keys() - failures.keys()
        self._recover(published)
        return published

    def _build_together(
        self, entries: Sequence[ClaimedTable], failures: Failures
    ) -> dict[TableId, list[BuiltFile | BuildFailure]]:
        """W5 in one Spark job; where the job itself fails, as when a worker runs out of memory, in one for each table:
        so the table that made it fail keeps no other back."""
        orders = [BuildOrder(file, entry.epoch) for entry in entries for file in entry.files]
        by_table: dict[TableId, list[BuiltFile | BuildFailure]] = {entry.table_id: [] for entry in entries}
        try:
            for order, result in zip(orders, self._build(orders), strict=True):
                by_table[order.planned.table_id].append(result)
        except Exception as error:  # noqa: BLE001  # kept for its table
            if len(entries) == 1:
                failures[entries[0].table_id] = error
                return {}
            failure = described(error)
            log.warning("job_failed", tables=len(entries), code=failure.code, detail=failure.detail)
            return {
                table_id: built
                for entry in entries
                for table_id, built in self._build_together([entry], failures).items()
            }
        return by_table

    def _build(self, orders: list[BuildOrder]) -> list[BuiltFile | BuildFailure]:
        return build_files(
            self.spark,
            self.place,
            orders,
            tasks=self.slots,
            min_bytes=self.spark_job_min_bytes,
            calls=self.calls,
        )

    def _claim(self, table_id: TableId) -> tuple[Table | None, Epoch | None]:
        held = self.held.get(table_id)
        if held is None:  # before the claim: while the zone is away no epoch is burned
            self.claimed_zone.require()
        with self.engine.begin() as connection:
            self._require_known_zone(connection)
            epoch = claim_table(connection, table_id, self.worker_id, held=held)
            table = find_table_by_id(connection, table_id)
        if table is not None and epoch is not None and epoch != held:
            if held is not None:
                self.claimed_zone.require()
            epoch = self._beyond_scratch(table, epoch)
        return table, epoch

    def _require_known_zone(self, connection: Connection) -> None:
        """Raise TemporarilyUnavailable `landing_zone_away` once the database has been moved to another zone."""
        known = known_zone(connection)
        if known is not None and known.zone_id != self.claimed_zone.known.zone_id:
            detail = f"the database publishes into {known} now: start this drain with that zone"
            raise TemporarilyUnavailable(Code.LANDING_ZONE_AWAY, detail)

    def _beyond_scratch(self, table: Table, epoch: Epoch) -> Epoch:
        """The claimed epoch, or a later one where the scratch has seen it: the database was restored."""
        seen = newest_epoch(self.zone, table.table_id)
        if seen < epoch:
            return epoch
        with self.engine.begin() as connection:
            epoch = raise_epoch(connection, table.table_id, epoch, beyond=seen)
        log.warning("epoch_raised", **named(table), epoch=epoch)
        return epoch

    def _prepare(self, table: Table, epoch: Epoch, slots: int) -> ClaimedTable | None:
        if self.held.get(table.table_id) != epoch:
            self._take_over(table, epoch)
            self.held[table.table_id] = epoch
        if table.state is TableState.DROPPING:
            reborn = self._drop(table, epoch)
            if reborn is None:
                return None
            table = reborn
        with self.engine.begin() as connection:
            broken = files_to_repair(connection, table, most=FILES_PER_ROUND)
            claim = Claim(table, epoch)
            plans = plan_next_files(connection, [claim], self.limits, most=FILES_PER_ROUND, slots=slots)
        if broken:
            self._repair(table, epoch, broken)
        files = plans[table.table_id]
        if not files:
            self._recover({table.table_id})
        return ClaimedTable(table, epoch, files) if files else None

    def _take_over(self, table: Table, epoch: Epoch) -> None:
        """W2, then W3: nobody older can act any more; then see how far the last owner came."""
        scratch = Scratch(table.table_id, epoch)
        with self.engine.begin() as connection:
            swept = revoked_through(connection, table.table_id)
            if has_failed(connection, table.table_id):
                self.troubled.add(table.table_id)
        revoke_older_epochs(self.zone, scratch, after=swept)
        self.zone.create_folder(scratch.folder)
        if table.state is TableState.DROPPING:
            return
        MarkerRewrite(self.engine, self.zone, self.installation_id).run(table, epoch)
        Reconciliation(self.engine, self.zone, self.installation_id, self.publishing.record).run(table, epoch)

    def _drop(self, table: Table, epoch: Epoch) -> Table | None:
        """R3 to R6; the table in its new generation, None when there is none, or none yet.

        A process that dies between two of them leaves the rest to the next owner.
        """
        self.claimed_zone.require()
        remove_table_folder(self.zone, table, self.installation_id, Scratch(table.table_id, epoch))
        self.claimed_zone.require()  # a folder that is gone with the whole zone is not deleted
        if self._mirroring_lags(table, epoch):
            self.waiting.add(table.table_id)
            return None
        with answer_within(DROP_SECONDS), self.engine.begin() as connection:
            finished = finish_drop(connection, table, epoch, marker_first=self.place.layout.marker_first)
            reborn = find_table_by_id(connection, table.table_id)
        self._recover({table.table_id})
        log.info("table_dropped", **(named(table) | asdict(finished)))
        return reborn

    def _mirroring_lags(self, table: Table, epoch: Epoch) -> bool:
        """R5: whether to wait on, because Fabric still lists the table whose folder is gone; the state says so.

        A folder of the same name that came too early could be taken for the old one. The time is counted in the
        database, so that neither a crash nor another owner begins it anew.
        """
        if not is_mirrored(self.place.landing_zone, table.name):
            return False
        with self.engine.begin() as connection:
            check_epoch(connection, table.table_id, epoch)
            waited = note_folder_gone(connection, table.table_id)
            lags = waited < self.drop_wait_seconds
            if lags:
                reason = f"waiting until Fabric no longer lists the table, at most {self.drop_wait_seconds:.0f} s"
                note_drop_trouble(connection, table.table_id, f"{reason}; {waited:.0f} s so far")
        if not lags:
            log.warning("fabric_wait_timed_out", **named(table), seconds=round(waited))
        return lags

    def _repair(self, table: Table, epoch: Epoch, files: Iterable[PlannedFile]) -> None:
        """Write the files again that an operator asked for, each under its own number."""
        orders = [BuildOrder(file, epoch) for file in files]
        for built in self._build(orders):
            if isinstance(built, BuildFailure):
                raise InvariantBroken(built.code, built.detail, remedy=built.remedy)
            repair_file(self.zone, table, self.installation_id, built)
            with self.engine.begin() as connection:
                record_repaired(connection, built)
            log.info("file_repaired", **named(table), number=built.planned.identity.number)

    def _fail(self, table_id: TableId, table: Table | None, epoch: Epoch | None, error: Exception) -> None:
        """Forget the epoch, so that the next try begins with a new one; quarantine what must not be tried again,
        unless the epoch is over: then what was seen is the next owner's to judge. Nothing is concluded from what was
        seen while the landing zone is away."""
        self.held.pop(table_id, None)
        failure = described(error)
        FAILED_ATTEMPTS.labels(str(failure.code)).inc()
        shown = self._named_by_id(table_id) if table is None else named(table)
        log.warning("table_publication_failed", **shown, **asdict(failure))
        if epoch is None:
            return
        try:
            if failure.code in QUARANTINES:
                self.claimed_zone.require()
            with translated_errors(), self.engine.begin() as connection:
                check_epoch(connection, table_id, epoch)
                note_drop_trouble(connection, table_id, f"{failure.code}: {failure.detail}; tried again")
                quarantined = failure.code in QUARANTINES and quarantine_table(
                    connection, table_id, f"{failure.code}: {failure.detail}"
                )
                tries = 0 if table is None or quarantined else record_failure(connection, table, failure)
                if quarantined:
                    clear_failures(connection, [table_id])
            if quarantined:
                self.troubled.discard(table_id)
                log.error("table_quarantined", **shown, code=failure.code, detail=failure.detail)
                return
            self.troubled.add(table_id)
            if tries == FAILING_AFTER:
                log.error("table_failing", **shown, tries=tries, **asdict(failure))
        except Exception as second:  # noqa: BLE001  # the table is tried again, and found again
            why = described(second)
            log.warning("table_quarantine_failed", **shown, code=why.code, detail=why.detail)

    def _named_by_id(self, table_id: TableId) -> dict[str, Any]:
        """Return the fields that name a table whose claim failed; its id alone while Postgres does not tell."""
        try:
            with translated_errors(), self.engine.begin() as connection:
                table = find_table_by_id(connection, table_id)
        except Exception:  # noqa: BLE001  # the failure that is being told may be just that
            table = None
        return {"table_id": table_id} if table is None else named(table)

    def _recover(self, table_ids: Set[TableId]) -> None:
        """Clear the failures of tables that have succeeded; what cannot be cleared now is at the next success."""
        recovered = self.troubled & table_ids
        if not recovered:
            return
        try:
            with translated_errors(), self.engine.begin() as connection:
                clear_failures(connection, recovered)
        except Exception as error:  # noqa: BLE001  # the files are published; only the status is behind
            why = described(error)
            log.warning("failure_reset_failed", code=why.code, detail=why.detail)
        else:
            self.troubled -= recovered


def named(table: Table) -> dict[str, Any]:
    """The fields by which every log line names a table."""
    return {"table": str(table.name), "generation": table.generation}
