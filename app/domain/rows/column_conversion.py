"""Source values of one column -> a typed Arrow array, exactly or not at all.

`scalar` below defines, value by value, what each declared type accepts. Arrow kernels do the work where
every value is text that the kernel reads the same way; whenever a kernel rejects, or may have read more
than it should, the definition decides and finds the culprits. Source: the type table of the formats notes.
"""

import binascii
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal, Inexact, InvalidOperation
from math import isinf
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from app.domain.model.change import SourceValue
from app.domain.model.table_options import BinaryEncoding
from app.domain.model.table_schema import MAX_DECIMAL_DIGITS, ColumnType, TypeName
from app.domain.model.written_number import as_json
from app.domain.rows.value_reading import PLAIN, UTC_NAME, ValueReading

INTEGER_BITS: Final = {TypeName.INT16: 16, TypeName.INT32: 32, TypeName.INT64: 64}
_NONE: Final = type(None)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_DATE: Final = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T]00(?::00(?::00(?:\.0+)?)?)?)?", re.ASCII)
_SENTINEL: Final = re.compile(
    r"(?P<last>\+?infinity|\d{5,6}-\d\d-\d\d\b.*)|-infinity|-\d+-\d\d-\d\d\b.*|0000-\d\d-\d\d\b.*",
    re.ASCII | re.IGNORECASE,
)
"""What databases write for moments beyond the years 1 to 9999, and MySQL for no moment at all."""
_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(?: ?(Z|[+-]\d\d(?::?\d\d)?))?)?", re.ASCII
)
_EXACT: Final = Context(prec=MAX_DECIMAL_DIGITS, traps=[Inexact, InvalidOperation], Emax=9999, Emin=-9999)
_NOT_FINITE: Final = re.compile(r"[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_JSON_DECODER: Final = msgspec.json.Decoder(msgspec.Raw)
_JSON_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_json)
_FIRST_DATE: Final = date.min
_LAST_DATE: Final = date.max
_FIRST_TIMESTAMP: Final = datetime.min
_LAST_TIMESTAMP: Final = datetime.max
_LAST_ZONED: Final = datetime(2037, 1, 1)
"""Beyond it the kernel knows none of a zone's rules, only the changes that the zone's file lists."""
_OFFSET_BYTES: Final = 4
_UTC_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


class BadValues(Exception):
    """Some values do not fit the type: their positions in the column, each with a reason without the value."""

    def __init__(self, reasons: dict[int, str]) -> None:
        super().__init__(f"{len(reasons)} values do not fit")
        self.reasons = reasons


def convert(values: Sequence[SourceValue], column_type: ColumnType, reading: ValueReading = PLAIN) -> pa.Array:
    """One column's values as an Arrow array of `column_type.arrow`, None as NULL. Raises BadValues."""
    try:
        texts = pa.array(values, pa.string())
    except pa.ArrowTypeError:
        pass  # not all of them are texts
    else:
        return convert_texts(texts, column_type, reading)
    if column_type.name in INTEGER_BITS and {*map(type, values)} <= {int, _NONE}:
        try:
            return pa.array(values, column_type.arrow)
        except (OverflowError, pa.ArrowInvalid):
            pass  # the definition below finds which value it is
    return _by_definition(values, column_type, reading)


def convert_texts(texts: pa.StringArray, column_type: ColumnType, reading: ValueReading = PLAIN) -> pa.Array:
    """As `convert`, of values that are all texts. Raises BadValues."""
    converted = _from_text(texts, column_type, reading)
    return converted if converted is not None else _by_definition(texts.to_pylist(), column_type, reading)


def scalar(value: SourceValue, column_type: ColumnType, reading: ValueReading = PLAIN) -> Any:
    """The definition: the Python form of one value. Raises ValueError with a reason that omits the value."""
    return None if value is None else _DEFINITIONS[column_type.name](value, column_type, reading)


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
    """The kernel's answer, or None where only the definition may decide."""
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
    """Whether the kernel cannot have accepted more than the definition does."""
    if column_type.name in INTEGER_BITS:
        return not hold_any(texts, b"xX")
    if column_type.name in {TypeName.FLOAT32, TypeName.FLOAT64}:
        return pc.all(pc.is_finite(array)).as_py() is not False and not _may_underflow(texts, array)
    if column_type.name is TypeName.DATE:
        return pc.any(pc.less(array, _FIRST_DATE)).as_py() is not True
    return column_type.name is not TypeName.DECIMAL or _cannot_wrap(texts, column_type.scale)


def _may_underflow(texts: pa.StringArray, array: pa.Array) -> bool:
    """Whether some text that is not zero became zero."""
    zeros = pc.equal(array, 0)
    return pc.any(zeros).as_py() is True and (
        pc.any(pc.match_substring_regex(texts.filter(zeros), "^[^eE]*[1-9]")).as_py() is True
    )


def _cannot_wrap(texts: pa.StringArray, scale: int) -> bool:
    """Whether no text becomes a number of more than 38 digits at this scale: the decimal kernel wraps there,
    silently."""
    if hold_any(texts, b"eE"):
        return False
    point = pc.find_substring(texts, ".")
    whole = pc.if_else(pc.less(point, 0), pc.binary_length(texts), point)
    return (pc.max(whole).as_py() or 0) + scale <= MAX_DECIMAL_DIGITS


def hold_any(texts: pa.StringArray, parts: Iterable[int | bytes]) -> bool:
    """Whether one of these bytes, or runs of bytes, stands in some text, or perhaps only where two texts meet.

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
    try:
        local = pc.cast(texts, pa.timestamp("us"))
    except pa.ArrowInvalid:
        array = pc.cast(texts, _UTC_TIMESTAMP)
    else:
        if _is_beyond(local) or (zone != UTC_NAME and pc.any(pc.greater(local, _LAST_ZONED)).as_py()):
            return None
        array = pc.cast(pc.assume_timezone(local, zone, ambiguous="earliest"), _UTC_TIMESTAMP)
    return None if _is_beyond(array) else array


def beyond_calendar(array: pa.TimestampArray | pa.Date32Array) -> pa.BooleanArray:
    """Which moments or days lie outside the years 1 to 9999."""
    if pa.types.is_date(array.type):
        return pc.or_(pc.less(array, _FIRST_DATE), pc.greater(array, _LAST_DATE))
    moments = pc.cast(array, pa.timestamp("us"))
    return pc.or_(pc.less(moments, _FIRST_TIMESTAMP), pc.greater(moments, _LAST_TIMESTAMP))


def _is_beyond(array: pa.TimestampArray) -> bool:
    """Whether some moment lies outside the years 1 to 9999."""
    return pc.any(beyond_calendar(array)).as_py() is True


def _boolean(value: SourceValue, _: ColumnType, __: ValueReading) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return value == 1
    if isinstance(value, str) and value.lower() in {"true", "1", "false", "0"}:
        return value.lower() in {"true", "1"}
    raise ValueError("is not true, false, 1 or 0")


def _number(value: SourceValue) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise ValueError("is not a number")
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        raise ValueError("is not a decimal number")
    return Decimal(value)


def _integer(value: SourceValue, column_type: ColumnType, _: ValueReading) -> int:
    number = _number(value)
    bits = INTEGER_BITS[column_type.name]
    if number.adjusted() > 20 or not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
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
        number = float(pc.cast(pa.scalar(number), pa.float32()).as_py())
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
    """The first or last moment for a text that stands for one beyond it, where the options say so."""
    found = _SENTINEL.fullmatch(value) if reading.saturates else None
    if found is None:
        return None
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
    try:
        local = moment.replace(tzinfo=reading.zone_info if zone is None else _offset(zone))
        utc = local.astimezone(UTC)
        is_skipped = utc.astimezone(local.tzinfo).replace(tzinfo=None) != moment
    except OverflowError:
        if reading.saturates:
            return (_FIRST_TIMESTAMP if moment.year == 1 else _LAST_TIMESTAMP).replace(tzinfo=UTC)
        raise ValueError("is beyond the calendar in UTC; see the option out_of_range") from None
    except ValueError:
        raise ValueError("is not a moment of the calendar") from None
    if is_skipped:
        raise ValueError("is skipped where the clocks of source_timezone go forward")
    return utc


def _offset(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    if int(digits[2:]) > 59:
        raise ValueError("minutes of the zone offset")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[0] == "-" else offset)


def _string(value: SourceValue, _: ColumnType, __: ValueReading) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | Decimal):
        return str(value)
    return _JSON_ENCODER.encode(value).decode()


def _json(value: SourceValue, _: ColumnType, __: ValueReading) -> str:
    if isinstance(value, str):
        try:
            _JSON_DECODER.decode(value)
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise ValueError("is not JSON text") from None
        except RecursionError:
            raise ValueError("is JSON nested too deeply") from None
        return value
    return _JSON_ENCODER.encode(value).decode()


def _binary(value: SourceValue, _: ColumnType, reading: ValueReading) -> bytes:
    is_hex = reading.binary is BinaryEncoding.HEX
    try:
        if isinstance(value, str):
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
