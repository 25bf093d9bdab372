"""The columns of a mirrored table: the Delta type of each Parquet type, and how a table's columns grow.

Delta has no unsigned types, so those become the next larger signed type. A timestamp without a zone is read as UTC:
Delta's own type for it needs a table feature that many readers lack, and that deltalake adds only to new tables. All
columns of a mirrored table are nullable,
because MERGE with a new column damages tables that have others (deltalake 1.6). A column that its publisher declared
as required is marked in its field's metadata, so that a file without it stops the table, as in Fabric.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake import DeltaTable

from mirrorgate.errors import Code, InvariantBroken

REQUIRED: Final = "mirrorgate.required"

_SAME: Final = frozenset(
    {
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.date32(),
        pa.string(),
        pa.binary(),
    }
)
_CHANGED: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
_MAX_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a mirrored table."""

    name: str
    type: pa.DataType
    """The Arrow type that deltalake writes as the column's Delta type."""
    is_required: bool = False
    """True if the publisher declared the column as REQUIRED in the file that introduced it."""


def known_columns(table: DeltaTable) -> list[Column]:
    """Return the columns of a Delta table."""
    fields = table.schema().fields
    types = pa.schema(table.schema().to_arrow())
    return [
        Column(field.name, delta_type(types.field(field.name).type) or pa.null(), REQUIRED in field.metadata)
        for field in fields
    ]


def grown(known: Sequence[Column], path: str, schema: pa.Schema) -> list[Column]:
    """Return the columns of a table after a file with this schema (without marker), new ones last.

    Names match without regard to letter case. A column of Arrow's null type has no type yet and counts as absent.
    Raise InvariantBroken `schema_merge_failure` for a changed type or a missing required column, and
    `mirror_type_unsupported`.
    """
    by_name = {column.name.casefold(): column for column in known}
    found = {field.name.casefold() for field in schema}
    missing = [column.name for column in known if column.is_required and column.name.casefold() not in found]
    if missing:
        raise InvariantBroken(
            Code.SCHEMA_MERGE_FAILURE, f"{path}: SchemaMergeFailure: required column {missing[0]} is missing"
        )
    columns = list(known)
    for field in schema:
        if pa.types.is_null(field.type):
            continue
        column_type = delta_type(field.type)
        before = by_name.get(field.name.casefold())
        if column_type is None:
            raise InvariantBroken(Code.MIRROR_TYPE_UNSUPPORTED, f"{path}: column {field.name} has type {field.type}")
        if before is None:
            columns.append(Column(field.name, column_type, not field.nullable))
        elif before.type != column_type:
            raise InvariantBroken(
                Code.SCHEMA_MERGE_FAILURE,
                f"{path}: SchemaMergeFailure: column {before.name} has type {column_type} instead of {before.type}",
            )
    return columns


def delta_type(found: pa.DataType) -> pa.DataType | None:
    """Return the Arrow type of the Delta column for a landed type; None if there is none."""
    if pa.types.is_dictionary(found):
        return delta_type(found.value_type)
    if found in _SAME:
        return found
    if pa.types.is_timestamp(found):
        return pa.timestamp("us", "UTC")
    if pa.types.is_fixed_size_binary(found) and not pa.types.is_decimal(found):
        return pa.binary()
    if pa.types.is_decimal(found) and found.precision <= _MAX_DIGITS:
        return pa.decimal128(found.precision, found.scale)
    return _CHANGED.get(found)


def conform(rows: pa.Table, columns: Iterable[Column]) -> pa.Table:
    """Return rows with exactly these columns, in their order, NULL where the rows have none.

    Timestamps finer than a microsecond are cut, as Delta stores microseconds.
    """
    by_name = {name.casefold(): rows.column(position) for position, name in enumerate(rows.column_names)}
    arrays = []
    for column in columns:
        values = by_name.get(column.name.casefold())
        if values is None:
            arrays.append(pa.chunked_array([pa.nulls(rows.num_rows, column.type)]))
        else:
            arrays.append(_cast(values, column.type))
    return pa.table(arrays, schema=arrow_schema(columns))


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the schema that deltalake writes: all nullable, required columns marked."""
    marked = {REQUIRED: "true"}
    return pa.schema(
        [pa.field(column.name, column.type, metadata=marked if column.is_required else None) for column in columns]
    )


def _cast(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if values.type == wanted:
        return values
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return values.cast(wanted, safe=not pa.types.is_timestamp(wanted))
