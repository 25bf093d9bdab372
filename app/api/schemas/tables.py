"""Declarations of tables, and answers about their schemas, files and row images.

`read_options` and `declared_schema` turn a declaration into the options and the schema of the domain.
"""

import base64
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from app.api.schemas.common import Model
from app.domain.access.mask_secret import MaskSecret
from app.domain.arrow.schema_flatbuffer import columns_of, schema_from_bytes
from app.domain.model.names import check_column_name
from app.domain.model.projection.audit_columns import Deletes, History
from app.domain.model.projection.rejections import bad_option
from app.domain.model.projection.row_filter import Comparison
from app.domain.model.projection.transforms import MaskMethod
from app.domain.model.table_options import (
    BinaryEncoding,
    DeadLetters,
    IncompleteInserts,
    InitialLoad,
    InsertMarker,
    NewColumns,
    OutOfRange,
    PartialUpdates,
    Reload,
    RowImages,
    SourceOrder,
    TableOptions,
    TimestampUnit,
)
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.errors import Code, Problem, RejectedInput

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
    """A declared column."""

    name: str
    """The name of the column in messages."""

    type: Annotated[str, Field(examples=["int64", "decimal(12,2)", "timestamp"])]
    """A type of docs/tables.md."""

    nullable: bool = True
    """True if rows can have NULL in the column."""


class ColumnOverrideModel(Model):
    """Overrides what a registration or a metadata message declares for a column."""

    type: str | None = None
    """The type of the column."""

    nullable: bool | None = None
    """True if the column can be NULL."""

    encoding: BinaryEncoding | None = None
    """How strings encode the bytes of the column."""

    unit: TimestampUnit | None = None
    """What integers of the timestamp column count since 1970, in Debezium's events without a schema."""


def _no_default(schema: dict[str, Any]) -> None:
    """Leave the default out of the contract: it is that of a stored table, and a new table has another one."""
    schema.pop("default", None)


class AuditColumnsModel(Model):
    """The names of the columns that the gateway fills; a column without a name does not exist."""

    operation: str | None = None
    """What happened: insert, snapshot, update, delete or upsert."""

    source_timestamp: str | None = None
    """When the source made the change."""

    source_position: str | None = None
    """The position of the change in the source's log, as the message gives it."""

    accepted_at: str | None = None
    """When the gateway accepted the change."""

    row_order: str | None = None
    """A number that grows from row to row."""

    deleted: str | None = None
    """True for a row that the source deleted."""


class ConstantModel(Model):
    """A column with the same value in every row."""

    type: str
    """The type of the column."""

    value: str
    """The value as text."""


class MaskModel(Model):
    """How the values of a column are masked before they are stored."""

    method: MaskMethod
    """What lands: a keyed hash, the first characters, or NULL."""

    characters: int | None = None
    """How many characters `truncate` keeps."""

    group: str | None = None
    """The group in which `hash` gives equal texts equal hashes; without it, only within the table. A new group needs
    the right `register` for all tables."""


class ComparisonModel(Model):
    """A comparison of a column with literals."""

    column: str | None = None
    """The column that is compared, by its name in the source."""

    op: Comparison | None = None
    """How it is compared."""

    value: str | None = None
    """The literal as text."""

    values: list[str] | None = None
    """The literals of `in` and `not_in`."""


class ConditionModel(ComparisonModel):
    """A comparison, or comparisons of which all or any must be true."""

    all: list[ComparisonModel] | None = None
    """Comparisons that must all be true."""

    any: list[ComparisonModel] | None = None
    """Comparisons of which one must be true."""


class FilterModel(ComparisonModel):
    """A comparison, or conditions of which all or any must be true."""

    all: list[ConditionModel] | None = None
    """Conditions that must all be true."""

    any: list[ConditionModel] | None = None
    """Conditions of which one must be true."""


class OptionsModel(Model):
    """All options of a table. For an option left out, a new table has the default; an existing one keeps its value."""

    partial_updates: PartialUpdates = PartialUpdates.REJECT
    """What happens to updates that lack new values."""

    new_columns: NewColumns = NewColumns.REJECT
    """What happens to columns that the table does not have."""

    source_order: SourceOrder = SourceOrder.ARRIVAL
    """What identifies a duplicate change."""

    reload: Reload = Reload.REJECT
    """What happens to snapshot rows after other changes."""

    insert_marker: InsertMarker = InsertMarker.INSERT
    """The row marker of inserted rows."""

    initial_load: Annotated[InitialLoad, Field(json_schema_extra=_no_default)] = InitialLoad.WITH_MARKER
    """Whether the first files have row markers. A new table without key columns has `without_marker`."""

    seed_file: Annotated[bool, Field(json_schema_extra=_no_default)] = False
    """Publish a file without rows as file 1. A new table has `true`."""

    dead_letters: DeadLetters = DeadLetters.REJECT
    """Whether rejected messages can be kept as dead letters."""

    exclude: list[str] = []
    """Columns that are never staged."""

    sources: list[str] = []
    """Further source tables whose changes go to this table."""

    source_timezone: str = "UTC"
    """The time zone of times without a UTC offset."""

    binary_encoding: BinaryEncoding | None = None
    """How strings encode bytes; `hex` if it is null. Debezium's texts of bytes need it, or the column's `encoding`."""

    incomplete_inserts: IncompleteInserts = IncompleteInserts.LAND_NULL
    """Whether an insert that lacks a nullable column lands NULL there or is rejected."""

    out_of_range: OutOfRange = OutOfRange.REJECT
    """What happens to dates and timestamps outside the years 1 to 9999."""

    columns: dict[str, ColumnOverrideModel] = {}
    """Overrides for single columns, by name."""

    row_images: RowImages = RowImages.OFF
    """Whether the newest row of each key is kept, as `partial_updates=complete` does too."""

    audit_columns: AuditColumnsModel = AuditColumnsModel()
    """Columns of the files that say what the gateway knows of each change."""

    history: History = History.OFF
    """Whether the files append a row for every change. It can only be chosen when a table is created or recreated."""

    deletes: Deletes = Deletes.APPLY
    """Whether deleted rows leave the mirror, or stay in it and are true in the audit column `deleted`."""

    rename: dict[str, str] = {}
    """Names of columns in the files, by their names in the source."""

    constants: dict[str, ConstantModel] = {}
    """Columns with the same value in every row, by name."""

    masks: dict[str, MaskModel] = {}
    """Columns whose values are masked, by name in the source."""

    filter: FilterModel | None = None
    """Which rows are mirrored; without it, all are."""


class TableOptionsModel(OptionsModel):
    """All options of a table with their current values."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class RegisterTable(Model):
    """The columns of a table in file order, its key columns in key order, and its options.

    The columns are a list, or an Arrow schema in base64: a raw flatbuffer or an IPC schema message. An existing table
    keeps its columns if neither is given, and each option that is left out.
    """

    model_config = ConfigDict(json_schema_extra={"examples": _REGISTRATIONS})

    columns: list[ColumnModel] | None = None
    """The columns in file order."""

    arrow_schema: Annotated[bytes | None, Field(json_schema_extra={"contentEncoding": "base64"})] = None
    """The columns as an Arrow schema."""

    key_columns: list[str] = []
    """The key columns in key order. A table without keys accepts only inserts."""

    options: OptionsModel | None = None
    """The options of the table."""


class SchemaModel(Model):
    """The columns of a table's current schema version."""

    table: str
    generation: int
    schema_version: int
    key_columns: list[str]
    columns: list[ColumnModel]
    left_columns: list[str]
    """Columns that have left the source or are excluded: they stay in the table, and rows do not have their values."""


class BlockModel(Model):
    """A block of the metadata chain. `event.kind` is `Seed`, `SetDataSchema` or `AddData`."""

    sequence_number: int
    previous_hash: str | None
    hash: str
    system_time: datetime
    event: dict[str, Any]


class ChainModel(Model):
    """A page of the metadata chain. `next_start` is the `start` of the next page; null on the last page."""

    table: str
    generation: int
    blocks: list[BlockModel]
    next_start: int | None


class FileModel(Model):
    """One file of the landing ledger. A seed file has no rows and no batches; its last sequence is 0."""

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
    """A page of files. `next_after` is the `after` of the next page; null on the last page."""

    table: str
    generation: int
    files: list[FileModel]
    next_after: int | None


class RowImagesModel(Model):
    """How many rows have a row image."""

    table: str
    generation: int
    count: int


def given_options(wanted: RegisterTable) -> set[str] | None:
    """Return the names of the options in the request; None if it has none."""
    return None if wanted.options is None else set(wanted.options.model_fields_set)


def read_options(wanted: RegisterTable, mask_secret: MaskSecret | None) -> TableOptions | None:
    """Return the options of a request; None if it has none.

    Raises RejectedInput `bad_option`, also for a hash without the secret that it needs.
    """
    if wanted.options is None:
        return None
    options = TableOptions.parse(wanted.options.model_dump())
    for name, mask in options.masks.items() if mask_secret is None else ():
        if mask.method is MaskMethod.HASH:
            detail = "the gateway has no secret for hashes; set MIRRORGATE_MASK_SECRET for all API processes first"
            raise bad_option(detail, "masks", name, "method")
    return options


def declared_schema(wanted: RegisterTable) -> TableSchema | None:
    """Return the schema that is declared as a list of columns or as an Arrow schema; None if neither is given.

    Raises RejectedInput `bad_schema`, `bad_type`, `bad_name` or `reserved_name`.
    """
    columns = _declared_columns(wanted)
    return None if columns is None else TableSchema.declare(columns, tuple(wanted.key_columns))


def _declared_columns(wanted: RegisterTable) -> tuple[Column, ...] | None:
    if wanted.columns is not None and wanted.arrow_schema is not None:
        raise RejectedInput(Code.BAD_SCHEMA, "`columns` and `arrow_schema` cannot be combined")
    if wanted.columns is not None:
        return tuple(declared_columns(wanted.columns, wanted.key_columns))
    if wanted.arrow_schema is None:
        if wanted.key_columns:
            raise RejectedInput(Code.BAD_SCHEMA, "`key_columns` requires `columns` or `arrow_schema`")
        return None
    try:
        content = base64.b64decode(wanted.arrow_schema, validate=True)
    except ValueError as error:
        raise RejectedInput(Code.BAD_SCHEMA, "`arrow_schema` is not base64") from error
    return columns_of(schema_from_bytes(content))


def declared_columns(columns: Sequence[ColumnModel], key_columns: Sequence[str]) -> list[Column]:
    """Return the columns of a declaration. Raises RejectedInput `bad_type`, `bad_schema`, `bad_name`, `reserved_name`.

    Each problem has a JSON Pointer. The domain checks names and keys again, for columns that no body declares.
    """
    problems = [*_wrong_types(columns), *_wrong_names(columns), *_wrong_keys(columns, key_columns)]
    if problems:
        raise RejectedInput.of(tuple(problems))
    return [Column(column.name, ColumnType.parse(column.type), column.nullable) for column in columns]


def _wrong_types(columns: Sequence[ColumnModel]) -> Iterator[Problem]:
    for index, column in enumerate(columns):
        try:
            ColumnType.parse(column.type)
        except RejectedInput as error:
            yield Problem(error.code, error.detail, pointer=f"/columns/{index}/type", column=column.name)


def _wrong_names(columns: Sequence[ColumnModel]) -> Iterator[Problem]:
    earlier: set[str] = set()
    for index, column in enumerate(columns):
        pointer, folded = f"/columns/{index}/name", column.name.casefold()
        try:
            check_column_name(column.name)
        except RejectedInput as error:
            yield Problem(error.code, error.detail, pointer=pointer, column=column.name)
        if folded in earlier:
            detail = "another column has the same name (letter case does not count)"
            yield Problem(Code.BAD_SCHEMA, detail, pointer=pointer, column=column.name)
        earlier.add(folded)


def _wrong_keys(columns: Sequence[ColumnModel], key_columns: Sequence[str]) -> Iterator[Problem]:
    names = {column.name for column in columns}
    for index, key in enumerate(key_columns):
        pointer = f"/key_columns/{index}"
        if key not in names:
            yield Problem(Code.BAD_SCHEMA, f"key column {key!r} is not among the columns", pointer=pointer)
        elif key in key_columns[:index]:
            yield Problem(Code.BAD_SCHEMA, f"key column {key!r} is named twice", pointer=pointer)
