"""The status of tables: state, lag and reconciliation."""

from datetime import datetime

from pydantic import Field

from app.api.schemas.common import Model
from app.api.schemas.tables import TableOptionsModel
from app.domain.model.table import TableState


class LagModel(Model):
    """What is accepted but not yet published."""

    batches: int
    rows: int
    bytes: int
    oldest_seconds: float


class CountsModel(Model):
    """How much of a table there is at one point of its way."""

    batches: int
    changes: int
    rows: int


class PublishedModel(CountsModel):
    """How much of a table is published, and in how many files."""

    files: int


class ProcessedModel(Model):
    """What Fabric last said of the table, in its own words and numbers; null is what it did not say."""

    state: str | None
    error: str | None
    rows: int | None
    bytes: int | None
    last_sync: datetime | None
    read_at: datetime


class WaitingLettersModel(Model):
    """Dead letters of the present generation that wait to be replayed or discarded."""

    waiting: int
    oldest_seconds: float


class FailingModel(Model):
    """Why a table that should publish does not: it has failed three times or more in a row. It is tried again with
    growing pauses; the next success ends this.
    """

    code: str = Field(description="A code of docs/errors.md.")
    detail: str = Field(description="What failed and where, as the storage or the operating system says it.")
    remedy: str = Field(description="What an operator can do.")
    tries: int = Field(description="Failed tries in a row.")
    since: datetime = Field(description="When the first of them failed.")
    last_at: datetime = Field(description="When the last of them failed.")


class TableModel(Model):
    """A table's state and its reconciliation: accepted = staged always; = published when the lag is 0; = processed
    once Fabric has taken everything in. `processed` is null where Fabric's monitoring is not readable or does not
    list the table.
    """

    table: str
    generation: int
    state: TableState
    state_reason: str | None
    failing: FailingModel | None = Field(description="Null unless publication has failed three times in a row.")
    key_columns: list[str]
    schema_version: int
    options: TableOptionsModel
    lag: LagModel
    accepted: CountsModel
    staged: CountsModel
    published: PublishedModel
    processed: ProcessedModel | None
    dead_letters: WaitingLettersModel
    last_sequence: int
    published_through: int
    last_file: str | None


class TablesModel(Model):
    """The tables that the key may see."""

    tables: list[TableModel]
