"""Debezium's and Connect's numbers for dates and times -> strings that columns of these types read.

Dates count days, times and timestamps milliseconds, microseconds or nanoseconds since 1970; a timestamp without a zone
is written as if it were in UTC. So its text has no offset, and the table's option `source_timezone` applies. Source:
"Temporal types" in Debezium's descriptions of its connectors.

Invariant: no number passes through float, and no digit of a second is dropped.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from app.domain.model.written_values import (
    INFINITY,
    MINUS_INFINITY,
    date_text,
    fraction_text,
    timestamp_text,
    year_text,
)

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


def _timestamp_reader(per_second: int) -> Callable[[Any], str]:
    return lambda value: moment_text(value, per_second)


def _time_reader(per_second: int) -> Callable[[Any], str]:
    return lambda value: time_text(value, per_second)


TIMESTAMP_READERS: Final = {unit: _timestamp_reader(per_second) for unit, per_second in PER_SECOND.items()}
"""By the unit of a request's parameter `timestamps`."""

READERS: Final[Mapping[str, Callable[[Any], str]]] = {
    "io.debezium.time.Date": day_text,
    "org.apache.kafka.connect.data.Date": day_text,
    "io.debezium.time.Timestamp": _timestamp_reader(PER_SECOND["millis"]),
    "org.apache.kafka.connect.data.Timestamp": _timestamp_reader(PER_SECOND["millis"]),
    "io.debezium.time.MicroTimestamp": _timestamp_reader(PER_SECOND["micros"]),
    "io.debezium.time.NanoTimestamp": _timestamp_reader(PER_SECOND["nanos"]),
    "io.debezium.time.Time": _time_reader(PER_SECOND["millis"]),
    "org.apache.kafka.connect.data.Time": _time_reader(PER_SECOND["millis"]),
    "io.debezium.time.MicroTime": _time_reader(PER_SECOND["micros"]),
    "io.debezium.time.NanoTime": _time_reader(PER_SECOND["nanos"]),
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
