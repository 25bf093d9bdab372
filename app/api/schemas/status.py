"""The status of tables: state, lag and reconciliation."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from app.api.schemas.common import Model, Seconds
from app.api.schemas.loads import LoadModel
from app.api.schemas.mirror import MirrorModel
from app.api.schemas.operations import RebuildModel
from app.api.schemas.tables import TableOptionsModel
from app.domain.health.troubles import Kind, Severity
from app.domain.model.table import TableState
from app.staging.images.backfill.progress import BackfillState, BackfillStep


class LagModel(Model):
    """What is accepted and not published."""

    batches: int
    rows: int
    bytes: int
    oldest_seconds: Seconds


class CountsModel(Model):
    """Counts of a table at one stage of publication."""

    batches: int
    changes: int
    rows: int


class PublishedModel(CountsModel):
    """Counts of what is published, and the number of files."""

    files: int


class ProcessedModel(Model):
    """What Fabric last reported about the table, in Fabric's own words; null if it reported nothing."""

    state: str | None
    error: str | None
    failed: bool = Field(description="Whether Fabric has given the table up.")
    whose: Literal["user", "system", "unknown"] | None = Field(description="Who can correct the error.")
    remedy: str | None = Field(description="What to do about the error, or the failure.")
    rows: int | None
    bytes: int | None
    last_sync: datetime | None
    read_at: datetime


class FabricModel(Model):
    """The mirrored database in Fabric, as its API last reported it."""

    state: str | None = Field(description="Fabric's own word; null before its first answer.")
    since: datetime | None = Field(description="When this state was first seen.")
    error: str | None
    read_at: datetime | None = Field(description="When the API last answered.")
    problem: str | None = Field(description="What needs an operator; null if nothing does.")
    remedy: str | None = Field(description="What to do about it.")


class WaitingLettersModel(Model):
    """Dead letters of the current generation that are neither replayed nor discarded."""

    waiting: int
    oldest_seconds: Seconds


class FailingModel(Model):
    """Why publication of a table fails; it has failed three or more times in a row.

    The drain tries again after growing pauses. The next success clears this.
    """

    code: str = Field(description="An error code of docs/errors.md.")
    detail: str = Field(description="What failed and where, in the words of the storage or the operating system.")
    remedy: str = Field(description="What an operator can do.")
    tries: int = Field(description="Failed attempts in a row.")
    since: datetime = Field(description="When the first of them failed.")
    last_at: datetime = Field(description="When the last of them failed.")


class TroubleModel(Model):
    """What needs attention of a table, as the console, the alerts of the webhook and `mirrorgate status` show it."""

    kind: Kind
    severity: Severity = Field(description="`critical`: data has stopped or will soon. `warning`: in working hours.")
    code: str
    detail: str
    remedy: str = Field(description="What an operator can do.")
    since: datetime | None


class RowImagesSizeModel(Model):
    """The row images that a table keeps."""

    complete: bool = Field(description="Whether no row of the table lacks one.")
    rows: int
    exact: bool = Field(description="False if `rows` is an estimate.")
    bytes: int = Field(description="An estimate of the room that they take in Postgres.")


class BackfillModel(Model):
    """The last backfill of a table's row images.

    It reads the rows of a Delta version (step `mirror`), deletes images of rows that this no longer has (`older`), and
    reads staged payloads (`payloads`). One with `by_drain` continues after a drain was killed. Another one that is
    `running` without a change of `updated_at` has lost its process. Ask the drain for the rest of it (`POST
    /v1/tables/{table}/row-images/backfill`), or run `mirrorgate tables backfill-images` again.
    """

    generation: int
    state: BackfillState
    step: BackfillStep
    mirror_version: int | None = Field(description="The Delta version that is read. Null if payloads alone are read.")
    rows_done: int
    rows_total: int = Field(description="As known when the run began. Rows that were accepted since are not in it.")
    batches_done: int = Field(description="The last batch whose rows all have images.")
    batches_total: int
    by_drain: bool = Field(description="Whether a drain carries it out; otherwise a command does.")
    detail: str | None = Field(description="Why it failed. While it is running: why the last attempt failed.")
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None


class TableModel(Model):
    """The state of a table and its reconciliation.

    `accepted` always equals `staged`. It equals `published` if the lag is 0, and `processed` after Fabric has
    replicated everything. `processed` is null if Fabric's monitoring cannot be read or does not list the table.
    `mirror` is null if no Delta mirror has reported the current generation.
    """

    table: str
    generation: int
    state: TableState
    state_reason: str | None
    quarantined_at: datetime | None = Field(
        description="When the drain stopped the table; null unless it is quarantined."
    )
    failing: FailingModel | None = Field(description="Null unless publication has failed three or more times in a row.")
    key_columns: list[str]
    schema_version: int
    rows_lack: dict[str, int]
    """Columns that were added with a default, or came back: rows of batches up to this sequence are NULL there."""
    options: TableOptionsModel
    lag: LagModel
    accepted: CountsModel
    staged: CountsModel
    published: PublishedModel
    processed: ProcessedModel | None
    mirror: MirrorModel | None
    load: LoadModel | None
    """The open load session, null without one."""
    row_images: RowImagesSizeModel | None
    """Null if the table keeps none."""
    backfill: BackfillModel | None = Field(description="Null unless row images of this generation were backfilled.")
    rebuild: RebuildModel | None = Field(description="Null if the table was never rebuilt.")
    dead_letters: WaitingLettersModel
    last_sequence: int
    published_through: int
    last_file: str | None
    troubles: list[TroubleModel] = Field(description="What needs attention, the worst first.")


class RegisteredTableModel(TableModel):
    """A table after its registration."""

    undeclared_columns: list[str] = Field(
        description="Columns of the table that the request left out of its columns. They stay in the files, and are "
        "NULL in rows that do not give them. To remove one, rebuild or recreate the table without it."
    )


class TablesModel(Model):
    """The tables that the key can see, and the mirrored database."""

    tables: list[TableModel]
    fabric: FabricModel | None = Field(default=None, description="Null where no drain asks Fabric's API.")
