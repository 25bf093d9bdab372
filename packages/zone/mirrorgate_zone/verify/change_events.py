"""The rows of a file as change events: row number, marker, hash of the key, and what is wrong with the row alone.

`ChangeEvents` numbers rows within the file, from 1. A row without a usable marker or key has no hash, so nothing is
concluded from it. Invariants: equal hashes of keys mean equal keys (128 bits of MD5); one pass over the file, in chunks
of `MAX_CHUNK_ROWS` rows.

`comparable` casts Arrow columns to one type per kind of value, and `key_hash` and `row_hash` are SQL expressions that
hash the text of the values. Two rows, or two keys, are the same if their values are, whatever types carry them: a
landing file and a Delta table can have one value as a timestamp in milliseconds or microseconds, a decimal of another
scale, a number of another width. A missing column and NULL give one hash, because a column that is added later is NULL
in the rows before.

`connect` gives all checks of a process one DuckDB database in memory.
"""

import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from app.domain.model.names import ROW_MARKER
from app.published.data_file import MARKERS
from app.published.table_metadata import TableMetadata
from mirrorgate_zone.verify.codes import FindingCode

MAX_MEMORY: Final = "1GB"
"""Memory of the database. Arrow's memory for the rows of one chunk is beside it."""

_CHUNK: Final = "chunk"
_numbers = itertools.count(1)


def connect() -> duckdb.DuckDBPyConnection:
    """Return a connection to the database. Tables that it creates need a name from `unique_name`.

    A table of a landing zone can have more keys than fit in memory. DuckDB moves what exceeds its memory limit to a
    temporary folder, which it deletes when the process ends. One database with a connection per table keeps the limit
    for all tables together, and the number of its threads.
    """
    return _database().cursor()


def unique_name(purpose: str) -> str:
    """Return a table name that no other connection of this process uses."""
    return f"{purpose}_{next(_numbers)}"


@contextmanager
def temporary_connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection that is closed at the end of the block."""
    connection = connect()
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def registered(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> Iterator[str]:
    """Make Arrow rows a table of the connection within the block, and yield its name. Fetch results inside."""
    connection.register(_CHUNK, rows)
    try:
        yield _CHUNK
    finally:
        connection.unregister(_CHUNK)


@cache
def _database() -> duckdb.DuckDBPyConnection:
    spill = Path(tempfile.gettempdir(), f"mirrorgate-verify-{os.getpid()}")
    return duckdb.connect(
        config={
            "memory_limit": MAX_MEMORY,
            "threads": os.cpu_count() or 1,
            "temp_directory": str(spill),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )


_KINDS: Final[Mapping[str, Callable[[pa.DataType], bool]]] = {
    "whole or decimal numbers": lambda found: pt.is_integer(found) or pt.is_decimal(found),
    "floating-point numbers": pt.is_floating,
    "text": lambda found: pt.is_string(found) or pt.is_large_string(found) or pt.is_string_view(found),
    "bytes": lambda found: (
        pt.is_binary(found) or pt.is_large_binary(found) or pt.is_fixed_size_binary(found) or pt.is_binary_view(found)
    ),
    "truth values": pt.is_boolean,
    "dates": pt.is_date,
    "times of day": pt.is_time,
    "timestamps": pt.is_timestamp,
}


def comparable(rows: pa.Table) -> pa.Table:
    """Cast the columns to types that DuckDB reads and whose strings are equal for equal values."""
    return pa.table(
        {name: _cast(column) for name, column in zip(rows.column_names, rows.columns, strict=True)},
    )


def _cast(column: pa.ChunkedArray) -> pa.ChunkedArray:
    target = _comparable_type(column.type)
    return column if target == column.type else column.cast(target, safe=False)


def _comparable_type(found: pa.DataType) -> pa.DataType:
    if pt.is_timestamp(found):
        return pa.timestamp("us")  # of a zoned timestamp, the instant in UTC
    if pt.is_time(found):
        return pa.time64("us")
    if pt.is_date(found):
        return pa.date32()
    if pt.is_floating(found):
        return pa.float64()
    if pt.is_dictionary(found):
        return _comparable_type(found.value_type)
    if pt.is_decimal256(found) or pt.is_null(found):
        return pa.string()
    if pt.is_duration(found):
        return pa.int64()
    return found


def kind_of(found: pa.DataType) -> str:
    """Return what kind of value a type holds. Values of one kind are compared, whatever their types are."""
    found = _comparable_type(found)
    for kind, test in _KINDS.items():
        if test(found):
            return kind
    return str(found)


def key_hash(schema: pa.Schema, keys: Sequence[str]) -> str:
    """Return SQL for the hash of a key, a UHUGEINT; NULL is a value like any other here."""
    return f"md5_number({' || '.join(_delimited(_key_text(schema, key)) for key in keys)})"


def _key_text(schema: pa.Schema, key: str) -> str:
    """Return SQL for the text of a key column: 0.0 and -0.0 are the same key."""
    text = text_of(schema, key)
    return f"CASE WHEN {quoted(key)} = 0 THEN '0.0' ELSE {text} END" if pt.is_floating(schema.field(key).type) else text


def row_hash(schema: pa.Schema, columns: Iterable[str]) -> str:
    """Return SQL for the hash of a row, a HUGEINT. The order of the columns and columns of NULL do not matter."""
    return _sum_of([_value_hash(schema, name) for name in columns] or ["0::HUGEINT"])


def _sum_of(terms: Sequence[str]) -> str:
    """Return SQL for a sum, nested as a balanced tree: DuckDB parses no expression that is 1,000 levels deep."""
    middle = len(terms) // 2
    return f"({_sum_of(terms[:middle])} + {_sum_of(terms[middle:])})" if middle else terms[0]


def _value_hash(schema: pa.Schema, name: str) -> str:
    """Return SQL for the hash of a column's name and value, 0 for NULL. DuckDB's `hash` of NULL is a number."""
    labeled = f"{quoted_text(name.casefold() + '=')} || {text_of(schema, name)}"
    return f"CASE WHEN {quoted(name)} IS NULL THEN 0 ELSE hash({labeled}) END::HUGEINT"


def text_of(schema: pa.Schema, name: str) -> str:
    """Return SQL for the text of a comparable column, which is NULL for NULL."""
    column = quoted(name)
    found = schema.field(name).type
    if pt.is_decimal(found) and found.scale > 0:
        return f"rtrim(rtrim({column}::VARCHAR, '0'), '.')"
    return f"{column}::VARCHAR"


def any_null(keys: Iterable[str]) -> str:
    """Return SQL that is true if a key has NULL in a column."""
    return " OR ".join(f"{quoted(key)} IS NULL" for key in keys) or "FALSE"


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _delimited(text: str) -> str:
    """Return SQL for a string with its length, so that neighbors cannot be confused: ('a', 'bc') is not ('ab', 'c')."""
    return f"coalesce(length({text}) || ':' || {text}, '-')"


_INSERT: Final = 0
_UPSERT: Final = 4
_MIN_VALUE_COLUMNS: Final = 2
"""Columns beside the key from which a row of NULLs is suspicious. A single column can be NULL for good reasons."""

POSITION: Final = "__mirrorgate_position__"
EFFECT: Final = "__mirrorgate_effect__"
_STATED: Final = "__mirrorgate_stated__"
"""Columns beside those of a file, which can have any name but these."""

CREATE_EVENTS: Final = """
CREATE TEMP TABLE {events} (file INTEGER, row BIGINT, marker TINYINT, key UHUGEINT, fault VARCHAR)
"""


@dataclass(frozen=True, slots=True)
class ChangeEvents:
    """The table of a DuckDB connection that collects the events of files which are not judged yet."""

    connection: duckdb.DuckDBPyConnection
    name: str

    def create(self) -> None:
        """Create the table, empty."""
        self.connection.execute(CREATE_EVENTS.format(events=self.name))

    def add(self, file: int, chunks: Iterator[pa.Table], metadata: TableMetadata, *, follows: bool) -> int:
        """Add the rows of a file, without key hashes unless it follows the files before. Return their count.

        Raise what reading a chunk raises, and duckdb.Error for values that DuckDB cannot read.
        """
        position = 0
        for chunk in chunks:
            if chunk.num_rows:
                self._add_chunk(file, position, chunk, metadata, follows)
            position += chunk.num_rows
        return position

    def remove(self, file: int) -> None:
        """Forget the rows of a file."""
        self.connection.execute(f"DELETE FROM {self.name} WHERE file = {file}")  # noqa: S608  # a name of ours

    def clear(self) -> None:
        """Forget all events."""
        self.connection.execute(f"DELETE FROM {self.name}")  # noqa: S608  # a name of ours

    def _add_chunk(self, file: int, position: int, chunk: pa.Table, metadata: TableMetadata, follows: bool) -> None:
        columns, markers, stated = split_effects(chunk, metadata)
        if not columns.num_columns:
            return
        rows = comparable(columns)
        keys = columns_named(rows, metadata.key_columns)
        numbers = pa.array(range(position + 1, position + 1 + rows.num_rows), pa.int64())
        rows = rows.append_column(POSITION, numbers).append_column(EFFECT, markers).append_column(_STATED, stated)
        key = f"CASE WHEN {any_null(keys)} THEN NULL ELSE {key_hash(rows.schema, keys)} END"
        if not keys or not follows:
            key = "NULL::UHUGEINT"
        fault = _fault(columns, keys, metadata)
        with registered(self.connection, rows) as source:
            self.connection.execute(
                f"INSERT INTO {self.name} SELECT * FROM ("  # noqa: S608  # quoted names and constants
                f"SELECT {file} AS file, {POSITION} AS row, {EFFECT} AS marker, {key} AS key, {fault} AS fault "
                f"FROM {source}) WHERE key IS NOT NULL OR fault IS NOT NULL"
            )


def split_effects(chunk: pa.Table, metadata: TableMetadata) -> tuple[pa.Table, pa.ChunkedArray, pa.ChunkedArray]:
    """Return the columns without the marker, the effective markers (int8), and the stated ones (int64).

    An effective marker is NULL if the stated one is unusable. A row of a file without a marker column is an insert, or
    an upsert by the metadata's default.
    """
    default = _UPSERT if metadata.upsert_by_default else _INSERT
    position = _index(chunk, ROW_MARKER)
    if position is None:
        constant = pa.chunked_array([pa.repeat(pa.scalar(default, pa.int8()), chunk.num_rows)])
        return chunk, constant, constant.cast(pa.int64())
    stated = _whole_numbers(chunk.column(position))
    usable = pc.is_in(stated, value_set=pa.array(MARKERS, pa.int64()))
    effects = pc.if_else(usable, stated, pa.scalar(None, pa.int64())).cast(pa.int8())
    return chunk.remove_column(position), effects, stated


def columns_named(rows: pa.Table, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns with these names in the file's letter case; empty if one is missing."""
    found = [_index(rows, name) for name in names]
    return tuple(rows.column_names[index] for index in found if index is not None) if None not in found else ()


def _index(rows: pa.Table, name: str) -> int | None:
    """Return the position of a column, without regard to letter case."""
    folded = [column.casefold() for column in rows.column_names]
    return folded.index(name.casefold()) if name.casefold() in folded else None


def _whole_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return markers as int64; -1 for all that are not NULL if one is not a whole number."""
    try:
        return column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pc.if_else(pc.is_null(column), pa.scalar(None, pa.int64()), pa.scalar(-1, pa.int64()))


def _fault(columns: pa.Table, keys: tuple[str, ...], metadata: TableMetadata) -> str:
    """Return SQL for the code of what is wrong with a row alone, NULL for nothing."""
    cases = [
        (FindingCode.MARKER_NULL, f"{_STATED} IS NULL"),
        (FindingCode.MARKER_UNKNOWN, f"{EFFECT} IS NULL"),
    ]
    if not metadata.key_columns:
        cases.append((FindingCode.MARKER_WITHOUT_KEYS, f"{EFFECT} <> {_INSERT}"))
    elif keys:
        cases.append((FindingCode.KEY_NULL, any_null(keys)))
        values = [quoted(name) for name in columns.column_names if name not in keys]
        if len(values) >= _MIN_VALUE_COLUMNS:
            empty = " AND ".join(f"{name} IS NULL" for name in values)
            cases.append((FindingCode.UPDATE_WITHOUT_VALUES, f"{EFFECT} IN (1, 4) AND {empty}"))
    return "CASE " + " ".join(f"WHEN {test} THEN {quoted_text(code)}" for code, test in cases) + " END"
