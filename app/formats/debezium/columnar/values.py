"""Reads a column of values as `values` reads each of them: numbers of days and seconds, and decimals, by Arrow kernels.

Row images have source values, which are texts here. For a table without them, the kernels make the column of the table
at once; a text that is parsed again costs more than all else that is done with the value (performance notebook).

Invariant: the result is that of the reader for each value, or ValueError is raised.
"""

import binascii
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SourceValue
from app.domain.model.table_schema import Column, TypeName
from app.domain.rows.conversion.column_conversion import BadValues, beyond_calendar, convert, timestamps_in
from app.domain.rows.conversion.value_reading import ValueReading
from app.domain.rows.shaped_changes import TypeColumn
from app.formats.debezium.connect_schema import DECIMAL, ConnectField
from app.formats.debezium.times import READERS
from app.formats.debezium.values import MAX_DECIMAL_BYTES, ReadValue

ReadColumn: TypeAlias = Callable[[Sequence[Any]], Sequence[SourceValue]]
"""Reads the values of a column, None for NULL. Raises ValueError, as a reader of values does."""

_UNITS: Final[Mapping[str, tuple[str, int]]] = {
    "io.debezium.time.Timestamp": ("ms", 1_000),
    "org.apache.kafka.connect.data.Timestamp": ("ms", 1_000),
    "io.debezium.time.MicroTimestamp": ("us", 1_000_000),
    "io.debezium.time.NanoTimestamp": ("ns", 1_000_000_000),
}
"""By semantic type: Arrow's unit, and how many of it make a second."""

_DAYS: Final = frozenset({"io.debezium.time.Date", "org.apache.kafka.connect.data.Date"})
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
"""Of the years 1 to 9999."""
_INFINITE: Final = (-(2**63), 2**63 - 1)
"""What nanoseconds are for a time that they do not reach."""
_MAX_DIGITS: Final = 19
"""Of an integer of 64 bits."""
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


def typing_of_columns(
    field: ConnectField | None, column: Column, read: ReadValue, reading: ValueReading
) -> TypeColumn | None:
    """Return what types a column as `convert` types what `read` makes of its values; None if no kernel does."""
    kernel = _kernel(field, column, read, reading) if field is not None else None
    return None if kernel is None else partial(_typed, kernel, column, read, reading)


_Kernel: TypeAlias = Callable[[Sequence[Any]], pa.Array | None]
"""Returns the column, or None where each value has to be read. Raises ArrowInvalid."""


def _kernel(field: ConnectField, column: Column, read: ReadValue, reading: ValueReading) -> _Kernel | None:
    wanted = column.type
    if field.meaning == DECIMAL:
        is_exact = wanted.name is TypeName.DECIMAL and 0 <= field.scale <= min(wanted.scale, _MAX_DIGITS)
        return partial(_decimal_column, field.scale, wanted.arrow) if is_exact else None
    if READERS.get(field.meaning) is not read:
        return None
    if wanted.name is TypeName.TIMESTAMP and field.meaning in _UNITS:
        return partial(_timestamp_column, _UNITS[field.meaning][0], reading.zone)
    return _date_column if wanted.name is TypeName.DATE and field.meaning in _DAYS else None


def _typed(kernel: _Kernel, column: Column, read: ReadValue, reading: ValueReading, values: Sequence[Any]) -> pa.Array:
    """Return the column. Raises BadValues."""
    try:
        array = kernel(values)
    except pa.ArrowInvalid:
        array = None
    if array is not None:
        return array
    try:
        return convert(_each(values, read), column.type, reading)
    except ValueError:
        raise BadValues({}) from None


def _timestamp_column(unit: str, zone: str, values: Sequence[Any]) -> pa.Array | None:
    numbers = _integers(values)
    if numbers is None:
        return None
    return timestamps_in(zone, pc.cast(pc.cast(numbers, pa.timestamp(unit)), pa.timestamp("us")))


def _date_column(values: Sequence[Any]) -> pa.Array | None:
    numbers = _integers(values)
    days = None if numbers is None else pc.cast(pc.cast(numbers, pa.int32()), pa.date32())
    return None if days is None or pc.any(beyond_calendar(days)).as_py() else days


def _decimal_column(scale: int, wanted: pa.DataType, values: Sequence[Any]) -> pa.Array | None:
    numbers = _decimal_numbers(values, scale)
    return None if numbers is None else pc.cast(numbers, wanted)


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
    if low in _INFINITE or high in _INFINITE:
        return _each(values, read)
    texts: list[str | None] = pc.cast(pc.cast(numbers, pa.timestamp(unit)), pa.string()).to_pylist()
    whole = "." + "0" * (len(str(per_second)) - 1)
    if any(text is not None and text.endswith(whole) for text in texts):
        return [text and text.removesuffix(whole) for text in texts]
    return texts


def _decimals(values: Sequence[Any], scale: int, read: ReadValue) -> Sequence[SourceValue]:
    decimals = _decimal_numbers(values, scale)
    if decimals is None:
        return _each(values, read)
    texts: list[str | None] = pc.cast(decimals, pa.string()).to_pylist()
    return texts


def _decimal_numbers(values: Sequence[Any], scale: int) -> pa.Decimal128Array | None:
    """Return decimals in base64 that have at most 64 bits; None if there are other values."""
    if not {*map(type, values)} <= {str, type(None)}:
        return None
    try:
        contents = [None if value is None else binascii.a2b_base64(value, strict_mode=True) for value in values]
    except ValueError:
        return None
    if b"" in contents or max(map(len, filter(None, contents)), default=1) > MAX_DECIMAL_BYTES:
        return None
    numbers = _integers([None if content is None else int.from_bytes(content, signed=True) for content in contents])
    if numbers is None:
        return None
    digits = pc.cast(numbers, pa.decimal128(_MAX_DIGITS, 0))
    return pa.Array.from_buffers(pa.decimal128(_MAX_DIGITS, scale), len(digits), digits.buffers())


def _integers(values: Sequence[Any]) -> pa.Int64Array | None:
    """Return values that are all integers of 64 bits, else None."""
    if not {*map(type, values)} <= {int, type(None)}:
        return None
    try:
        return pa.array(values, pa.int64())
    except OverflowError:
        return None
