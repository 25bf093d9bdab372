"""Shapes of our own JSON, for OpenAPI and for checking what operators send. Change messages never pass here."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from app.domain.access import Right
from app.domain.table import TableState
from app.domain.table_options import (
    BinaryEncoding,
    DroppedColumns,
    InitialLoad,
    InsertMarker,
    NewColumns,
    PartialUpdates,
    Reload,
    SourceOrder,
)


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", use_enum_values=True)


class ReceiptModel(Model):
    """One durable change batch."""

    table: str
    generation: int
    sequence: int
    changes: int
    rows: int


class AcceptedModel(Model):
    """The answer to a change request, given after commit."""

    receipts: list[ReceiptModel]
    ignored: int
    duplicates: int
    replayed: bool


class ProducerModel(Model):
    """The last durable number; its receipts are null once they are no longer kept."""

    producer: str
    sequence: int
    receipts: list[ReceiptModel] | None


class DryRunTableModel(Model):
    """The rows that would land in a table, by column name, `__rowMarker__` among them."""

    table: str
    generation: int
    schema_version: int
    rows: list[dict[str, Any]]


class DryRunModel(Model):
    """The answer to a change request with `dry_run=true`: nothing was staged or registered."""

    tables: list[DryRunTableModel]
    ignored: int
    duplicates: int


class ColumnModel(Model):
    """A column as declared."""

    name: str
    type: Annotated[str, Field(examples=["int64", "decimal(12,2)", "timestamp"])]
    nullable: bool = True


class ColumnOverrideModel(Model):
    """What a column is, whatever a registration or a metadata message declares."""

    type: str | None = None
    nullable: bool | None = None
    encoding: BinaryEncoding | None = None


class OptionsModel(Model):
    """All options of a table; a new one has the defaults of those that are left out, an existing one keeps them."""

    partial_updates: PartialUpdates = PartialUpdates.REJECT
    new_columns: NewColumns = NewColumns.REJECT
    source_order: SourceOrder = SourceOrder.ARRIVAL
    reload: Reload = Reload.REFUSE
    insert_marker: InsertMarker = InsertMarker.INSERT
    initial_load: InitialLoad = InitialLoad.MARKED
    seed_file: bool = False
    dropped_columns: DroppedColumns = DroppedColumns.KEEP
    exclude: list[str] = []
    sources: list[str] = []
    source_timezone: str = "UTC"
    binary_encoding: BinaryEncoding = BinaryEncoding.HEX
    columns: dict[str, ColumnOverrideModel] = {}


class RegisterTable(Model):
    """A table's columns in file order, its key columns in key order, and its options.

    The columns are listed, or given as an Arrow schema in base64: raw flatbuffer or IPC schema message. A table
    that exists keeps its columns where neither is given, and each option that is left out.
    """

    columns: list[ColumnModel] | None = None
    arrow_schema: Annotated[bytes | None, Field(json_schema_extra={"contentEncoding": "base64"})] = None
    key_columns: list[str] = []
    options: OptionsModel | None = None


class SchemaModel(Model):
    table: str
    generation: int
    schema_version: int
    key_columns: list[str]
    columns: list[ColumnModel]


class BlockModel(Model):
    """A block of the metadata chain; `event.kind` is `Seed`, `SetDataSchema` or `AddData`."""

    sequence_number: int
    previous_hash: str | None
    hash: str
    system_time: datetime
    event: dict[str, Any]


class ChainModel(Model):
    """`next_start` is the `start` of the next page, null on the last."""

    table: str
    generation: int
    blocks: list[BlockModel]
    next_start: int | None


class LagModel(Model):
    """What is accepted but not yet published."""

    batches: int
    rows: int
    bytes: int
    oldest_seconds: float


class CountsModel(Model):
    batches: int
    changes: int
    rows: int


class PublishedModel(CountsModel):
    files: int


class ProcessedModel(Model):
    """What Fabric last said of the table, in its own words and numbers; null is what it did not say."""

    state: str | None
    error: str | None
    rows: int | None
    bytes: int | None
    last_sync: datetime | None
    read_at: datetime


class TableModel(Model):
    """A table's state and its reconciliation: accepted = staged always; = published when the lag is 0; = processed
    once Fabric has taken everything in. `processed` is null where Fabric's monitoring is not readable or does not
    list the table.
    """

    table: str
    generation: int
    state: TableState
    state_reason: str | None
    key_columns: list[str]
    schema_version: int
    options: OptionsModel
    lag: LagModel
    accepted: CountsModel
    staged: CountsModel
    published: PublishedModel
    processed: ProcessedModel | None
    last_sequence: int
    published_through: int
    last_file: str | None


class TablesModel(Model):
    tables: list[TableModel]


class FileModel(Model):
    """One line of the landing ledger. A seed file has no row and no batch: its last sequence is 0."""

    number: int
    name: str
    state: str
    first_sequence: int
    last_sequence: int
    rows: int
    changes: int
    schema_version: int
    digest: str
    bytes: int | None
    published_at: datetime | None


class FilesModel(Model):
    """`next_after` is the `after` of the next page, null on the last."""

    table: str
    generation: int
    files: list[FileModel]
    next_after: int | None


class RowImagesModel(Model):
    """How many rows have an image from which partial updates are completed."""

    table: str
    generation: int
    count: int


class BatchModel(Model):
    """Where a change batch is: `pending`, `planned` or `published`, and in which file; `discarded` where its
    generation ended before it was published. Counts and file are null once retention has purged them."""

    table: str
    generation: int
    sequence: int
    state: str
    changes: int | None
    rows: int | None
    file: str | None


TablePattern = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\x00-\x1f]+$")]


class CreateKey(Model):
    """Rights, and patterns of the tables they hold for (`*`, `sales.*`, `orders`)."""

    rights: Annotated[list[Right], Field(min_length=1)]
    tables: Annotated[list[TablePattern], Field(min_length=1)] = ["*"]
    expires_at: datetime | None = None


class KeyModel(Model):
    id: str
    rights: list[Right]
    tables: list[str]
    created_at: datetime
    expires_at: datetime | None


class CreatedKeyModel(Model):
    """A new key. `key` is shown this once."""

    id: str
    key: str
    rights: list[Right]
    tables: list[str]
    expires_at: datetime | None


class KeysModel(Model):
    keys: list[KeyModel]


class HealthModel(Model):
    status: str


class ReadinessModel(Model):
    """`parts` says of each part `ok` or what is wrong with it."""

    ready: bool
    parts: dict[str, str]


class ProblemItemModel(Model):
    """One thing wrong with one message of the request."""

    code: str
    detail: str
    index: int | None = None
    pointer: str | None = None
    column: str | None = None


class ProblemModel(Model):
    """RFC 9457 problem details; `code` is stable, `errors` holds the first 100 of `errors_total`."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    remedy: str
    errors: list[ProblemItemModel] | None = None
    errors_total: int | None = None
