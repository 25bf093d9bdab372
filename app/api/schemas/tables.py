"""Declarations of tables, and answers about their schemas and files.

`read_options` and `declared_schema` turn a declaration into the options and the schema of the domain.
"""

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, model_validator

from app.api.schemas.common import Model, TableAnswer
from app.domain.access.mask_secret import MaskSecret
from app.domain.arrow import columns_of, schema_from_bytes
from app.domain.model.names import check_column_name
from app.domain.model.projection import MaskMethod, bad_option
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from mirrorgate.errors import Code, Problem, RejectedInput

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
    """A type, such as `int64`, `decimal(12,2)`, `timestamp` or `string`."""

    nullable: bool = True
    """True if rows can have NULL in the column."""


class RegisterTable(Model):
    """The columns of a table in file order, its key columns in key order, and its options.

    The columns are a list, or an Arrow schema in base64: a raw flatbuffer or an IPC schema message. An existing table
    keeps its columns if neither is given, and each option that is left out.
    """

    model_config = ConfigDict(json_schema_extra={"examples": _REGISTRATIONS})

    columns: list[ColumnModel] | None = None
    """The columns in file order."""

    arrow_schema: Annotated[bytes | None, Field(json_schema_extra={"contentEncoding": "base64"})] = None
    """The columns as an Arrow schema: the raw flatbuffer, or the IPC message of `schema.serialize()` in PyArrow. A
    column gets the narrowest type that holds all values of its Arrow type; `uint64` and decimals of more than 38 digits
    have none (`bad_type`)."""

    key_columns: list[str] = []
    """The key columns in key order. A table without keys accepts only inserts."""

    options: TableOptions | None = None
    """The options of the table."""

    _given: frozenset[str] | None = None

    @property
    def given_options(self) -> frozenset[str] | None:
        """The names of the options in the request; None if it has none."""
        return self._given

    @model_validator(mode="wrap")
    @classmethod
    def _note_given(cls, declared: Any, validate: ModelWrapValidatorHandler[Self]) -> Self:
        model = validate(declared)
        if model.options is not None:
            model._given = frozenset(declared["options"])
        return model


class SchemaModel(TableAnswer):
    """The columns of a table's current schema version."""

    schema_version: int
    """The number of the schema version, from 1."""

    key_columns: list[str]
    """The key columns in key order."""

    columns: list[ColumnModel]
    """The columns in file order."""

    left_columns: list[str]
    """Columns that have left the source or are excluded: they remain in the table, and rows have no value in them."""


class BlockModel(Model):
    """A block of the metadata chain. `event.kind` is `Seed`, `SetDataSchema` or `AddData`."""

    sequence_number: int
    """The number of the block, from 0."""

    previous_hash: str | None
    """The hash of the block before; null for the first."""

    hash: str
    """The hash of the block."""

    system_time: datetime
    """Time at which the block was written."""

    event: dict[str, Any]
    """Event that the block records; `kind` is `Seed`, `SetDataSchema` or `AddData`."""

    columns: list[ColumnModel] | None = None
    """The columns of the files from a `SetDataSchema` on, without the row marker; null for other events."""
    changes: list[str] | None = None
    """Changes by a `SetDataSchema`, in words; null for other events."""


class ChainModel(TableAnswer):
    """A page of the metadata chain. `next_start` is the `start` of the next page; null on the last page."""

    blocks: list[BlockModel]
    """The blocks, by number."""

    next_start: int | None
    """The `start` of the next page; null on the last page."""


class FileModel(Model):
    """One file of the landing ledger. A seed file has no rows and no batches; its last sequence is 0."""

    number: int
    """The number of the file in its generation."""

    name: str
    """The name of the file in the landing folder."""

    state: Literal["planned", "published"]
    """`planned`: being built. `published`: in the landing zone."""

    first_sequence: int
    """The first batch in the file."""

    last_sequence: int
    """The last batch in the file; 0 for a seed file."""

    rows: int
    """Number of rows that the file has."""

    changes: int
    """Number of changes that became these rows."""

    schema_version: int
    """The schema version of its rows."""

    digest: str
    """SHA-256 over the digests of its payloads, in order."""

    bytes: int | None
    """The size of the file; null before it is built."""

    published_at: datetime | None
    """Time at which it was published; null before that."""


class FilesModel(TableAnswer):
    """A page of files. `next_after` is the `after` of the next page; null on the last page."""

    files: list[FileModel]
    """The files, by number."""

    next_after: int | None
    """The `after` of the next page; null on the last page."""


@contextmanager
def pointing_at(wanted: RegisterTable) -> Iterator[None]:
    """Give the problems of the columns and the key that a request declares their place in it."""
    places = {column.name: f"/columns/{index}" for index, column in enumerate(wanted.columns or ())}

    def placed(problem: Problem) -> Problem:
        is_about_key = problem.code is Code.INCOMPATIBLE_SCHEMA and problem.column is None
        place = "/key_columns" if is_about_key else places.get(problem.column or "")
        if place and problem.code is Code.BAD_NAME:
            place += "/name"
        return replace(problem, pointer=problem.pointer or place)

    try:
        yield
    except RejectedInput as error:
        error.problems = tuple(map(placed, error.problems))
        raise


def read_options(wanted: RegisterTable, mask_secret: MaskSecret | None) -> TableOptions | None:
    """Return the options of a request; None if it has none.

    Raises RejectedInput `bad_option`, also for a hash without the secret that it needs.
    """
    if wanted.options is None:
        return None
    options = TableOptions.parse(wanted.options.to_json())
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
