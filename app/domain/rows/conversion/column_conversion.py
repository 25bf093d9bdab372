"""Types one column of source values as an Arrow array, exactly or not at all.

Arrow kernels do the work where all values are texts that the kernel reads as `value_definitions` does. Where a kernel
rejects, or may have accepted more than it should, the definition decides value by value and finds the bad values.

Invariant: the result equals that of the definition for every value.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.calendar_text import INFINITE_DAYS
from app.domain.model.change import SourceValue
from app.domain.model.table_schema import MAX_DECIMAL_DIGITS, ColumnType, TypeName
from app.domain.rows.conversion.value_definitions import INTEGER_BITS, scalar
from app.domain.rows.conversion.value_reading import PLAIN, UTC_NAME, ValueReading

_FIRST_DATE: Final = date.min
_LAST_DATE: Final = date.max
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST_TIMESTAMP: Final = datetime.min
_LAST_TIMESTAMP: Final = datetime.max
_FIRST_MICROSECOND: Final = (_FIRST_TIMESTAMP - _EPOCH) // _MICROSECOND
_LAST_MICROSECOND: Final = (_LAST_TIMESTAMP - _EPOCH) // _MICROSECOND
_MICROSECONDS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""In each unit of Arrow."""
_INFINITE_DAYS: Final = pa.array(sorted(INFINITE_DAYS), pa.int32())
_LAST_ZONED: Final = datetime(2037, 1, 1)
"""After it, the kernel does not know a zone's rules, only the transitions that the zone's file lists."""
_OFFSET: Final = "^.{11,}[Z+-]"
"""Of a timestamp: a sign in a date has fewer characters before it."""

_BOOLEANS: Final = {bool, type(None)}
_OFFSET_BYTES: Final = 4
_UTC_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


class BadValues(Exception):
    """Some values do not fit the type: their positions in the column, each with a reason without the value."""

    def __init__(self, reasons: dict[int, str]) -> None:
        super().__init__(f"{len(reasons)} values do not fit")
        self.reasons = reasons


def convert(values: Sequence[SourceValue], column_type: ColumnType, reading: ValueReading = PLAIN) -> pa.Array:
    """Return one column's values as an Arrow array of `column_type.arrow`, None as NULL. Raises BadValues."""
    try:
        texts = pa.array(values, pa.string())
    except pa.ArrowTypeError:
        pass  # not all values are texts
    else:
        return convert_texts(texts, column_type, reading)
    if column_type.name in INTEGER_BITS:
        try:
            numbers = pa.array(values)  # of the type that all values have: given one, Arrow cuts off fractions
            if pa.types.is_int64(numbers.type):
                return pc.cast(numbers, column_type.arrow)
        except (OverflowError, TypeError, ValueError):
            pass  # the definition finds which value it is
    if column_type.name is TypeName.BOOLEAN and {*map(type, values)} <= _BOOLEANS:
        return pa.array(values, column_type.arrow)
    return _by_definition(values, column_type, reading)


def convert_texts(texts: pa.StringArray, column_type: ColumnType, reading: ValueReading = PLAIN) -> pa.Array:
    """Do what `convert` does for values that are all texts. Raises BadValues."""
    converted = _from_text(texts, column_type, reading)
    return converted if converted is not None else _by_definition(texts.to_pylist(), column_type, reading)


def _by_definition(values: Sequence[SourceValue], column_type: ColumnType, reading: ValueReading) -> pa.Array:
    converted, reasons = [], {}
    for position, value in enumerate(values):
        try:
            converted.append(scalar(value, column_type, reading))
        except ValueError as error:
            reasons[position] = str(error)
    if reasons:
        raise BadValues(reasons)
    return pa.array(converted, column_type.arrow)


def _from_text(texts: pa.StringArray, column_type: ColumnType, reading: ValueReading) -> pa.Array | None:
    """Return the kernel's result, or None where the definition has to decide."""
    if column_type.name is TypeName.STRING:
        return texts
    if column_type.name in {TypeName.BINARY, TypeName.JSON}:
        return None
    try:
        if column_type.name is TypeName.TIMESTAMP:
            return _timestamps(texts, reading.zone)
        if column_type.name is TypeName.FLOAT32:  # through float64, as the definition rounds
            array = pc.cast(pc.cast(texts, pa.float64()), pa.float32())
        else:
            array = pc.cast(texts, column_type.arrow)
    except pa.ArrowInvalid:
        return None
    return array if _trusted(texts, array, column_type) else None


def _trusted(texts: pa.StringArray, array: pa.Array, column_type: ColumnType) -> bool:
    """Tell whether the kernel cannot have accepted more than the definition does."""
    if column_type.name in INTEGER_BITS:
        return not hold_any(texts, b"xX")
    if column_type.name in {TypeName.FLOAT32, TypeName.FLOAT64}:
        return pc.all(pc.is_finite(array)).as_py() is not False and not _may_underflow(texts, array)
    if column_type.name is TypeName.DATE:
        return pc.any(pc.less(array, _FIRST_DATE)).as_py() is not True
    return column_type.name is not TypeName.DECIMAL or _cannot_wrap(texts, column_type.scale)


def _may_underflow(texts: pa.StringArray, array: pa.Array) -> bool:
    """Tell whether a text that is not zero may have become zero."""
    zeros = pc.equal(array, 0)
    return pc.any(zeros).as_py() is True and (
        pc.any(pc.match_substring_regex(texts.filter(zeros), "^[^eE]*[1-9]")).as_py() is True
    )


def _cannot_wrap(texts: pa.StringArray, scale: int) -> bool:
    """Tell whether no text becomes a number of more than 38 digits at this scale, where the kernel wraps silently."""
    if hold_any(texts, b"eE"):
        return False
    point = pc.find_substring(texts, ".")
    whole = pc.if_else(pc.less(point, 0), pc.binary_length(texts), point)
    return (pc.max(whole).as_py() or 0) + scale <= MAX_DECIMAL_DIGITS


def hold_any(texts: pa.StringArray, parts: Iterable[int | bytes]) -> bool:
    """Tell whether a text has one of these bytes or byte strings, or two adjacent texts have it together.

    A kernel that ignores case takes thirty times as long.
    """
    _, offsets, content = texts.buffers()
    if content is None:
        return False
    end = texts.offset + len(texts)
    borders = memoryview(offsets)[: (end + 1) * _OFFSET_BYTES].cast("i")
    text = bytes(memoryview(content)[borders[texts.offset] : borders[end]])
    return any(part in text for part in parts)


def _timestamps(texts: pa.StringArray, zone: str) -> pa.Array | None:
    """Return timestamps with and without an offset; columns that are typed together may have both.

    A kernel that fails takes as long as one for 20,000 texts, so the kernel for the usual form is not tried in vain.
    """
    with suppress(pa.ArrowInvalid):  # an offset can be negative
        if not hold_any(texts, b"Z+"):
            return _timestamps_without_offset(texts, zone)
        if not hold_any(texts, b"+"):
            return _timestamps_of_both_kinds(texts, pc.ends_with(texts, "Z"), zone)
    return _timestamps_of_both_kinds(texts, pc.match_substring_regex(texts, _OFFSET), zone)


def _timestamps_of_both_kinds(texts: pa.StringArray, has_offset: pa.BooleanArray, zone: str) -> pa.Array | None:
    array = pc.cast(pc.if_else(has_offset, texts, None), _UTC_TIMESTAMP)
    others = _timestamps_without_offset(pc.if_else(has_offset, None, texts), zone)
    return None if others is None or _is_beyond(array) else pc.coalesce(array, others)


def _timestamps_without_offset(texts: pa.StringArray, zone: str) -> pa.Array | None:
    return timestamps_in(zone, pc.cast(texts, pa.timestamp("us")))


def timestamps_in(zone: str, local: pa.TimestampArray) -> pa.Array | None:
    """Return local times of this zone, in microseconds, as timestamps; None where the definition has to decide.

    Raises ArrowInvalid for a time that the zone skips.
    """
    if _is_beyond(local):
        return None
    if zone == UTC_NAME:
        return local.view(_UTC_TIMESTAMP)
    if pc.any(pc.greater(local, _LAST_ZONED)).as_py():
        return None
    array = pc.cast(pc.assume_timezone(local, zone, ambiguous="earliest"), _UTC_TIMESTAMP)
    return None if _is_beyond(array) else array


def beyond_calendar(array: pa.TimestampArray | pa.Date32Array) -> pa.BooleanArray:
    """Return which timestamps or dates are outside the years 1 to 9999."""
    if pa.types.is_date(array.type):
        return pc.or_(pc.less(array, _FIRST_DATE), pc.greater(array, _LAST_DATE))
    moments = pc.cast(array, pa.timestamp("us"))
    return pc.or_(pc.less(moments, _FIRST_TIMESTAMP), pc.greater(moments, _LAST_TIMESTAMP))


def outside_calendar(array: pa.TimestampArray | pa.Date32Array | pa.Date64Array) -> tuple[pa.Array, pa.Array]:
    """Return which dates or timestamps, of any unit, are before the year 1, and which are after the year 9999."""
    if pa.types.is_date32(array.type):
        is_late = pc.or_(pc.greater(array, _LAST_DATE), pc.is_in(array.view(pa.int32()), _INFINITE_DAYS))
        return pc.and_(pc.less(array, _FIRST_DATE), pc.invert(is_late)), is_late
    unit = "ms" if pa.types.is_date64(array.type) else array.type.unit
    if unit == "ns":  # 64 bits of them are the years 1677 to 2262
        none = pa.array([False] * len(array))
        return none, none
    counts, divisor = array.view(pa.int64()), _MICROSECONDS[unit]
    return pc.less(counts, _FIRST_MICROSECOND // divisor), pc.greater(counts, _LAST_MICROSECOND // divisor)


def calendar_of(of_type: pa.DataType) -> tuple[date, date]:
    """Return the first and last date or timestamp that a column can have."""
    if pa.types.is_date(of_type):
        return _FIRST_DATE, _LAST_DATE
    return _FIRST_TIMESTAMP, _LAST_TIMESTAMP


def _is_beyond(array: pa.TimestampArray) -> bool:
    """Tell whether a timestamp in microseconds is outside the years 1 to 9999."""
    bounds = pc.min_max(array.view(pa.int64())).as_py()
    low, high = bounds["min"], bounds["max"]
    return low is not None and (low < _FIRST_MICROSECOND or high > _LAST_MICROSECOND)
