"""The definition, value by value, of what each column type accepts from a source: exactly, or not at all.

`column_conversion` types whole columns with Arrow kernels and must agree with this module; where a kernel could accept
more, or rejects, this definition decides and names the values. Source: docs/formats.md, "Types".
"""

import binascii
import re
from collections.abc import Callable
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
from app.domain.rows.conversion.value_reading import PLAIN, ValueReading

_BOOLEANS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_HEX_PREFIX: Final = "\\x"
"""What Postgres writes before hexadecimal digits. Base64 has no backslash, so it says what follows it."""
INTEGER_BITS: Final = {TypeName.INT16: 16, TypeName.INT32: 32, TypeName.INT64: 64}
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
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
"""What databases and ISO 8601 write for times outside the years 1 to 9999, and MySQL for no time at all."""
_TIMESTAMP: Final = re.compile(
    rf"(\d{{4}}-\d\d-\d\d)(?:[ T](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(?: ?({_ZONE}))?)?", re.ASCII
)
_EXACT: Final = Context(prec=MAX_DECIMAL_DIGITS, traps=[Inexact, InvalidOperation], Emax=9999, Emin=-9999)
_NOT_FINITE: Final = re.compile(r"[+-]?(nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_JSON_DECODER: Final = msgspec.json.Decoder(msgspec.Raw)
_JSON_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_json)
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
    if isinstance(value, str) and (read := _BOOLEANS.get(value.lower())) is not None:
        return read
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
    """Return the first or last timestamp for a text that means one beyond it, if the options saturate.

    Raises ValueError with the option for such a text if they do not, but for MySQL's 0000-00-00.
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
