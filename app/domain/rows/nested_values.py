"""Lists, structs and maps of Arrow columns as JSON strings: those that lists and objects of a JSON body become.

A few rows at a time become Python values, so that a column never takes more than MAX_NESTED_BYTES beside its strings.
Invariant: a value that JSON does not have is rejected, as a JSON body would be.
"""

import binascii
from base64 import b64encode
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import isfinite
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from app.domain.model.table_options import BinaryEncoding
from app.domain.model.written_values import WrittenNumber, as_json, date_text, timestamp_text
from app.domain.rows.conversion import BadValues

MAX_NESTED_BYTES: Final = 2**26
"""Bytes that a list, struct or map takes as Python values, about; one of two million numbers takes them."""

_NESTED_AT_ONCE: Final = 2**22
_ELEMENT_BYTES: Final = 32


def json_texts(
    given: pa.Array,
    sizes: "np.ndarray[tuple[int], np.dtype[np.int64]]",
    binary: BinaryEncoding,
    reserve: Callable[[int], None],
) -> pa.StringArray:
    """Return lists, structs or maps as JSON strings without blanks; `sizes` are their `nested_bytes`.

    Numbers remain numbers; bytes, dates and timestamps are strings as a source would write them; a map is an object.
    `reserve` adds the bytes of some strings before more are made. Raises BadValues for numbers that JSON does not have,
    U+0000 and a map with a repeated key.
    """
    ends, first = np.cumsum(sizes), 0
    texts: list[pa.Array] = []
    reasons: dict[int, str] = {}
    while first < len(given):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _NESTED_AT_ONCE, "right")))
        of_rows: list[bytes | None] = []
        for row, value in enumerate(_json_values(given.slice(first, last - first), binary), first):
            try:
                of_rows.append(None if value is None else _ENCODER.encode(value))
            except ValueError as error:
                reasons[row] = str(error)
        reserve(sum(map(len, filter(None, of_rows))))
        texts.append(pa.array(of_rows, pa.binary()).view(pa.string()))
        first = last
    if reasons:
        raise BadValues(reasons)
    return pa.concat_arrays(texts)


def written_bytes(value: bytes, encoding: BinaryEncoding) -> str:
    """Return bytes as a source would write them."""
    return (binascii.hexlify(value) if encoding is BinaryEncoding.HEX else b64encode(value)).decode()


def nested_bytes(array: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Return how many bytes each value takes as Python values, with all below it, about."""
    sizes = np.full(len(array), _ELEMENT_BYTES, np.int64)
    if pa.types.is_struct(array.type):
        for at, field in enumerate(array.type):
            sizes += nested_bytes(array.field(at)) + len(field.name)
    elif pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        below = nested_bytes(array.values.slice(array.offset * size, len(array) * size))
        sizes += below.reshape(len(array), size).sum(axis=1)
    elif pa.types.is_nested(array.type):
        is_map = pa.types.is_map(array.type)
        ends = np.concatenate([[0], np.cumsum(nested_bytes(array.items if is_map else array.values))])
        offsets = np.asarray(array.offsets)
        sizes += ends[offsets[1:]] - ends[offsets[:-1]] + is_map * _ELEMENT_BYTES * (offsets[1:] - offsets[:-1])
    return sizes


class _NotJson:
    """A value that no JSON text has, and why. It is not a dataclass, because msgspec would encode that."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


_NOT_FINITE: Final = _NotJson("has a number that JSON does not have: NaN or an infinity")
_TWICE: Final = _NotJson("is a map that has a key twice")
_HAS_NUL: Final = _NotJson("has the character U+0000")


def _written(value: Any) -> msgspec.Raw:
    if isinstance(value, _NotJson):
        raise ValueError(value.reason)
    return as_json(value)


_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=_written)


def _json_values(array: pa.Array, binary: BinaryEncoding) -> list[Any]:
    """Return the values of a column, and of all below it, as a JSON decoder would have read them."""
    of_type = array.type
    if not pa.types.is_nested(of_type):
        return _plain_values(array, binary)
    if pa.types.is_struct(of_type):
        names = [field.name for field in of_type]
        rows = zip(*(_json_values(array.field(at), binary) for at in range(len(names))), strict=True)
        values: list[Any] = [dict(zip(names, row, strict=True)) for row in rows] if names else [{} for _ in array]
    else:
        values = _json_lists(array, binary)
    if array.null_count:
        values = [value if is_valid else None for value, is_valid in zip(values, array.is_valid(), strict=True)]
    return values


def _json_lists(array: pa.Array, binary: BinaryEncoding) -> list[Any]:
    """Return the lists, or the maps as objects, also in the place of NULL."""
    if pa.types.is_fixed_size_list(array.type):
        size = array.type.list_size
        starts = [*range(array.offset * size, (array.offset + len(array) + 1) * size, size)] if size else []
        starts = starts or [0] * (len(array) + 1)
    else:
        starts = array.offsets.to_pylist()
    is_map = pa.types.is_map(array.type)
    below = [array.keys, array.items] if is_map else [array.values]
    values = [_json_values(one.slice(starts[0], starts[-1] - starts[0]), binary) for one in below]
    parts = [(start - starts[0], end - starts[0]) for start, end in pairwise(starts)]
    if not is_map:
        return [values[0][start:end] for start, end in parts]
    keys = [str(key) if type(key) is int else key for key in values[0]]
    return [_json_map(keys[start:end], values[1][start:end]) for start, end in parts]


def _json_map(keys: list[Any], values: list[Any]) -> dict[str, Any] | _NotJson:
    if _HAS_NUL in keys:
        return _HAS_NUL
    found = dict(zip(keys, values, strict=True))
    return found if len(found) == len(keys) else _TWICE


def _plain_values(array: pa.Array, binary: BinaryEncoding) -> list[Any]:
    """Return numbers as numbers, and all else as a source would write it."""
    of_type, types = array.type, pa.types
    if types.is_timestamp(of_type):
        per_second, zone = _PER_SECOND[of_type.unit], "Z" if of_type.tz else ""
        counts = array.view(pa.int64()).to_pylist()
        return [None if count is None else timestamp_text(count, per_second) + zone for count in counts]
    if types.is_date(of_type):
        days = array.view(pa.int32() if types.is_date32(of_type) else pa.int64()).to_pylist()
        per_day = 1 if types.is_date32(of_type) else _MILLISECONDS_OF_DAY
        return [None if count is None else date_text(count // per_day) for count in days]
    values: list[Any] = array.to_pylist()
    if types.is_floating(of_type):
        as_written = _FLOATS.get(of_type)
        return [
            value
            if value is None
            else _NOT_FINITE
            if not isfinite(value)
            else as_written(value)
            if as_written
            else value
            for value in values
        ]
    if values and (types.is_string(of_type) or types.is_large_string(of_type)):
        return [_HAS_NUL if value is not None and "\0" in value else value for value in values]
    return [written_bytes(value, binary) if isinstance(value, bytes) else value for value in values]


_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MILLISECONDS_OF_DAY: Final = 86_400_000
_FLOATS: Final[Mapping[pa.DataType, Callable[[float], WrittenNumber]]] = {
    pa.float16(): lambda value: WrittenNumber(str(np.float16(value))),
    pa.float32(): lambda value: WrittenNumber(str(np.float32(value))),
}
"""The shortest text of each number: as Python's floats of 64 bits, 0.1 would be 0.10000000149011612."""
