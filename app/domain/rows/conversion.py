"""Exact conversion of source values to the type of their column.

What each type accepts is defined value by value: exactly, or not at all (docs/reference/types.md). Arrow kernels
convert whole columns where all values are strings that a kernel reads as the definition does. Where a kernel rejects,
or may have accepted more, the definition decides and names the values. A value that does not fit is reported, never
rounded or cut. `ValueReading` says what a type leaves open: the zone of timestamps, the encoding of bytes.

Invariant: the result of a column equals that of the definition for every value; a property test compares the two.
"""

import binascii
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import lru_cache
from math import isinf
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SourceValue
from app.domain.model.table_options import BinaryEncoding, OutOfRange, TableOptions, zone_of
from app.domain.model.table_schema import MAX_DECIMAL_DIGITS, ColumnType, TypeName
from app.domain.model.written_values import INFINITE_DAYS, JSON_ENCODER

UTC_NAME: Final = "UTC"


@dataclass(frozen=True, slots=True)
class ValueReading:
    """The reading of one column's values."""

    zone: str = UTC_NAME
    """IANA name of the zone of timestamps without an offset. A repeated local time means the earlier one."""
    binary: BinaryEncoding = BinaryEncoding.HEX
    """The encoding of bytes as text."""
    saturates: bool = False
    """True if times outside the years 1 to 9999 land as the first or last one."""

    @property
    def zone_info(self) -> tzinfo:
        """The time zone object of `zone`."""
        return zone_of(self.zone)


PLAIN: Final = ValueReading()


def reading_of(column: str, options: TableOptions) -> ValueReading:
    """Return how the values of a column are read under these options."""
    saturates = options.out_of_range is OutOfRange.SATURATE
    return _reading(options.source_timezone, options.encoding_of(column), saturates)


@lru_cache
def _reading(zone: str, binary: BinaryEncoding, saturates: bool) -> ValueReading:
    return ValueReading(zone, binary, saturates)


_TRUTH_VALUES: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_HEX_PREFIX: Final = "\\x"
"""Prefix that Postgres writes before hexadecimal digits. Base64 has no backslash, so the prefix decides."""
INTEGER_BITS: Final = {TypeName.INT16: 16, TypeName.INT32: 32, TypeName.INT64: 64}
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T]00(?::00(?::00(?:\.0+)?)?)?(?: ?(?:Z|[+-]00(?::?00)?))?)?", re.ASCII
)
"""A date; midnight after it, in UTC or without a zone, says nothing more."""
_ZONE: Final = r"Z|[+-]\d\d(?::?\d\d(?::?\d\d)?)?"
_DAY: Final = r"-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
_TIME: Final = rf"(?:[ T]\d\d(?::\d\d(?::\d\d(?:\.\d+)?)?)?)?(?: ?(?:{_ZONE}))?"
_SENTINEL: Final = re.compile(
    rf"(?P<last>\+?(?i:infinity)|\+?0*[1-9]\d{{4,}}{_DAY}{_TIME})|"
    rf"-(?i:infinity)|-\d{{4,}}{_DAY}{_TIME}|\d{{4,}}{_DAY}{_TIME} BC|0000-\d\d-\d\d{_TIME}",
    re.ASCII,
)
"""Strings that databases and ISO 8601 write for times outside the years 1 to 9999, and MySQL for no time at all."""
_TIMESTAMP: Final = re.compile(
    rf"(\d{{4}}-\d\d-\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(?: ?({_ZONE}))?)?", re.ASCII
)
_EXACT: Final = Context(prec=MAX_DECIMAL_DIGITS, traps=[Inexact, InvalidOperation], Emax=9999, Emin=-9999)
_NOT_FINITE: Final = re.compile(r"[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_JSON_DECODER: Final = msgspec.json.Decoder(msgspec.Raw)
_FIRST_TIMESTAMP: Final = datetime.min
_LAST_TIMESTAMP: Final = datetime.max


def scalar(value: SourceValue, column_type: ColumnType, reading: ValueReading = PLAIN) -> Any:
    """Return the Python form of one value. Raises ValueError with a reason that omits the value."""
    return None if value is None else _DEFINITIONS[column_type.name](value, column_type, reading)


def _boolean(value: SourceValue, _: ColumnType, __: ValueReading) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return value == 1
    if isinstance(value, str) and (read := _TRUTH_VALUES.get(value.lower())) is not None:
        return read
    raise ValueError("is not true, false, 1 or 0")


def _number(value: SourceValue) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise ValueError("is not a number")
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise ValueError("is not a decimal number")
    try:
        return Decimal(value)
    except InvalidOperation:  # an exponent of more than 18 digits
        digits = Decimal(str(value).lower().partition("e")[0])
    if digits:
        raise ValueError("has an exponent that no type can have")
    return digits


def _integer(value: SourceValue, column_type: ColumnType, _: ValueReading) -> int:
    number = _number(value)
    bits = INTEGER_BITS[column_type.name]
    if (number and number.adjusted() > 20) or not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise ValueError(f"does not fit a {bits}-bit integer")
    if number != int(number):
        raise ValueError("is not a whole number")
    return int(number)


def _float(value: SourceValue, column_type: ColumnType, _: ValueReading) -> float:
    if isinstance(value, str) and _NOT_FINITE.fullmatch(value):
        return float(value)
    exact = _number(value)
    number = float(exact)
    if column_type.name is TypeName.FLOAT32:
        number = float(pc.cast(pa.scalar(str(exact)), pa.float32()).as_py())
    if isinf(number):
        raise ValueError(f"is beyond the range of {column_type.name}")
    if exact and not number:
        raise ValueError(f"is too close to zero for {column_type.name}")
    return number


def _decimal(value: SourceValue, column_type: ColumnType, _: ValueReading) -> Decimal:
    try:
        scaled = _number(value).quantize(Decimal(1).scaleb(-column_type.scale), context=_EXACT)
    except Inexact:
        raise ValueError(f"has more than {column_type.scale} digits after the point") from None
    except InvalidOperation:
        raise ValueError(f"has too many digits for {column_type}") from None
    if scaled and scaled.adjusted() >= column_type.precision - column_type.scale:
        raise ValueError(f"has too many digits for {column_type}")
    return scaled


def _sentinel(value: str, reading: ValueReading) -> datetime | None:
    """Return the first or last timestamp for a string that means one beyond it, if the options saturate.

    Raises ValueError with the option for such a string if they do not, but for MySQL's 0000-00-00.
    """
    found = _SENTINEL.fullmatch(value)
    if found is None:
        return None
    if not reading.saturates:
        if value.startswith("0000"):
            return None
        raise ValueError("is outside the years 1 to 9999; see the option out_of_range")
    return (_LAST_TIMESTAMP if found["last"] else _FIRST_TIMESTAMP).replace(tzinfo=UTC)


def _date(value: SourceValue, _: ColumnType, reading: ValueReading) -> date:
    if not isinstance(value, str):
        raise ValueError("is not a date YYYY-MM-DD")
    sentinel = _sentinel(value, reading)
    if sentinel is not None:
        return sentinel.date()
    match = _DATE.fullmatch(value)
    if match is None:
        raise ValueError("is not a date YYYY-MM-DD")
    try:
        return date.fromisoformat(match[1])
    except ValueError:
        raise ValueError("is not a day of the calendar") from None


def _timestamp(value: SourceValue, _: ColumnType, reading: ValueReading) -> datetime:
    sentinel = _sentinel(value, reading) if isinstance(value, str) else None
    if sentinel is not None:
        return sentinel
    match = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("is not a timestamp YYYY-MM-DD [HH:MM[:SS[.ffffff]]][Z|+HH:MM]")
    day, hour, minute, second, fraction, zone = match.groups()
    fraction = fraction or ""
    if fraction[6:].strip("0"):
        raise ValueError("has more than six digits of a second")
    try:
        moment = datetime.fromisoformat(day).replace(
            hour=int(hour or 0),
            minute=int(minute or 0),
            second=int(second or 0),
            microsecond=int(fraction[:6].ljust(6, "0")),
        )
    except ValueError:
        raise ValueError("is not a moment of the calendar") from None
    local = moment.replace(tzinfo=reading.zone_info if zone is None else _offset(zone))
    try:
        utc = local.astimezone(UTC)
        is_skipped = utc.astimezone(local.tzinfo).replace(tzinfo=None) != moment
    except OverflowError:
        if reading.saturates:
            return (_FIRST_TIMESTAMP if moment.year == 1 else _LAST_TIMESTAMP).replace(tzinfo=UTC)
        raise ValueError("is outside the years 1 to 9999 in UTC; see the option out_of_range") from None
    if is_skipped:
        raise ValueError("does not exist: the clocks of source_timezone skip it")
    return utc


def _offset(text: str) -> timezone:
    """Return the offset of `Z`, which has no digits, or of a sign with the digits of hours, minutes and seconds.

    Local times of the 19th century have offsets with seconds, such as +00:53:28 in Berlin before 1893.
    """
    digits = text[1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4]), int(digits[4:])
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("has an offset that is not between -23:59 and +23:59")
    offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-offset if text[0] == "-" else offset)


def _string(value: SourceValue, _: ColumnType, __: ValueReading) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | Decimal):
        return str(value)
    return JSON_ENCODER.encode(value).decode()


def _json(value: SourceValue, _: ColumnType, __: ValueReading) -> str:
    if isinstance(value, str):
        try:
            _JSON_DECODER.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise ValueError("is not JSON text") from None
        except RecursionError:
            raise ValueError("is JSON nested too deeply") from None
        return value
    return JSON_ENCODER.encode(value).decode()


def _binary(value: SourceValue, _: ColumnType, reading: ValueReading) -> bytes:
    is_hex = reading.binary is BinaryEncoding.HEX
    try:
        if isinstance(value, str):
            if value.startswith(_HEX_PREFIX):
                return binascii.unhexlify(value.removeprefix(_HEX_PREFIX))
            return binascii.unhexlify(value) if is_hex else binascii.a2b_base64(value.encode(), strict_mode=True)
    except (binascii.Error, ValueError):
        pass
    raise ValueError("is not an even number of hexadecimal digits" if is_hex else "is not base64 text")


_DEFINITIONS: Final[dict[TypeName, Callable[[SourceValue, ColumnType, ValueReading], Any]]] = {
    TypeName.BOOLEAN: _boolean,
    TypeName.INT16: _integer,
    TypeName.INT32: _integer,
    TypeName.INT64: _integer,
    TypeName.FLOAT32: _float,
    TypeName.FLOAT64: _float,
    TypeName.DECIMAL: _decimal,
    TypeName.DATE: _date,
    TypeName.TIMESTAMP: _timestamp,
    TypeName.STRING: _string,
    TypeName.BINARY: _binary,
    TypeName.JSON: _json,
}


_FIRST_DATE: Final = date.min
_LAST_DATE: Final = date.max
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)
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
    """Values that do not fit the type: their positions in the column, each with a reason without the value."""

    def __init__(self, reasons: dict[int, str]) -> None:
        super().__init__(f"{len(reasons)} values do not fit")
        self.reasons = reasons


def convert(values: Sequence[SourceValue], column_type: ColumnType, reading: ValueReading = PLAIN) -> pa.Array:
    """Return one column's values as an Arrow array of `column_type.arrow`, None as NULL. Raises BadValues."""
    try:
        texts = pa.array(values, pa.string())
    except pa.ArrowTypeError:
        pass  # not all values are strings
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
    """Do what `convert` does for values that are all strings. Raises BadValues."""
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
    if column_type.name is TypeName.DECIMAL and not _can_be_cast(texts, column_type.scale):
        return None
    try:
        if column_type.name is TypeName.TIMESTAMP:
            return _timestamps(texts, reading.zone)
        array = pc.cast(texts, column_type.arrow)
    except pa.ArrowInvalid:
        return None
    return array if _trusted(texts, array, column_type) else None


def _trusted(texts: pa.StringArray, array: pa.Array, column_type: ColumnType) -> bool:
    """Return True if the kernel cannot have accepted more than the definition does."""
    if column_type.name in INTEGER_BITS:
        return not hold_any(texts, b"xX")
    if column_type.name in {TypeName.FLOAT32, TypeName.FLOAT64}:
        return pc.all(pc.is_finite(array)).as_py() is not False and not _may_underflow(texts, array)
    if column_type.name is TypeName.DATE:
        return pc.any(pc.less(array, _FIRST_DATE)).as_py() is not True
    return True


def _may_underflow(texts: pa.StringArray, array: pa.Array) -> bool:
    """Return True if a string that is not zero may have become zero."""
    zeros = pc.equal(array, 0)
    return pc.any(zeros).as_py() is True and (
        pc.any(pc.match_substring_regex(texts.filter(zeros), "^[^eE]*[1-9]")).as_py() is True
    )


def _can_be_cast(texts: pa.StringArray, scale: int) -> bool:
    """Return True if no string has an exponent, or more than 38 digits, now or at this scale.

    The kernel wraps silently there, and reads beyond its table of powers of ten: `1e-100000000` ends the process.
    """
    lengths = pc.binary_length(texts)
    if hold_any(texts, b"eE") or (pc.max(lengths).as_py() or 0) > MAX_DECIMAL_DIGITS + 1:
        return False
    point = pc.find_substring(texts, ".")
    whole = pc.if_else(pc.less(point, 0), lengths, point)
    return (pc.max(whole).as_py() or 0) + scale <= MAX_DECIMAL_DIGITS


def hold_any(texts: pa.StringArray, parts: Iterable[int | bytes]) -> bool:
    """Return True if a string has one of these bytes or byte strings, or two adjacent strings have it together.

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

    A kernel that fails takes as long as one for 20,000 strings, so the kernel for the usual form is not tried in vain.
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


def local_timestamps(local: pa.TimestampArray, column_type: ColumnType, reading: ValueReading) -> pa.Array:
    """Return local times in microseconds, of the years 1 to 9999, as their strings are converted. Raises BadValues."""
    with suppress(pa.ArrowInvalid):
        array = timestamps_in(reading.zone, local)
        if array is not None:
            return array
    texts = [None if moment is None else moment.isoformat(" ") for moment in local.to_pylist()]
    return _by_definition(texts, column_type, reading)


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
    """Return True if a timestamp in microseconds is outside the years 1 to 9999."""
    bounds = pc.min_max(array.view(pa.int64())).as_py()
    low, high = bounds["min"], bounds["max"]
    return low is not None and (low < _FIRST_MICROSECOND or high > _LAST_MICROSECOND)
