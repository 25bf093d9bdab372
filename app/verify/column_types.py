"""The type that a column of a data file gets in a Delta table.

Fabric compares a table's types with those of each file. Several types of Arrow and Parquet are one type in Delta, such
as timestamps in milliseconds and microseconds, so that only a change of the Delta type stops a table.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

_NAMES: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.uint8(): "short",
    pa.int32(): "integer",
    pa.uint16(): "integer",
    pa.int64(): "long",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date32(): "date",
    pa.date64(): "date",
}
MAX_DECIMAL_DIGITS: Final = 38


def delta_type(found: pa.DataType) -> str | None:
    """Return the name of the Delta type of an Arrow type, None if Delta has none for it."""
    if pa.types.is_dictionary(found):
        return delta_type(found.value_type)
    if pa.types.is_decimal(found):
        return f"decimal({found.precision},{found.scale})" if found.precision <= MAX_DECIMAL_DIGITS else None
    if pa.types.is_timestamp(found):
        return "timestamp_ntz" if found.tz is None else "timestamp"
    if pa.types.is_time(found) or pa.types.is_duration(found):
        return "long"
    return "binary" if pa.types.is_fixed_size_binary(found) else _NAMES.get(found)


def is_doubtful(found: pa.DataType) -> bool:
    """Return whether readers differ in what they make of a type."""
    nanoseconds = pa.types.is_timestamp(found) and found.unit == "ns"
    return nanoseconds or pa.types.is_time(found) or found in (pa.float16(), pa.uint64())
