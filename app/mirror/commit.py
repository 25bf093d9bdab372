"""The effect of landing files on a Delta table, and the commit of it in one version.

`fold` finds the effect: which keys lose their rows, and which rows are appended.

`commit_effect` commits it by one MERGE, whose source holds the deleted keys, which match, and the new rows, which do
not. A process that dies inside leaves the former version, and data files that no version names until VACUUM deletes
them.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, WriterProperties, write_deltalake

from app.landing.parquet_file import ROW_GROUP_ROWS
from app.mirror.target import Position, quoted
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
class MirrorColumn:
    """A column of a mirrored table."""

    name: str
    type: pa.DataType
    """The Arrow type that deltalake writes as the column's Delta type."""
    is_required: bool = False
    """True if the publisher declared the column as REQUIRED in the file that introduced it."""


def known_columns(table: DeltaTable) -> list[MirrorColumn]:
    """Return the columns of a Delta table."""
    fields = table.schema().fields
    types = pa.schema(table.schema().to_arrow())
    return [
        MirrorColumn(field.name, delta_type(types.field(field.name).type) or pa.null(), REQUIRED in field.metadata)
        for field in fields
    ]


def grown(known: Sequence[MirrorColumn], path: str, schema: pa.Schema) -> list[MirrorColumn]:
    """Return the columns of a table after a file with this schema (without marker), new ones last.

    Names match without regard to letter case. A column of Arrow's null type has no type yet and counts as absent.
    Raise InvariantBroken `schema_merge_failure` for a changed type or a missing required column,
    `mirror_type_unsupported`, and `landing_file_unreadable` for a table without columns.
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
            columns.append(MirrorColumn(field.name, column_type, not field.nullable))
        elif before.type != column_type:
            raise InvariantBroken(
                Code.SCHEMA_MERGE_FAILURE,
                f"{path}: SchemaMergeFailure: column {before.name} has type {column_type} instead of {before.type}",
            )
    if not columns:
        raise InvariantBroken(Code.LANDING_FILE_UNREADABLE, f"{path}: it has no column besides the row marker")
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


def conform(rows: pa.Table, columns: Iterable[MirrorColumn]) -> pa.Table:
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


def arrow_schema(columns: Iterable[MirrorColumn]) -> pa.Schema:
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


INSERT: Final = 0
UPDATE: Final = 1
DELETE: Final = 2
UPSERT: Final = 4

_OF_THREAD: Final = threading.local()


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of some files on a table."""

    deleted_keys: pa.Table | None
    """The key columns of each key whose present rows go, each key once; None if there is none."""
    rows: pa.Table
    """The rows that are appended afterwards, in order."""


def fold(rows: pa.Table, markers: pa.ChunkedArray, key_columns: Sequence[str]) -> Effect:
    """Reduce rows with their markers (int32, no NULL) to their effect.

    A key with a NULL equals no other, as in SQL: its update is an insert, its delete does nothing. Raise
    InvariantBroken `mirror_key_missing` for markers other than 0 without key columns.

    Rows are applied in order (Microsoft's *Landing zone requirements and formats*): marker 0 appends, also when the key
    exists; 1 and 4 replace the rows of the key; 2 deletes them. Per key, only the last replacement or deletion and the
    appends after it remain. DuckDB finds them with one window over keys, markers and positions, so no row passes
    Python.
    """
    if not pc.any(pc.not_equal(markers, INSERT)).as_py():
        return Effect(None, rows)
    if not key_columns:
        raise InvariantBroken(
            Code.MIRROR_KEY_MISSING, "updates, deletes and upserts are in files of a table without key columns"
        )
    found = _decide(rows.select(list(key_columns)), markers)
    deleted = rows.select(list(key_columns)).filter(found.column("is_last"))
    return Effect(deleted if deleted.num_rows else None, rows.filter(found.column("stays")))


def _decide(keys: pa.Table, markers: pa.ChunkedArray) -> pa.Table:
    """Return two bool columns, a value per row: whether it is its key's last change, and whether it remains."""
    names = [f"k{number}" for number in range(keys.num_columns)]
    columns = [*keys.columns, markers, pa.array(range(keys.num_rows), pa.int64())]
    changes = pa.table(columns, names=[*names, "marker", "position"])
    is_null = " OR ".join(f"{name} IS NULL" for name in names)
    query = f"""
        WITH ranked AS (
            SELECT position, marker, {is_null} AS keyless,
                max(position) FILTER (marker <> {INSERT}) OVER (
                    PARTITION BY {", ".join(names)}, CASE WHEN {is_null} THEN position END
                ) AS last
            FROM changes
        )
        SELECT coalesce(position = last AND NOT keyless, false) AS is_last,
            last IS NULL OR position > last OR (position = last AND marker <> {DELETE}) AS stays
        FROM ranked ORDER BY position
    """  # noqa: S608  # names and numbers of this module
    connection = _connection()
    connection.register("changes", changes)
    try:
        found: pa.Table = connection.sql(query).to_arrow_table()
    finally:
        connection.unregister("changes")
    return found


def _connection() -> duckdb.DuckDBPyConnection:
    """Return this thread's DuckDB: opening one takes 20 ms, ten times as long as a small query."""
    if not hasattr(_OF_THREAD, "connection"):
        _OF_THREAD.connection = duckdb.connect()
    found: duckdb.DuckDBPyConnection = _OF_THREAD.connection
    return found


CHECKPOINT_COMMITS: Final = 25
"""Commits between two checkpoints. deltalake's default is 100: opening a table then starts a thread for each of up to
100 entries of the log, and a worker under steady load keeps them (70 instead of 29). With Delta's default of 10, a
table of many small files would write gigabytes of checkpoints a day."""

_KEY: Final = "__mirrorgate_key_"


@cache
def delta_writer(row_group_rows: int) -> WriterProperties:
    """Return how data files are written."""
    return WriterProperties(compression="ZSTD", max_row_group_size=row_group_rows)


def create_table(
    uri: str,
    rows: pa.Table,
    position: Position,
    facts: Mapping[str, str],
    options: dict[str, str] | None,
    *,
    replaces: bool = False,
    row_group_rows: int = ROW_GROUP_ROWS,
) -> DeltaTable:
    """Create a Delta table with its first rows. Raise deltalake's DeltaError if one is there.

    With `replaces`, its content becomes the rows of a new generation instead. Raise CommitFailedError if another mirror
    created the table meanwhile.
    """
    write_deltalake(
        uri,
        rows,
        mode="overwrite" if replaces else "error",
        schema_mode="overwrite" if replaces else None,
        configuration={"delta.checkpointInterval": str(CHECKPOINT_COMMITS)},
        storage_options=options,
        writer_properties=delta_writer(row_group_rows),
        commit_properties=_properties(position, facts),
    )
    return DeltaTable(uri, storage_options=options)


def commit_effect(
    table: DeltaTable,
    effect: Effect,
    columns: Sequence[MirrorColumn],
    position: Position,
    facts: Mapping[str, str],
    row_group_rows: int = ROW_GROUP_ROWS,
) -> None:
    """Apply an effect with `columns` as the table's columns, and move its position.

    Raise deltalake's CommitFailedError if another commit got in between, of the mirror or of OPTIMIZE.
    """
    grows = len(columns) > len(known_columns(table))
    version, writer = table.version(), delta_writer(row_group_rows)
    if effect.deleted_keys is not None:
        _merge(table, effect.deleted_keys, effect.rows, _properties(position, facts), writer, grows=grows)
    if table.version() == version:  # a MERGE that changes no row commits nothing
        write_deltalake(
            table,
            effect.rows,
            mode="append",
            schema_mode="merge" if grows else None,
            writer_properties=writer,
            commit_properties=_properties(position, facts),
        )


def _merge(
    table: DeltaTable,
    deleted_keys: pa.Table,
    rows: pa.Table,
    properties: CommitProperties,
    writer: WriterProperties,
    *,
    grows: bool,
) -> None:
    """Delete keys and append rows by one MERGE.

    The keys are separate columns in the source, NULL in new rows, so that the condition is a plain equality: only
    then deltalake skips the files whose statistics exclude the keys (0.6 instead of 3.3 s for 1,000 of 10 M rows).
    """
    keys = {f"{_KEY}{number}": name for number, name in enumerate(deleted_keys.column_names)}
    source = pa.concat_tables([deleted_keys.rename_columns(list(keys)), rows], promote_options="default")
    merger = table.merge(
        source,
        " AND ".join(f"target.{quoted(name)} = source.{key}" for key, name in keys.items()),
        source_alias="source",
        target_alias="target",
        merge_schema=grows,
        streamed_exec=_has_inexact_statistics(deleted_keys.schema),  # a streamed source has no key range
        writer_properties=writer,
        commit_properties=properties,
    )
    inserted = {quoted(name): f"source.{quoted(name)}" for name in rows.column_names}
    merger.when_matched_delete().when_not_matched_insert(inserted, predicate=f"source.{_KEY}0 IS NULL").execute()


def _has_inexact_statistics(keys: pa.Schema) -> bool:
    """Return whether file statistics of a key can exclude values that the file has.

    deltalake 1.6 writes the smallest and largest decimal of a file as a double, which has 53 bits, and counts no NaN.
    """
    return any(pa.types.is_decimal(field.type) or pa.types.is_floating(field.type) for field in keys)


def _properties(position: Position, facts: Mapping[str, str]) -> CommitProperties:
    """Return the properties of a commit. A retry could follow an append of another program, or of a mirror."""
    return CommitProperties(dict(facts), max_commit_retries=0, app_transactions=position.transactions())
