"""Reads a column of values as `values` reads each of them: numbers of days and seconds, and decimals, by Arrow kernels.

Invariant: the result is that of the reader for each value, or ValueError is raised.
"""

import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SourceValue
from app.formats.debezium.connect_schema import DECIMAL, ConnectField
from app.formats.debezium.times import READERS
from app.formats.debezium.values import ReadValue

ReadColumn: TypeAlias = Callable[[Sequence[Any]], Sequence[SourceValue]]
"""Reads the values of a column, None for NULL. Raises ValueError, as a reader of values does."""

_UNITS: Final[Mapping[str, tuple[str, int]]] = {
    "io.debezium.time.Timestamp": ("ms", 1_000),
    "org.apache.kafka.connect.data.Timestamp": ("ms", 1_000),
    "io.debezium.time.MicroTimestamp": ("us", 1_000_000),
    "io.debezium.time.NanoTimestamp": ("ns", 1_000_000_000),
}
"""By semantic type: Arrow's unit, and how many of it make a second."""

_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
"""Of the years 1 to 9999."""
_MAX_SCALE: Final = 6
"""Digits behind the point up to which Arrow writes decimals without an exponent."""
_SAFE_TO_SHARE: Final = ({str}, {int})
"""Types of which equal values are written alike, other than 1.0 and 1.00, or True and 1."""


def reader_of_columns(field: ConnectField | None, read: ReadValue) -> ReadColumn:
    """Return the reader of columns whose values `read` reads; `field` describes them, if the events have a schema."""
    if field is not None and field.meaning in _UNITS and READERS[field.meaning] is read:
        unit, per_second = _UNITS[field.meaning]
        return lambda values: _timestamps(values, unit, per_second, read)
    if field is not None and field.meaning == DECIMAL and 0 < field.scale <= _MAX_SCALE:
        scale = field.scale
        return lambda values: _decimals(values, scale, read)
    return lambda values: _each(values, read)


def _each(values: Sequence[Any], read: ReadValue) -> Sequence[SourceValue]:
    """Read values one by one, equal ones once where they are written alike."""
    if {*map(type, values)} - {type(None)} in _SAFE_TO_SHARE:
        known = {value: None if value is None else read(value) for value in {*values}}
        return [*map(known.__getitem__, values)]
    return [None if value is None else read(value) for value in values]


def _timestamps(values: Sequence[Any], unit: str, per_second: int, read: ReadValue) -> Sequence[SourceValue]:
    numbers = _integers(values)
    if numbers is None:
        return _each(values, read)
    bounds = pc.min_max(numbers).as_py()
    low, high = bounds["min"], bounds["max"]
    if low is None or low < _FIRST_SECOND * per_second or high >= (_LAST_SECOND + 1) * per_second:
        return _each(values, read)
    texts: list[str | None] = pc.cast(pc.cast(numbers, pa.timestamp(unit)), pa.string()).to_pylist()
    whole = "." + "0" * (len(str(per_second)) - 1)
    if any(text is not None and text.endswith(whole) for text in texts):
        return [text and text.removesuffix(whole) for text in texts]
    return texts


def _decimals(values: Sequence[Any], scale: int, read: ReadValue) -> Sequence[SourceValue]:
    if not {*map(type, values)} <= {str, type(None)}:
        return _each(values, read)
    try:
        contents = [None if value is None else binascii.a2b_base64(value, strict_mode=True) for value in values]
    except ValueError:
        return _each(values, read)
    unscaled = [None if content is None else int.from_bytes(content, "big", signed=True) for content in contents]
    numbers = None if b"" in contents else _integers(unscaled)
    if numbers is None:
        return _each(values, read)
    digits = pc.cast(numbers, pa.decimal128(19, 0))
    decimals = pa.Array.from_buffers(pa.decimal128(19, scale), len(digits), digits.buffers())
    texts: list[str | None] = pc.cast(decimals, pa.string()).to_pylist()
    return texts


def _integers(values: Sequence[Any]) -> pa.Int64Array | None:
    """Return values that are all integers of 64 bits, else None."""
    if not {*map(type, values)} <= {int, type(None)}:
        return None
    try:
        return pa.array(values, pa.int64())
    except OverflowError:
        return None
