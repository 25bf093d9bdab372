"""Days and parts of a second since 1970 -> texts of ISO 8601, also beyond the years 1 to 9999, where `datetime` ends.

Postgres's `infinity` has no number of its own: each client counts on from the number that stands for it. What those of
Debezium and others write was observed with Debezium 3.6 and Postgres 15; the days differ between its snapshots, which
pass JDBC and the time zone of the JVM, and its stream.

Invariant: no number passes through float, and no digit of a second is dropped.
"""

from datetime import date, datetime, timedelta
from typing import Final

INFINITY: Final = "infinity"
MINUS_INFINITY: Final = "-infinity"
INFINITE_DAYS: Final = frozenset({-2_147_472_692, -622_191_235, -622_191_234, -622_191_233})
"""Days that are `infinity` although they are negative: 2^31 - 1 days after 2000, and the year 292278994, in 32 bits."""

_MINUS_INFINITE_DAYS: Final = frozenset({-2_147_472_691, -625_821_273, -625_821_272, -625_821_271})
_INFINITE_MICROSECONDS: Final = {9_223_372_036_825_200_000: INFINITY, -9_223_372_036_832_400_000: MINUS_INFINITY}
_OVERFLOWN: Final = {2**63 - 1: INFINITY, -(2**63): MINUS_INFINITY}
"""What an integer of 64 bits is where the timestamp does not fit it."""
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_CYCLE_DAYS: Final = 146_097
_CYCLE_YEARS: Final = 400
_SECONDS_OF_DAY: Final = 86_400


def date_text(days: int) -> str:
    """Return the date that is this many days after 1970-01-01, or `infinity` or `-infinity`."""
    if days in INFINITE_DAYS:
        return INFINITY
    return MINUS_INFINITY if days in _MINUS_INFINITE_DAYS else _day(days)


def timestamp_text(count: int, per_second: int) -> str:
    """Return the timestamp that is this many parts of a second after 1970, or `infinity` or `-infinity`."""
    infinity = _OVERFLOWN.get(count) or _INFINITE_MICROSECONDS.get(count * (1_000_000 // per_second or 1))
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
