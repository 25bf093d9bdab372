"""Values as exact text: dates and times beyond the range of `datetime`, and JSON numbers that land in string columns.

`date_text`, `timestamp_text` and `fraction_text` turn days and parts of a second since 1970 into strings of ISO 8601,
also beyond the years 1 to 9999, where `datetime` ends. Postgres's `infinity` has no number: each client continues from
the number that means it. The numbers that Debezium and others write were observed with Debezium 3.6 and Postgres 15;
the days differ between Debezium's snapshots, which pass JDBC and the time zone of the JVM, and its stream. Invariant:
no number passes through float, and no digit of a second is dropped.

`WrittenNumber` keeps the text of a JSON number that lands in a string column exactly as it was written. A Decimal keeps
the digits of a number and not its spelling: 1e5 would land as `1E+5`, 0.0000001 as `1E-7`. msgspec reads `-0` as the
integer 0, so `keep_minus_zeros` puts a placeholder in its place before decoding.
"""

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import msgspec

INFINITY: Final = "infinity"
MINUS_INFINITY: Final = "-infinity"
INFINITE_DAYS: Final = frozenset({-2_147_472_692, -622_191_235, -622_191_234, -622_191_233})
"""Days that are `infinity` although they are negative: 2^31 - 1 days after 2000, and the year 292278994, in 32 bits."""

_MINUS_INFINITE_DAYS: Final = frozenset({-2_147_472_691, -625_821_273, -625_821_272, -625_821_271})
_INFINITE_MICROSECONDS: Final = {9_223_372_036_825_200_000: INFINITY, -9_223_372_036_832_400_000: MINUS_INFINITY}
_OVERFLOWN: Final = {2**63 - 1: INFINITY, -(2**63): MINUS_INFINITY}
"""Integer of 64 bits that a timestamp becomes if it does not fit."""
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_CYCLE_DAYS: Final = 146_097
_CYCLE_YEARS: Final = 400
_SECONDS_OF_DAY: Final = 86_400
_MICROSECONDS: Final = 1_000_000
"""Of a second. Nanoseconds have no infinity but `_OVERFLOWN`, because their 64 bits end before it."""


def date_text(days: int) -> str:
    """Return the date that is this many days after 1970-01-01, or `infinity` or `-infinity`."""
    if days in INFINITE_DAYS:
        return INFINITY
    return MINUS_INFINITY if days in _MINUS_INFINITE_DAYS else _day(days)


def timestamp_text(count: int, per_second: int) -> str:
    """Return the timestamp that is this many parts of a second after 1970, or `infinity` or `-infinity`."""
    infinity = _OVERFLOWN.get(count) or _INFINITE_MICROSECONDS.get(count * (_MICROSECONDS // per_second))
    if infinity is not None:
        return infinity
    seconds, part = divmod(count, per_second)
    try:
        return (_EPOCH + timedelta(seconds=seconds)).isoformat(" ") + fraction_text(part, per_second)
    except OverflowError:
        days, second = divmod(seconds, _SECONDS_OF_DAY)
        time = (_EPOCH + timedelta(seconds=second)).time()
        return f"{_day(days)} {time.isoformat()}{fraction_text(part, per_second)}"


def fraction_text(part: int, per_second: int) -> str:
    """Return parts of a second with the point before them, nothing for none."""
    return f".{part:0{len(str(per_second)) - 1}}" if part else ""


def year_text(year: int) -> str:
    """Return a year as ISO 8601 has it: four digits, or a sign and at least four."""
    return f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"


def _day(days: int) -> str:
    """Return a date of the Gregorian calendar, which repeats itself after 400 years."""
    cycles, ordinal = divmod(_EPOCH_ORDINAL + days - 1, _CYCLE_DAYS)
    day = date.fromordinal(ordinal + 1)
    return f"{year_text(day.year + _CYCLE_YEARS * cycles)}-{day.month:02}-{day.day:02}"


_MINUS_ZERO: Final = "-0"
_PLACEHOLDER: Final = "-0.0e-0000000"
_MAY_HOLD_MINUS_ZERO: Final = re.compile(rb"-0[ \t\r\n,}\]]")
"""A first search, in a quarter of the time that four searches for the possible bytes before `-0` take."""

_HOLDS_MINUS_ZERO: Final = re.compile(rb"[:,\[][ \t\r\n]*+-0[ \t\r\n,}\]]")
_TEXT_OR_MINUS_ZERO: Final = re.compile(rb'("(?:[^"\\]++|\\.)*+")|(?<![eE])-0(?=[ \t\r\n,}\]])', re.DOTALL)
_MIN_EXPONENT_WITHOUT_E: Final = -6
"""The power of ten below which Decimal writes an exponent."""


class WrittenNumber(Decimal):
    """A number whose text differs from the one that Decimal gives it."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "WrittenNumber":
        """Return the number with this text."""
        self = super().__new__(cls, text)
        self.text = text
        return self

    def __str__(self) -> str:
        return self.text


def fraction(text: str) -> Decimal:
    """Return a JSON number with a point or an exponent, exactly. Raises ArithmeticError for a huge exponent."""
    number = Decimal(text)
    if "e" in text or "E" in text or number.adjusted() < _MIN_EXPONENT_WITHOUT_E:
        return WrittenNumber(_MINUS_ZERO if text == _PLACEHOLDER else text)
    return number


def keep_minus_zeros(body: bytes) -> bytes:
    """Return a JSON body with `-0` replaced by the placeholder that `fraction` reads."""
    if b"-" not in body or not _MAY_HOLD_MINUS_ZERO.search(body) or not _HOLDS_MINUS_ZERO.search(body):
        return body
    return _TEXT_OR_MINUS_ZERO.sub(lambda found: found[1] or _PLACEHOLDER.encode(), body)


def as_json(value: Any) -> msgspec.Raw:
    """Encode a number as it was written; an `enc_hook` for source values."""
    return msgspec.Raw(_written(value).encode())


def as_kept(value: Any) -> msgspec.Raw:
    """Encode a number so that `fraction` reads it again; an `enc_hook` for row images."""
    text = _written(value)
    return msgspec.Raw((_PLACEHOLDER if text == _MINUS_ZERO else text).encode())


def _written(value: Any) -> str:
    if isinstance(value, WrittenNumber):
        return value.text
    raise NotImplementedError  # so msgspec says which type it cannot encode


JSON_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_json)
"""Encodes source values."""
