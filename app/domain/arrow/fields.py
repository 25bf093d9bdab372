"""Reads the fields of an Arrow schema from outside, without PyArrow's reader, from an allow-list of types.

A type is allowed if its arrays are flat, own their bytes, and can be validated in full before they are used. Views,
dictionaries and nested types are not; an extension type is read as its storage type (docs/decisions/0021).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from app.domain.arrow.flatbuffer import Damaged, FlatTable

MAX_FIELDS: Final = 16_384
MAX_FIELD_NAME_BYTES: Final = 1_024
MAX_ZONE_BYTES: Final = 256

_LITTLE_ENDIAN: Final = 0
_SCHEMA_ENDIANNESS, _SCHEMA_FIELDS = range(2)
_NAME, _NULLABLE, _TYPE_KIND, _TYPE, _DICTIONARY, _CHILDREN = range(6)

_INTEGERS: Final = {
    (8, 1): pa.int8(),
    (16, 1): pa.int16(),
    (32, 1): pa.int32(),
    (64, 1): pa.int64(),
    (8, 0): pa.uint8(),
    (16, 0): pa.uint16(),
    (32, 0): pa.uint32(),
    (64, 0): pa.uint64(),
}
_FLOATS: Final = (pa.float16(), pa.float32(), pa.float64())
_DATES: Final = (pa.date32(), pa.date64())
_DATE64: Final = 1
_DECIMALS: Final[Mapping[int, tuple[Callable[[int, int], pa.DataType], int]]] = {
    32: (pa.decimal32, 9),
    64: (pa.decimal64, 18),
    128: (pa.decimal128, 38),
    256: (pa.decimal256, 76),
}
_DECIMAL128: Final = 128
_TIME_UNITS: Final = ("s", "ms", "us", "ns")
_MAX_FIXED_BYTES: Final = 2**20
_UNREADABLE: Final = {
    9: "time",
    11: "interval",
    12: "list",
    13: "struct",
    14: "union",
    16: "fixed_size_list",
    17: "map",
    18: "duration",
    21: "large_list",
    22: "run_end_encoded",
    23: "binary_view",
    24: "string_view",
    25: "list_view",
    26: "large_list_view",
}


@dataclass(frozen=True, slots=True)
class ArrowField:
    """One field; `type` is None if it is not allowed, `described` names it for an error text."""

    name: str
    nullable: bool
    type: pa.DataType | None
    described: str


def read_fields(schema: FlatTable) -> list[ArrowField]:
    """Return the fields in order, without their metadata. Raises Damaged."""
    if schema.int16(_SCHEMA_ENDIANNESS) != _LITTLE_ENDIAN:
        raise Damaged("the schema is big-endian")
    if schema.length(_SCHEMA_FIELDS) > MAX_FIELDS:
        raise Damaged(f"the schema has more than {MAX_FIELDS} fields")
    return [*_fields(schema)]


def _fields(schema: FlatTable) -> Iterator[ArrowField]:
    for field in schema.tables(_SCHEMA_FIELDS):
        name = field.text(_NAME, MAX_FIELD_NAME_BYTES) or ""
        described, arrow_type = _type_of(field)
        yield ArrowField(name, bool(field.uint8(_NULLABLE)), arrow_type, described)


def _type_of(field: FlatTable) -> tuple[str, pa.DataType | None]:
    """Return the name of the type for an error text, and the type itself if it is allowed."""
    kind = field.uint8(_TYPE_KIND)
    if field.has(_DICTIONARY):
        return "dictionary", None
    if field.length(_CHILDREN) or kind not in _READERS:
        return _UNREADABLE.get(kind, f"type {kind} of the Arrow format"), None
    of_type = field.table(_TYPE)
    if of_type is None:
        raise Damaged("a field has no type")
    read = _READERS[kind](of_type)
    return (read, None) if isinstance(read, str) else (str(read), read)


def _integer(of_type: FlatTable) -> pa.DataType | str:
    bits, signed = of_type.int32(0), of_type.uint8(1)
    return _INTEGERS.get((bits, int(signed != 0)), f"integer of {bits} bits")


def _float(of_type: FlatTable) -> pa.DataType | str:
    precision = of_type.int16(0)
    return _FLOATS[precision] if 0 <= precision < len(_FLOATS) else f"float of precision {precision}"


def _decimal(of_type: FlatTable) -> pa.DataType | str:
    precision, scale, bits = of_type.int32(0), of_type.int32(1), of_type.int32(2, _DECIMAL128)
    declare, max_digits = _DECIMALS.get(bits, (pa.decimal128, 0))
    if 1 <= precision <= max_digits and 0 <= scale <= precision:
        return declare(precision, scale)
    return f"decimal{bits}({precision}, {scale})"


def _date(of_type: FlatTable) -> pa.DataType | str:
    unit = of_type.int16(0, _DATE64)
    return _DATES[unit] if 0 <= unit < len(_DATES) else f"date of unit {unit}"


def _timestamp(of_type: FlatTable) -> pa.DataType | str:
    """Return a timestamp type. Timestamps of any zone count from the epoch in UTC, so the zone itself is dropped."""
    unit = of_type.int16(0)
    if not 0 <= unit < len(_TIME_UNITS):
        return f"timestamp of unit {unit}"
    return pa.timestamp(_TIME_UNITS[unit], "UTC" if of_type.text(1, MAX_ZONE_BYTES) else None)


def _fixed_size_binary(of_type: FlatTable) -> pa.DataType | str:
    width = of_type.int32(0)
    return pa.binary(width) if 1 <= width <= _MAX_FIXED_BYTES else f"fixed_size_binary[{width}]"


_READERS: Final[Mapping[int, Callable[[FlatTable], pa.DataType | str]]] = {
    1: lambda _: pa.null(),
    2: _integer,
    3: _float,
    4: lambda _: pa.binary(),
    5: lambda _: pa.string(),
    6: lambda _: pa.bool_(),
    7: _decimal,
    8: _date,
    10: _timestamp,
    15: _fixed_size_binary,
    19: lambda _: pa.large_binary(),
    20: lambda _: pa.large_string(),
}
