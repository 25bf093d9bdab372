"""Functions from decoded Avro values to the JSON that the gateway reads. No value is rounded.

A date, time or timestamp beyond the calendar becomes the digits of its number, so that the gateway rejects it by its
own rule, with table and column.
"""

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID

Convert = Callable[[Any], Any]

_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_LAST_DAY: Final = date.max.toordinal()


def hexadecimal(value: bytes) -> str:
    """Return the digits that a `binary` column and a mask of Replicate take."""
    return value.hex()


def finite(value: float) -> float | str:
    """Return the number; the text `NaN`, `Infinity` or `-Infinity` for what JSON has no number for."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def decimal_of(scale: int) -> Callable[[bytes], str]:
    """Return the function from the big-endian two's complement of an unscaled value to the decimal's text."""

    def text(value: bytes) -> str:
        unscaled = int.from_bytes(value, "big", signed=True)
        if not scale:
            return str(unscaled)
        digits = str(abs(unscaled)).rjust(scale + 1, "0")
        return f"{'-' if unscaled < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"

    return text


def uuid_text(value: bytes) -> str:
    """Return the text of a UUID of 16 bytes."""
    return str(UUID(bytes=value)) if len(value) == 16 else value.hex()


def date_text(days: int) -> str:
    """Return the day that is `days` after 1970-01-01."""
    ordinal = _EPOCH_DAY + days
    return date.fromordinal(ordinal).isoformat() if 1 <= ordinal <= _LAST_DAY else str(days)


def timestamp_of(per_second: int, zone: str) -> Callable[[int], str]:
    """Return the function from units since 1970 to the timestamp's text, with all its digits and `zone` at its end."""
    digits = len(str(per_second)) - 1

    def text(value: int) -> str:
        seconds, fraction = divmod(value, per_second)
        try:
            moment = _EPOCH + timedelta(seconds=seconds)
        except OverflowError:
            return str(value)
        return f"{moment.isoformat(' ')}.{fraction:0{digits}d}{zone}"

    return text


def time_of(per_second: int) -> Callable[[int], str]:
    """Return the function from units since midnight to the time's text."""
    digits = len(str(per_second)) - 1

    def text(value: int) -> str:
        seconds, fraction = divmod(value, per_second)
        if not 0 <= seconds < 86_400:
            return str(value)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return f"{clock}.{fraction:0{digits}d}" if fraction else clock

    return text


_UNITS: Final = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}


def temporal(meaning: str) -> Convert:
    """Return the function of a logical type that is a date, a time or a timestamp."""
    kind, _, unit = meaning.rpartition("-")
    if meaning == "date":
        return date_text
    if kind == "time":
        return time_of(_UNITS[unit])
    return timestamp_of(_UNITS[unit], "" if kind.startswith("local") else "Z")


NATIVE: Final = frozenset(
    {
        "date",
        "time-millis",
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
    }
)
"""Logical types that fastavro reads into the values which msgspec writes as ISO 8601, both without Python code."""
TEMPORAL: Final = NATIVE | {"time-nanos", "timestamp-nanos", "local-timestamp-nanos"}
