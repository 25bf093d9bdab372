"""The status of tables and of the gateway: state, lag, reconciliation, loads, the mirror and health.

`table_statuses` and `fabric_model` read it from the database.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import ConfigDict, Field

from app.api.schemas.common import Model, Seconds, TableAnswer
from app.api.schemas.operations import RebuildModel
from app.domain.fabric import remedy_for
from app.domain.health.facts import HealthFacts
from app.domain.health.troubles import Severity, TroubleKind, database_troubles, troubles
from app.domain.loads import LoadSession, LoadState
from app.domain.mirror_report import MirrorState
from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, Table, TableLife, TableState
from app.domain.model.table_options import TableOptions
from app.staging.connection.database import Connection
from app.staging.images import BackfillState
from app.staging.ledger.reports import FabricStatus, fabric_database
from app.staging.mirror import MirrorProgress
from app.staging.overview import TableFacts, find_facts
from app.staging.tables.status import ImagesSize
from mirrorgate.parameters import LoadMode


class BeginLoad(Model):
    """The kind of a load: all rows of the source, or more rows."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"mode": "full"}]})

    mode: LoadMode
    """`full`: completing the load deletes the rows that it did not have. `append`: nothing is deleted."""
    load: Annotated[UUID | None, Field(examples=["5b7c2a52-1f0f-4c5e-9d43-0f5a3a1f6d2e"])] = None
    """An id of your own. A repeated request with it returns the load that the first one began."""


class LoadModel(Model):
    """A load session of a table."""

    load: str
    """The id, which requests send as `Mirrorgate-Load`."""
    table: str
    """The name of the table, `name` or `schema.name`."""

    generation: int
    """The generation of the table: one lifetime of its landing folder."""

    mode: LoadMode
    """`full`: completing the load deletes the rows that it did not have. `append`: nothing is deleted."""

    state: LoadState
    """`open` takes rows. `completing` deletes rows that the load did not have. The other states are final."""
    rows: int
    """Rows of the load that land."""
    superseded: int
    """Rows that do not land, because the stream changed or deleted their keys since the load began."""
    deletes: int
    """Rows that completing the load has deleted so far."""
    started_by: str
    """The id of the key that began the load."""
    started_at: datetime
    """Time at which the load began."""

    expires_at: datetime
    """Time at which the load expires; each request with rows of it moves this time."""
    ended_at: datetime | None
    """Time at which the load ended; null while it is open."""

    @classmethod
    def of_session(cls, load: LoadSession, table: str) -> "LoadModel":
        """Return the model of a load session."""
        return cls.of(load, load=load.load_id, table=table)


class LoadsModel(Model):
    """The newest load sessions of a table, the newest first."""

    loads: list[LoadModel]
    """The load sessions."""


class MirrorReasonModel(Model):
    """The reason that the mirror does not apply the next file of a table."""

    code: str
    """An error code of https://mirrorgate.github.io/mirrorgate/reference/errors/."""

    detail: str | None
    """Explanation of the problem, and the file that has it; without row values."""

    remedy: str | None
    """Instruction for an operator."""


class MirrorModel(Model):
    """The progress of a table's mirror: its last report, compared with the landing ledger now."""

    state: MirrorState
    """`waiting`: a file number is missing. `stopped`: a file cannot be applied. `dropped`: the landing folder is gone.

    `in_step` and `behind` are normal.
    """

    version: int | None
    """The Delta version; null before the first one."""

    file_number: int
    """The last landing file that is applied; 0 before the first."""

    pending_files: int
    """Published landing files that are not applied."""

    lag_seconds: Seconds
    """The age of the oldest of them; 0 in step. It grows while no mirror runs."""

    reason: MirrorReasonModel | None
    """Reason why the table waits or is stopped; null otherwise."""

    updated_at: datetime
    """Time at which the mirror last reported; at least every ten seconds while it runs."""

    @classmethod
    def of_progress(cls, progress: MirrorProgress, **more: Any) -> Self:
        """Return the model of this class, with the fields that a subclass has in addition."""
        reason = None if progress.code is None else MirrorReasonModel.of(progress)
        return cls.of(progress, reason=reason, **more)


class TableMirrorModel(MirrorModel):
    """The progress of the mirror of a table's current generation."""

    table: str
    """The name of the table, `name` or `schema.name`."""

    generation: int
    """The generation of the table in the gateway."""

    delta_generation: int
    """The generation of the Delta table as the mirror counts it: an earlier one is kept as `<table>@g<number>`."""

    published_file: int
    """The last landing file that the gateway has published; 0 before the first."""

    committed_at: datetime | None
    """The time of the Delta version; null before the first one."""


class MirrorColumnModel(Model):
    """A column of a mirrored table."""

    name: str
    """The name of the column."""

    type: str
    """The column type, as in a registration."""


class MirrorRowsModel(Model):
    """Rows of a mirrored table at one version, in no particular order.

    As in a dry run, decimals, dates and timestamps are strings, and binary is base64.
    """

    table: str
    """The name of the table, `name` or `schema.name`."""

    version: int
    """The Delta version that was read."""

    columns: list[MirrorColumnModel]
    """The columns of the version."""

    rows: list[dict[str, Any]]
    """The rows by column name."""

    has_more: bool
    """True if the version has rows that the answer omits, because of `limit` or the size of the answer."""


class LagModel(Model):
    """The accepted changes that are not published."""

    batches: int
    """Batches that are not published."""

    rows: int
    """Rows of these batches."""

    bytes: int
    """Bytes of their payloads."""

    oldest_seconds: Seconds
    """The age of the oldest of them; 0 without one."""


class SourceModel(Model):
    """The lag between a table's source and the gateway, at the last change that has a source time."""

    lag_seconds: Seconds | None
    """From the commit in the source to the acceptance; null if the last change is more than 15 minutes old."""

    extraction_lag_seconds: Seconds | None
    """The part of it in which the tool had not read the change in the log, as Arcion and Debezium tell it."""

    measured_at: datetime | None
    """Time at which the change was accepted."""

    missing_changes: int
    """Changes that are missing by Arcion's counts of operations."""


class CountsModel(Model):
    """Counts of a table at one stage of publication."""

    batches: int
    """Change batches."""

    changes: int
    """Changes, as messages."""

    rows: int
    """Rows that land."""


class PublishedModel(CountsModel):
    """Counts of what is published, and the number of files."""

    files: int
    """Landing files."""

    last_at: datetime | None = Field(description="When the last file became visible.")


class ProcessedModel(Model):
    """Fabric's last report about the table, in Fabric's own words; null if it reported nothing."""

    state: str | None
    """Fabric's word for the state of the table."""

    error: str | None
    """The code of Fabric's error; null without one."""

    failed: bool = Field(description="Whether Fabric has given the table up.")
    whose: Literal["user", "system", "unknown"] | None = Field(description="Who can correct the error.")
    remedy: str | None = Field(description="What to do about the error, or the failure.")
    rows: int | None
    """Rows that Fabric has replicated; null if it did not say."""

    bytes: int | None
    """Bytes that Fabric has replicated; null if it did not say."""

    last_sync: datetime | None
    """Time at which Fabric last replicated rows; null if it did not say."""

    queryable_at: datetime | None = Field(description="The last sync that the SQL endpoint shows; null if unknown.")
    queryable_error: str | None = Field(description="Why the last refresh of the SQL endpoint failed for the table.")
    read_at: datetime
    """Time at which the gateway read this."""


class FabricModel(Model):
    """The mirrored database in Fabric, as its API last reported it."""

    state: str | None = Field(description="Fabric's own word; null before its first answer.")
    since: datetime | None = Field(description="When this state was first seen.")
    error: str | None
    """The code of Fabric's error; null without one."""

    read_at: datetime | None = Field(description="When the API last answered.")
    problem: str | None = Field(description="What needs an operator; null if nothing does.")
    remedy: str | None = Field(description="What to do about it.")
    refreshes_sql: bool = Field(description="Whether the drain refreshes the SQL analytics endpoint.")


class WaitingLettersModel(Model):
    """Dead letters of the current generation that are neither replayed nor discarded."""

    waiting: int
    """Number of dead letters that wait."""

    oldest_seconds: Seconds
    """The age of the oldest; 0 without one."""


class FailingModel(Model):
    """The reason that publication of a table fails; it has failed three or more times in a row.

    The drain retries after growing pauses. The next success clears this.
    """

    code: str = Field(description="An error code of https://mirrorgate.github.io/mirrorgate/reference/errors/.")
    detail: str = Field(description="What failed and where, in the words of the storage or the operating system.")
    remedy: str = Field(description="What an operator can do.")
    tries: int = Field(description="Failed attempts in a row.")
    since: datetime = Field(description="When the first of them failed.")
    last_at: datetime = Field(description="When the last of them failed.")


class TroubleModel(Model):
    """A problem of a table, as the console, the alerts of the webhook and `mirrorgate status` show it."""

    kind: TroubleKind
    """The kind of trouble."""

    severity: Severity = Field(description="`critical`: data has stopped or will soon. `warning`: in working hours.")
    code: str
    """An error code, or what the trouble is."""

    detail: str
    """Explanation of the problem, without row values."""

    remedy: str = Field(description="What an operator can do.")
    since: datetime | None
    """Since when; null if unknown."""


class RowImagesSizeModel(Model):
    """The row images that a table keeps."""

    complete: bool = Field(description="Whether no row of the table lacks one.")
    rows: int
    """Number of row images."""

    exact: bool = Field(description="False if `rows` is an estimate.")
    bytes: int = Field(description="An estimate of the space that they need in Postgres.")


class BackfillModel(Model):
    """The last backfill of a table's row images. One that is `running` continues after a drain was killed."""

    generation: int
    """The generation whose images are filled."""

    state: BackfillState
    """State of the backfill."""

    rows_done: int
    """Rows that have their images."""

    rows_total: int = Field(description="As known when it was asked for. Rows that were accepted since are not in it.")
    batches_done: int = Field(description="The last batch whose rows all have images.")
    batches_total: int
    """The last batch when the backfill was asked for."""

    detail: str | None = Field(description="Why it failed. While it is running: why the last attempt failed.")
    started_at: datetime
    """Time at which it was asked for."""

    updated_at: datetime
    """Time at which it last made progress."""

    finished_at: datetime | None
    """Time at which it ended; null before that."""


class TableModel(TableAnswer):
    """The state of a table and its reconciliation.

    `accepted` always equals `staged`. It equals `published` if the lag is 0, and `processed` after Fabric has
    replicated everything. `processed` is null if Fabric's monitoring cannot be read or does not list the table.
    `mirror` is null if no Delta mirror has reported the current generation.
    """

    state: TableState
    """State of the table: it publishes, is paused or quarantined, or is about to be dropped."""

    state_reason: str | None
    """Reason why the table is quarantined; null otherwise."""

    quarantined_at: datetime | None = Field(
        description="When the drain stopped the table; null unless it is quarantined."
    )
    failing: FailingModel | None = Field(description="Null unless publication has failed three or more times in a row.")
    key_columns: list[str]
    """The key columns in key order."""

    schema_version: int
    """The number of the schema version, from 1."""

    rows_lack: dict[str, int]
    """Columns that were added with a default, or came back: rows of batches up to this sequence are NULL there."""
    options: TableOptions
    """All options with their current values."""

    lag: LagModel
    """The changes that are accepted and not published."""

    source: SourceModel
    """Lead of the source over what it sent."""

    accepted: CountsModel
    """Changes that were accepted with 202."""

    staged: CountsModel
    """Changes in the database, pending or published."""

    published: PublishedModel
    """Rows in the landing zone."""

    processed: ProcessedModel | None
    """Rows that Fabric reported as processed; null if it reported nothing."""

    mirror: MirrorModel | None
    """Progress of the Delta mirror; null if it has not reported this generation."""

    load: LoadModel | None
    """The open load session, null without one."""
    row_images: RowImagesSizeModel | None
    """Null if the table keeps none."""
    backfill: BackfillModel | None = Field(description="Null unless row images of this generation were backfilled.")
    rebuild: RebuildModel | None = Field(description="Null if the table was never rebuilt.")
    dead_letters: WaitingLettersModel
    """Rejected messages that wait."""

    last_sequence: int
    """The last accepted batch; 0 before the first."""

    published_through: int
    """The last batch of which everything is published."""

    last_file: str | None
    """The name of the last published file; null before the first."""

    troubles: list[TroubleModel] = Field(description="What needs attention, the worst first.")


class TablesModel(Model):
    """The tables that the key can see, and the mirrored database."""

    tables: list[TableModel]
    """The tables."""

    fabric: FabricModel | None = Field(default=None, description="Null where no drain asks Fabric's API.")


class HealthModel(Model):
    """The answer of a process that serves."""

    status: Literal["ok"]
    """`ok` while the process serves."""


class WriterModel(Model):
    """The state of this process's writer. Ages are in seconds; null if nothing has happened or nothing waits."""

    waiting_requests: int
    """Change requests that wait for the next transaction."""

    oldest_waiting_seconds: float | None
    """Seconds for which the oldest of them has waited."""

    last_commit_seconds: float | None
    """Seconds since the last commit of changes."""

    last_failure_seconds: float | None
    """Seconds since a transaction last failed because of the database."""


class ReadinessModel(Model):
    """The readiness of this process. `parts` (`api`, `database`, `writer`, `masks`) are `ok` or say what is wrong."""

    ready: bool
    """True if the process can accept changes now."""

    parts: dict[str, str]
    """Each part is `ok`, or says what is wrong."""

    writer: WriterModel
    """The writer of this process."""


class GatewayStatusModel(ReadinessModel):
    """The state of the gateway: the parts of `/readyz`, and six more.

    These are `drain`, `tables`, `backlog`, `fabric`, `mirror` and `clock`.
    """

    ready: bool
    """True if every part is `ok`."""

    drains: int | None
    """Drains with a valid lease; null while the database does not answer."""

    tables: dict[str, int] | None
    """The number of tables by state; null while the database does not answer."""

    backlog_share: float
    """The fullest backlog as a share of its limit; at 1 changes are rejected."""

    clock_behind_seconds: float | None
    """Seconds by which the clock of this process is behind the clock of Postgres; negative if it is ahead."""


def table_statuses(connection: Connection, tables: list[Table], shares: Mapping[TableLife, float]) -> list[TableModel]:
    """Return state, lag, reconciliation and troubles of these tables; `shares` are those of their backlog limits."""
    return [_status(facts, shares) for facts in find_facts(connection, tables)]


def _status(facts: TableFacts, shares: Mapping[TableLife, float]) -> TableModel:
    table, counts = facts.table, facts.counts
    found = troubles(HealthFacts(tables=[facts.summary], shares=shares))
    return TableModel(
        table=str(table.name),
        generation=table.generation,
        state=table.state,
        state_reason=counts.state_reason,
        quarantined_at=counts.quarantined_at,
        failing=None if facts.failure is None else FailingModel.of(facts.failure),
        key_columns=list(table.schema.key_columns),
        schema_version=table.schema_version,
        rows_lack=dict(table.late_columns),
        options=table.options,
        lag=LagModel(
            batches=counts.pending_batches,
            rows=counts.pending_rows,
            bytes=counts.pending_bytes,
            oldest_seconds=counts.oldest_seconds,
        ),
        source=SourceModel(
            lag_seconds=counts.source_lag_seconds,
            extraction_lag_seconds=counts.extraction_lag_seconds,
            measured_at=counts.source_lag_at,
            missing_changes=counts.missing_changes,
        ),
        accepted=CountsModel(batches=counts.last_sequence, changes=counts.accepted_changes, rows=counts.accepted_rows),
        staged=CountsModel(batches=counts.staged_batches, changes=counts.staged_changes, rows=counts.staged_rows),
        published=PublishedModel(
            batches=counts.published_batches,
            changes=counts.published_changes,
            rows=counts.published_rows,
            files=counts.published_files,
            last_at=counts.published_at,
        ),
        processed=None if facts.fabric is None else _processed(facts.fabric),
        mirror=None if facts.mirror is None else MirrorModel.of_progress(facts.mirror),
        load=None if facts.load is None else LoadModel.of_session(facts.load, str(table.name)),
        row_images=None if facts.images is None else _images(facts.images),
        backfill=None if facts.present_backfill is None else BackfillModel.of(facts.present_backfill),
        rebuild=None if facts.rebuild is None else RebuildModel.of(facts.rebuild),
        dead_letters=WaitingLettersModel(waiting=counts.waiting_letters, oldest_seconds=counts.oldest_letter_seconds),
        last_sequence=counts.last_sequence,
        published_through=counts.published_through,
        troubles=[TroubleModel.of(trouble) for trouble in found],
        last_file=file_name(FileNumber(counts.last_file)) if counts.last_file else None,
    )


def _images(images: ImagesSize) -> RowImagesSizeModel:
    return RowImagesSizeModel.of(images, complete=images.is_complete, exact=images.is_exact)


def fabric_model(connection: Connection) -> FabricModel | None:
    """Return the mirrored database as Fabric's API last reported it; None where no drain asks."""
    found = fabric_database(connection)
    if found is None:
        return None
    trouble = next(database_troubles(found.facts), None)
    return FabricModel(
        state=found.facts.state,
        since=found.state_since,
        error=found.facts.error,
        read_at=found.answered_at,
        problem=None if trouble is None else trouble.detail,
        remedy=None if trouble is None else trouble.remedy,
        refreshes_sql=found.refreshes_sql,
    )


def _processed(status: FabricStatus) -> ProcessedModel:
    return ProcessedModel(
        state=status.state,
        error=status.error,
        failed=status.has_failed,
        whose=status.whose,
        remedy=remedy_for(status.whose or "unknown") if status.fault is not None else None,
        rows=status.processed_rows,
        bytes=status.processed_bytes,
        last_sync=status.last_sync_at,
        queryable_at=status.queryable_at,
        queryable_error=status.queryable_error,
        read_at=status.read_at,
    )
