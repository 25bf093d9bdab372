"""Values of Debezium events -> source values that columns of the table read, one reader per column.

With a Connect field, its semantic type says what a value means. Without one the column's type does, as far as it can:
the days of a date, and what the request says of timestamps and decimals. docs/reference/debezium.md lists all types.

Dates count days, times and timestamps milliseconds, microseconds or nanoseconds since 1970; a timestamp without a zone
is written as if it were in UTC. So its text has no offset, and the table's option `source_timezone` applies. Source:
"Temporal types" in Debezium's descriptions of its connectors.

An update omits values that the connector could not read and that did not change. Postgres omits unchanged TOAST values,
Oracle unchanged LOBs. The placeholder is `__debezium_unavailable_value` or that of the connector's property
`unavailable.value.placeholder`; bytes, arrays and maps have it in their own form. Source: "Toasted values" in
Debezium's description of the connector for PostgreSQL.

Invariant: a value is the same afterwards, to the last digit, or ValueError says why not, without the value. No number
passes through float.
"""

import binascii
import hashlib
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from functools import lru_cache, partial
from typing import Any, Final, Self, TypeAlias
from uuid import UUID

import msgspec

from app.domain.model.change import SourceValue
from app.domain.model.table_options import DEFAULT_OPTIONS, BinaryEncoding, TableOptions, TimestampUnit
from app.domain.model.table_schema import Column, TypeName
from app.domain.model.written_values import (
    INFINITY,
    MINUS_INFINITY,
    date_text,
    fraction_text,
    timestamp_text,
    year_text,
)
from app.formats.debezium.connect_schema import DECIMAL, MAX_SCALE, VARIABLE_DECIMAL, ConnectField
from mirrorgate.errors import Code, RejectedInput

PER_SECOND: Final = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_NANOSECONDS: Final = re.compile(r"(\.\d{6})\d+", re.ASCII)
_MAX_DAYS: Final = 2**31
"""Days are integers of 32 bits; a larger number counts something else, such as milliseconds."""
_INFINITE_DATE: Final = re.compile(r"-5877611-06-21|\+292278994-08-1[5-7]|(\+292269055-12-0[1-3]|-5877611-06-22)")
"""Postgres's `infinity`, or else `-infinity`, as `time.precision.mode=isostring` writes dates of streams and snapshots:
overflown, as in `calendar_text`."""
_INFINITE_TIMESTAMP: Final = re.compile(
    r"\+294247-01-10T04:00:25\.2|\+292278994-08-1[5-7]T.+|(-290308-12-21T19:59:27\.6|\+292269055-12-0[1-3]T.+)"
)
"""The same for timestamps, those with a zone in arrays included, which lack the era of a year before 1."""


def day_text(days: Any) -> str:
    """Return the date that is this many days after 1970-01-01. Raises ValueError for another value."""
    _check_integer(days, "days since 1970")
    if not -_MAX_DAYS <= days < _MAX_DAYS:
        raise ValueError("is not a number of days since 1970: it has more than 32 bits")
    return date_text(days)


def moment_text(count: Any, per_second: int) -> str:
    """Return the timestamp that is this many parts of a second after 1970. Raises ValueError for another value."""
    _check_integer(count, f"a number of 1/{per_second} seconds since 1970")
    return timestamp_text(count, per_second)


def time_text(count: Any, per_second: int) -> str:
    """Return the time that is this many parts of a second after midnight; MySQL has negative and long ones."""
    _check_integer(count, f"a number of 1/{per_second} seconds")
    seconds, part = divmod(abs(count), per_second)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{'-' if count < 0 else ''}{hour:02}:{minute:02}:{second:02}{fraction_text(part, per_second)}"


def structured_text(value: Any) -> str:
    """Return a date, time or timestamp of `time.precision.mode=structured` as one string, with its offset, if any.

    Raises ValueError for an object with other parts.
    """
    if not isinstance(value, dict):
        raise ValueError("is not an object of years, hours and so on")
    if special := value.get("specialValue"):
        return MINUS_INFINITY if special == "NEGATIVE_INFINITY" else INFINITY
    year, month, day = (_part(value, name) for name in ("year", "month", "day"))
    hour, minute, second = (_part(value, name) for name in ("hour", "minute", "second"))
    nanos, offset = _part(value, "nanos") or 0, _part(value, "offsetSeconds")
    date_part = None if year is None else f"{year_text(year)}-{month or 0:02}-{day or 0:02}"
    if hour is None:
        return date_part or ""
    digits = f"{nanos:09}" if nanos % 1_000 else f"{nanos // 1_000:06}"
    time_part = f"{hour:02}:{minute or 0:02}:{second or 0:02}{f'.{digits}' if nanos else ''}{_offset_text(offset)}"
    return time_part if date_part is None else f"{date_part} {time_part}"


def without_nanoseconds(text: Any) -> Any:
    """Return the text of a timestamp without the digits below a microsecond; any other value as it is."""
    return _NANOSECONDS.sub(r"\1", text) if isinstance(text, str) else text


def iso_text(text: Any) -> str:
    """Return an ISO date, time or timestamp without its final `Z`: Debezium appends it to values that have no zone."""
    if not isinstance(text, str):
        raise ValueError("is not a string")
    return text.removesuffix("Z")


def iso_date_text(text: Any) -> str:
    """Return an ISO date without its final `Z`, and Postgres's `infinity` for what Debezium makes of it."""
    return _or_infinity(iso_text(text), _INFINITE_DATE)


def iso_timestamp_text(text: Any) -> str:
    """Return an ISO timestamp without its final `Z`, and Postgres's `infinity` for what Debezium makes of it."""
    return _or_infinity(iso_text(text), _INFINITE_TIMESTAMP)


def zoned_timestamp_text(text: Any) -> Any:
    """Return a timestamp with a zone, and Postgres's `infinity` for what Debezium makes of it in arrays."""
    return _or_infinity(text, _INFINITE_TIMESTAMP) if isinstance(text, str) else text


def _or_infinity(text: str, infinite: re.Pattern[str]) -> str:
    found = infinite.fullmatch(text)
    return text if found is None else MINUS_INFINITY if found[1] else INFINITY


def _part(value: Mapping[str, Any], name: str) -> int | None:
    part = value.get(name)
    if part is not None:
        _check_integer(part, "an object of whole numbers")
    return part


def _offset_text(seconds: int | None) -> str:
    if seconds is None:
        return ""
    minutes, second = divmod(abs(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{'-' if seconds < 0 else '+'}{hour:02}:{minute:02}{f':{second:02}' if second else ''}"


def _check_integer(value: Any, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"is not {what}")


TIMESTAMP_READERS: Final = {
    unit: partial(moment_text, per_second=per_second) for unit, per_second in PER_SECOND.items()
}
"""By the unit of a request's parameter `timestamps`."""

READERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "io.debezium.time.Date": day_text,
    "org.apache.kafka.connect.data.Date": day_text,
    "io.debezium.time.Timestamp": TIMESTAMP_READERS["millis"],
    "org.apache.kafka.connect.data.Timestamp": TIMESTAMP_READERS["millis"],
    "io.debezium.time.MicroTimestamp": TIMESTAMP_READERS["micros"],
    "io.debezium.time.NanoTimestamp": TIMESTAMP_READERS["nanos"],
    "io.debezium.time.Time": partial(time_text, per_second=PER_SECOND["millis"]),
    "org.apache.kafka.connect.data.Time": partial(time_text, per_second=PER_SECOND["millis"]),
    "io.debezium.time.MicroTime": partial(time_text, per_second=PER_SECOND["micros"]),
    "io.debezium.time.NanoTime": partial(time_text, per_second=PER_SECOND["nanos"]),
    "io.debezium.time.StructuredDate": structured_text,
    "io.debezium.time.StructuredTime": structured_text,
    "io.debezium.time.StructuredZonedTime": structured_text,
    "io.debezium.time.StructuredTimestamp": structured_text,
    "io.debezium.time.StructuredZonedTimestamp": structured_text,
    "io.debezium.time.IsoDate": iso_date_text,
    "io.debezium.time.IsoTime": iso_text,
    "io.debezium.time.IsoTimestamp": iso_timestamp_text,
}
"""By the semantic type of a Connect field."""

ELEMENT_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **READERS,
    "io.debezium.time.ZonedTimestamp": zoned_timestamp_text,
}
"""The same for elements of arrays, maps and structs."""


EVERY_COLUMN: Final = "*"
_UNITS: Final = ", ".join(TimestampUnit)


class DecimalForm(StrEnum):
    """Form of decimal columns' strings in events without a schema: digits, or base64 of Connect's bytes."""

    TEXT = "text"
    BASE64 = "base64"


class Nanoseconds(StrEnum):
    """Treatment of the digits below a microsecond of a timestamp: the event is rejected, or they are cut off."""

    REJECT = "reject"
    TRUNCATE = "truncate"


class Tombstones(StrEnum):
    """Meaning of a record with a key and without a value: none, or that the row with this key was deleted."""

    IGNORE = "ignore"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class DebeziumReading:
    """A request's parameters for its events."""

    keyed: bool | None = None
    """True if each element is a record `{"key": …, "value": …}`; None recognizes records by their shape."""
    key_columns: tuple[str, ...] = ()
    """The key columns of every table of the request; empty takes them from the key of each record."""
    timestamps: tuple[tuple[str, TimestampUnit], ...] = ()
    """Unit of integers, by column; `*` is every column that neither the request nor its table names."""
    decimals: DecimalForm = DecimalForm.TEXT
    tombstones: Tombstones | None = None
    """None ignores them, and rejects those that can be the only sign of a delete."""
    unavailable: tuple[str, ...] = ()
    """Placeholders of values that the connector could not read, beside Debezium's default."""
    nanoseconds: Nanoseconds = Nanoseconds.REJECT

    def unit_of(self, column: str, options: TableOptions) -> TimestampUnit | None:
        """Return what the integers of a timestamp column count, None if that is unknown."""
        given = dict(self.timestamps)
        return given.get(column) or options.unit_of(column) or given.get(EVERY_COLUMN)

    def to_json(self) -> dict[str, Any]:
        """Return the reading as it is stored with a dead letter."""
        return {**msgspec.to_builtins(self), "timestamps": dict(self.timestamps)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read a stored reading."""
        return msgspec.convert({**stored, "timestamps": tuple(stored["timestamps"].items())}, cls)


PLAIN_READING: DebeziumReading = DebeziumReading()


def parse_units(written: Sequence[str]) -> tuple[tuple[str, TimestampUnit], ...]:
    """Read the parameter `timestamps`, such as `created:millis` and `*:micros`. Raises RejectedInput `bad_request`."""
    found: dict[str, TimestampUnit] = {}
    for entry in written:
        column, colon, unit = entry.rpartition(":")
        if not colon or not column or unit not in {*TimestampUnit}:
            detail = (
                f"timestamps must be column:unit pairs with the units {_UNITS}, for example "
                "timestamps=created:millis,*:micros, where * is every other column: a connector can write milliseconds "
                "and microseconds in one row"
            )
            raise RejectedInput(Code.BAD_REQUEST, detail)
        if column in found:
            raise RejectedInput(Code.BAD_REQUEST, f"timestamps names the column {column!r} twice")
        found[column] = TimestampUnit(unit)
    return tuple(found.items())


DEFAULT_PLACEHOLDER: Final = "__debezium_unavailable_value"

IsUnavailable: TypeAlias = Callable[[Any], bool]


@lru_cache
def unavailable_values(placeholders: tuple[str, ...]) -> IsUnavailable:
    """Return the function that returns True if a value is one of these placeholders or Debezium's, in any form."""
    all_of_them = (DEFAULT_PLACEHOLDER, *placeholders)
    texts = placeholder_texts(placeholders)
    lists = [form for text in all_of_them for form in _list_forms(text)]
    objects = [{text: text} for text in all_of_them]

    def is_unavailable(value: Any) -> bool:
        if isinstance(value, str):
            return value in texts
        if isinstance(value, list):
            return value in lists
        return isinstance(value, dict) and value in objects

    return is_unavailable


def _list_forms(text: str) -> tuple[list[Any], ...]:
    """Return the placeholder as an array of strings, bytes, integers and UUIDs."""
    content = text.encode()
    name_based = UUID(bytes=hashlib.md5(content, usedforsecurity=False).digest(), version=3)
    return ([text], [b64encode(content).decode()], [*content], [str(name_based)])


@lru_cache
def placeholder_texts(placeholders: tuple[str, ...]) -> frozenset[str]:
    """Return these placeholders and Debezium's in all forms that are strings."""
    return frozenset(form for text in (DEFAULT_PLACEHOLDER, *placeholders) for form in _text_forms(text))


def _text_forms(text: str) -> tuple[str, ...]:
    """Return the placeholder as text, as bytes in each `binary.handling.mode`, and as a map written as text."""
    content = text.encode()
    encoded = (b64encode(content).decode(), urlsafe_b64encode(content).decode(), content.hex(), content.hex().upper())
    return (text, *encoded, f'{{"{text}":"{text}"}}')


ReadValue: TypeAlias = Callable[[Any], SourceValue]
"""Reads a value that is not NULL. Raises ValueError with a reason that omits the value."""

MAX_DECIMAL_BYTES: Final = 1_024
"""Bytes of one Connect decimal; 38 digits need 16."""

INTEGERS: Final = frozenset({TypeName.INT16, TypeName.INT32, TypeName.INT64})
_CONTAINERS: Final = frozenset({"array", "map", "struct"})
_OF_STRUCTS: Final = frozenset({VARIABLE_DECIMAL, *READERS})
_EXACT: Final = Context(prec=3 * MAX_DECIMAL_BYTES, Emax=99_999, Emin=-99_999)


class NeedsParameter(ValueError):
    """A value whose meaning only a parameter of the request or an option of the table can give."""


def field_reader(
    field: ConnectField, column: Column | None, options: TableOptions, reading: DebeziumReading = PLAIN_READING
) -> ReadValue | None:
    """Return the reader of a field's values for a column; None if they are read as they are written.

    `column` is None for a column that the table does not have. A column of integers keeps the numbers of dates and
    times.
    """
    read = _field_reader(field, column, options)
    return read if column is None else _in_microseconds(read, column, reading)


def _field_reader(field: ConnectField, column: Column | None, options: TableOptions) -> ReadValue | None:
    is_integer = column is not None and column.type.name in INTEGERS
    read = (ELEMENT_READERS if column is None else READERS).get(field.meaning)
    if read is not None:
        return None if is_integer and field.kind.startswith("int") else read
    if field.meaning == DECIMAL:
        return lambda value: decimal_text(value, field.scale)
    if field.meaning == VARIABLE_DECIMAL:
        return variable_decimal_text
    if column is not None and column.type.name is TypeName.BINARY:
        return _bytes_reader(options.encoding_of(column.name)) if field.kind == "bytes" else _encoded(column, options)
    if field.is_unsigned:
        return _unsigned
    if field.kind in _CONTAINERS and _has_meaning(field):
        return lambda value: nested_value(value, field)
    return None


def column_reader(column: Column, options: TableOptions, reading: DebeziumReading) -> ReadValue | None:
    """Return the reader of a column's values in events without a schema; None if they are read as they are written."""
    name = column.type.name
    if name is TypeName.DATE:
        return lambda value: day_text(value) if isinstance(value, int) else _iso(value)
    if name is TypeName.TIMESTAMP:
        unit = reading.unit_of(column.name, options)
        return _in_microseconds(lambda value: _timestamp(value, column.name, unit), column, reading)
    if name is TypeName.DECIMAL or name in INTEGERS:
        scale = column.type.scale if name is TypeName.DECIMAL else 0
        return lambda value: _number(value, scale, reading)
    if name is TypeName.BINARY:
        return _encoded(column, options)
    if name in {TypeName.STRING, TypeName.FLOAT32, TypeName.FLOAT64}:
        return lambda value: variable_decimal_text(value) if _is_variable_decimal(value) else value
    return None


def hides_unavailable(field: ConnectField | None, column: Column, options: TableOptions) -> bool:
    """Return True if NULL can also be a value that the connector could not read.

    `binary.handling.mode=base64` makes NULL of an unchanged TOASTed `bytea`; the other modes write a placeholder.
    """
    is_text_of_bytes = field is not None and field.kind == "string" and column.type.name is TypeName.BINARY
    return is_text_of_bytes and options.declared_encoding(column.name) is BinaryEncoding.BASE64


def decimal_text(value: Any, scale: int) -> SourceValue:
    """Return a Connect decimal as digits: base64 of its unscaled big-endian number, or the number itself.

    JsonConverter writes the number with `decimal.format=NUMERIC`.
    """
    if not isinstance(value, str):
        return value  # type: ignore[no-any-return]  # a JSON value; the column says whether it is a number
    content = _decoded(value, "is not base64 of a decimal")
    if not 1 <= len(content) <= MAX_DECIMAL_BYTES:
        raise ValueError("is not base64 of a decimal")
    if abs(scale) > _EXACT.Emax // 2:
        raise ValueError("has a scale that no decimal has")
    text = format(Decimal(int.from_bytes(content, "big", signed=True)).scaleb(-scale, _EXACT), "f")
    return text.rstrip("0").removesuffix(".") if scale > MAX_SCALE else text


def variable_decimal_text(value: Any) -> SourceValue:
    """Return a VariableScaleDecimal as digits."""
    if not _is_variable_decimal(value):
        return value  # type: ignore[no-any-return]  # a JSON value, which the column reads or rejects
    scale: int = value["scale"]
    if abs(scale) > MAX_DECIMAL_BYTES:
        raise ValueError("has a scale that no decimal has")
    return decimal_text(value["value"], scale)


def nested_value(value: Any, field: ConnectField) -> Any:
    """Return a part of an array, map or struct as in JSON: dates as strings, decimals as numbers, bytes in base64."""
    if value is None:
        return None
    if field.kind in _CONTAINERS and field.meaning not in _OF_STRUCTS:
        return _parts(value, field)
    read = field_reader(field, None, DEFAULT_OPTIONS)
    read_value = value if read is None else read(value)
    if field.meaning in {DECIMAL, VARIABLE_DECIMAL} and isinstance(read_value, str):
        return Decimal(read_value)
    return read_value


def _parts(value: Any, field: ConnectField) -> Any:
    """Return a container with its parts read; a value of another kind remains as it is."""
    if field.kind == "struct" and isinstance(value, dict):
        inner = field.by_name
        return {name: nested_value(part, inner[name]) if name in inner else part for name, part in value.items()}
    if field.items is not None and isinstance(value, list) and field.kind == "array":
        return [nested_value(part, field.items) for part in value]
    if field.items is not None and isinstance(value, dict) and field.kind == "map":
        return {name: nested_value(part, field.items) for name, part in value.items()}
    return value


def _in_microseconds(read: ReadValue | None, column: Column, reading: DebeziumReading) -> ReadValue | None:
    """Return a reader that cuts off the digits below a microsecond if the column is a timestamp and that was asked."""
    if column.type.name is not TypeName.TIMESTAMP or reading.nanoseconds is Nanoseconds.REJECT:
        return read
    if read is None:
        return without_nanoseconds
    return lambda value: without_nanoseconds(read(value))


def _has_meaning(field: ConnectField) -> bool:
    """Return True if a container has parts that are not read as they are written."""
    inner = (*field.fields, *(() if field.items is None else (field.items,)))
    return any(
        part.meaning in ELEMENT_READERS or part.meaning in {DECIMAL, VARIABLE_DECIMAL} or _has_meaning(part)
        for part in inner
    )


def _is_variable_decimal(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"scale", "value"}
        and isinstance(value["value"], str)
        and isinstance(value["scale"], int)
    )


def _iso(value: Any) -> Any:
    return iso_text(value) if isinstance(value, str) and value[-1:] == "Z" and "T" not in value else value


def _timestamp(value: Any, column: str, unit: TimestampUnit | None) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if unit is None:
        raise NeedsParameter(
            f"is a number, and nothing says what it counts: give timestamps={column}:millis, micros or nanos, or the "
            "column's option `unit`; or set time.precision.mode=isostring at the connector, or microseconds and give "
            "timestamps=*:micros"
        )
    return TIMESTAMP_READERS[unit](value)


def _encoded(column: Column, options: TableOptions) -> ReadValue | None:
    """Return the reader of strings of bytes in the encoding of the column, which only the options can say.

    Debezium writes base64 or hexadecimal digits, and many a string is both.
    """
    return None if options.declared_encoding(column.name) is not None else _unknown_encoding


def _unknown_encoding(_: Any) -> SourceValue:
    raise NeedsParameter(
        "is a string of bytes, and nothing says how it is encoded: set the table's option `binary_encoding` to base64, "
        "or to hex for binary.handling.mode=hex"
    )


def _unsigned(value: Any) -> SourceValue:
    if isinstance(value, int) and value < 0:
        detail = "is negative, and the source's type is BIGINT UNSIGNED: set bigint.unsigned.handling.mode=precise"
        raise ValueError(f"{detail} at the connector")
    return value  # type: ignore[no-any-return]  # a JSON value, which the column reads or rejects


def _number(value: Any, scale: int, reading: DebeziumReading) -> Any:
    if isinstance(value, str) and reading.decimals is DecimalForm.BASE64:
        return decimal_text(value, scale)
    return variable_decimal_text(value)


def _bytes_reader(encoding: BinaryEncoding) -> ReadValue:
    """Return the reader of base64, which JsonConverter writes for bytes, as a string in the column's encoding."""

    def read(value: Any) -> SourceValue:
        if not isinstance(value, str):
            raise ValueError("is not base64 text")
        content = _decoded(value, "is not base64 text")
        return content.hex() if encoding is BinaryEncoding.HEX else b64encode(content).decode()

    return read


def _decoded(text: str, reason: str) -> bytes:
    try:
        content = binascii.a2b_base64(text.encode(), strict_mode=True)
    except (binascii.Error, ValueError):
        raise ValueError(reason) from None
    return content
