"""Functions from decoded Avro values to the JSON that the gateway reads. No value is rounded.

A date or timestamp beyond the years 1 to 9999 becomes a string of ISO 8601, which the gateway rejects or saturates as
the table's options say. A time outside a day, as MySQL has negative ones, becomes the digits of its number. All others
are as msgspec writes them: a value's text does not depend on those beside it.
"""

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from app.domain.model.written_values import INFINITY, MINUS_INFINITY, date_text, timestamp_text

Convert = Callable[[Any], Any]
_EPOCH: Final = datetime(1970, 1, 1)
_MICROS: Final = 10**6


def hexadecimal(value: bytes) -> str:
    r"""Return the digits after `\x`, which a `binary` column takes whatever its encoding is."""
    return f"\\x{value.hex()}"


def digits(value: bytes) -> str:
    """Return the digits that a mask of Replicate has."""
    return value.hex()


def finite(value: float) -> float | str:
    """Return the number; the string `NaN`, `Infinity` or `-Infinity` for what JSON has no number for."""
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


def timestamp_of(per_second: int, zone: str) -> Callable[[int], str]:
    """Return the function from units since 1970 to the timestamp's text, with all its digits and `zone` at its end."""
    micros = _MICROS // per_second

    def text(value: int) -> str:
        try:
            moment = (_EPOCH + timedelta(microseconds=value * micros)).isoformat() if micros else None
        except OverflowError:
            moment = None
        moment = moment or timestamp_text(value, per_second)
        return moment if moment in (INFINITY, MINUS_INFINITY) else f"{moment}{zone}"

    return text


def time_of(per_second: int) -> Callable[[int], str]:
    """Return the function from units since midnight to the time's text."""
    digits = len(str(max(per_second, _MICROS))) - 1
    scale = 10**digits // per_second

    def text(value: int) -> str:
        seconds, fraction = divmod(value, per_second)
        if not 0 <= seconds < 86_400:
            return str(value)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        return f"{clock}.{fraction * scale:0{digits}d}" if fraction else clock

    return text


_UNITS: Final = {"millis": 10**3, "micros": _MICROS, "nanos": 10**9}


def temporal(meaning: str) -> Convert:
    """Return the function of a logical type that is a date, a time or a timestamp."""
    kind, _, unit = meaning.rpartition("-")
    if meaning == "date":
        return date_text
    if kind == "time":
        return time_of(_UNITS[unit])
    return timestamp_of(_UNITS[unit], "" if kind.startswith("local") else "Z")


_TIMES: Final = frozenset({"time-millis", "time-micros", "time-nanos"})
NATIVE: Final = frozenset(
    {"date", "timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros"}
)
"""Logical types that fastavro reads into the values which msgspec writes as ISO 8601, both without Python code.

Not times: of a negative one, fastavro makes another.
"""
TEMPORAL: Final = NATIVE | _TIMES | {"timestamp-nanos", "local-timestamp-nanos"}
