"""Tables as they are declared, their schemas, files and row images."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from app.api.models import Model
from app.domain.table_options import (
    BinaryEncoding,
    DeadLetters,
    DroppedColumns,
    InitialLoad,
    InsertMarker,
    NewColumns,
    PartialUpdates,
    Reload,
    SourceOrder,
)


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
    dead_letters: DeadLetters = DeadLetters.REFUSE
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
