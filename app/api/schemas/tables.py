"""Tables as they are declared, their schemas, files and row images."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from app.api.schemas.common import Model
from app.domain.model.table_options import (
    BinaryEncoding,
    DeadLetters,
    DroppedColumns,
    IncompleteInserts,
    InitialLoad,
    InsertMarker,
    NewColumns,
    OutOfRange,
    PartialUpdates,
    Reload,
    SourceOrder,
)

_REGISTRATIONS: Final[list[Any]] = [
    {
        "key_columns": ["n_nationkey"],
        "columns": [
            {"name": "n_nationkey", "type": "int32", "nullable": False},
            {"name": "n_name", "type": "string"},
        ],
    },
    {"options": {"partial_updates": "complete"}},
]


class ColumnModel(Model):
    """A column as declared."""

    name: str
    """As messages write it."""

    type: Annotated[str, Field(examples=["int64", "decimal(12,2)", "timestamp"])]
    """One of the types of docs/tables.md."""

    nullable: bool = True
    """Whether rows may have NULL in it."""


class ColumnOverrideModel(Model):
    """What a column is, whatever a registration or a metadata message declares."""

    type: str | None = None
    """The type that it has instead."""

    nullable: bool | None = None
    """Whether it may be NULL."""

    encoding: BinaryEncoding | None = None
    """How text stands for its bytes."""


class OptionsModel(Model):
    """All options of a table; a new one has the defaults of those that are left out, an existing one keeps them."""

    partial_updates: PartialUpdates = PartialUpdates.REJECT
    """Updates that lack new values."""

    new_columns: NewColumns = NewColumns.REJECT
    """Columns that only a message knows."""

    source_order: SourceOrder = SourceOrder.ARRIVAL
    """What decides which change is a duplicate."""

    reload: Reload = Reload.REJECT
    """Snapshot rows after other changes."""

    insert_marker: InsertMarker = InsertMarker.INSERT
    """The row marker of inserted rows."""

    initial_load: InitialLoad = InitialLoad.WITH_MARKER
    """Whether the first files have row markers."""

    seed_file: bool = False
    """Publish a file without rows as file 1."""

    dead_letters: DeadLetters = DeadLetters.REJECT
    """Whether rejected messages may be kept."""

    dropped_columns: DroppedColumns = DroppedColumns.KEEP
    """Columns that leave the source."""

    exclude: list[str] = []
    """Columns that are never staged."""

    sources: list[str] = []
    """More source tables that are routed here."""

    source_timezone: str = "UTC"
    """The zone of times without an offset."""

    binary_encoding: BinaryEncoding = BinaryEncoding.HEX
    """How text stands for bytes."""

    incomplete_inserts: IncompleteInserts = IncompleteInserts.LAND_NULL
    """Whether an insert that lacks a nullable column lands NULL there or is rejected."""

    out_of_range: OutOfRange = OutOfRange.REJECT
    """Dates and timestamps beyond the years 1 to 9999."""

    columns: dict[str, ColumnOverrideModel] = {}
    """What single columns are, by name."""


class TableOptionsModel(OptionsModel):
    """All options of a table as they are."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class RegisterTable(Model):
    """A table's columns in file order, its key columns in key order, and its options.

    The columns are listed, or given as an Arrow schema in base64: raw flatbuffer or IPC schema message. A table
    that exists keeps its columns where neither is given, and each option that is left out.
    """

    model_config = ConfigDict(json_schema_extra={"examples": _REGISTRATIONS})

    columns: list[ColumnModel] | None = None
    """In file order."""

    arrow_schema: Annotated[bytes | None, Field(json_schema_extra={"contentEncoding": "base64"})] = None
    """The columns as an Arrow schema."""

    key_columns: list[str] = []
    """In key order; a table without keys takes only inserts."""

    options: OptionsModel | None = None
    """What the table does with messages that leave a choice."""


class SchemaModel(Model):
    """The columns of a table's current schema version."""

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


class FileModel(Model):
    """One line of the landing ledger. A seed file has no row and no batch: its last sequence is 0."""

    number: int
    name: str
    state: Literal["planned", "published"]
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
