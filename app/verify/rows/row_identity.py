"""What makes two rows, or two keys, the same: their values, whatever types carry them.

A landing file and a Delta table can carry one value in two types: a timestamp in milliseconds or microseconds, a
decimal of another scale, a number of another width. `comparable` casts Arrow columns to one type per kind of value,
and the SQL expressions hash the text of the values. A missing column and NULL give one hash, because a column that is
added later is NULL in the rows before. Invariant: equal hashes of keys mean equal keys (128 bits of MD5).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

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
    """Cast the columns to types that DuckDB reads and whose texts are equal for equal values."""
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
    return f"md5_number({' || '.join(_delimited(text_of(schema, key)) for key in keys)})"


def row_hash(schema: pa.Schema, columns: Iterable[str]) -> str:
    """Return SQL for the hash of a row, a HUGEINT. The order of the columns and columns of NULL do not matter."""
    return " + ".join(_value_hash(schema, name) for name in columns) or "0::HUGEINT"


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
    """Return SQL that tells whether a key has NULL in a column."""
    return " OR ".join(f"{quoted(key)} IS NULL" for key in keys) or "FALSE"


def quoted(name: str) -> str:
    """Return a name as a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def _delimited(text: str) -> str:
    """Return SQL for a text with its length, so that neighbors cannot be confused: ('a', 'bc') is not ('ab', 'c')."""
    return f"coalesce(length({text}) || ':' || {text}, '-')"
