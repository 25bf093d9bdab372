"""Random values of the kinds in `kinds`, with the extremes that statistics and casts get wrong."""

import datetime
import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Final

Value = object
Draw = Callable[[random.Random], Value]

_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_TEXTS: Final = (
    "",
    " ",
    "null",
    "NULL",
    "a",
    "A",
    "a ",
    "'; --",
    'say "no"',
    "back\\slash",
    "line\nbreak",
    "ünïcode ✓",
    "u\u0308",
    "\U0001f600",
    "x" * 40,
    "x" * 40 + "y",
    "x" * 2_000,
)
_FLOATS: Final = (0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324, 1e300, 0.1)
_SINGLES: Final = (0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 0.5, 2.0**100)
_MICROSECONDS_A_DAY: Final = 86_400_000_000


def integers(low: int, high: int) -> Draw:
    """Draw integers of a range, often its ends, often small ones."""

    def draw(source: random.Random) -> Value:
        roll = source.random()
        if roll < 0.1:
            return source.choice((low, high, max(low, -1), 0))
        return source.randint(max(low, -100), min(high, 100)) if roll < 0.5 else source.randint(low, high)

    return draw


def decimals(precision: int, scale: int) -> Draw:
    """Draw decimals of a precision and scale, often the largest ones, which a 64-bit float cannot tell apart."""
    most = 10**precision - 1

    def draw(source: random.Random) -> Value:
        digits = most - source.randint(0, 3) if source.random() < 0.3 else source.randint(0, most)
        return Decimal((source.randint(0, 1), tuple(map(int, str(digits))), -scale))

    return draw


def days(source: random.Random) -> Value:
    """Draw dates from year 1 to year 9999, mostly of this century."""
    if source.random() < 0.1:
        return source.choice((datetime.date.min, datetime.date.max, datetime.date(1969, 12, 31)))
    return datetime.date.fromordinal(_DAY + source.randint(10_000, 20_000))


def moments(unit_microseconds: int = 1) -> Draw:
    """Draw instants as microseconds since 1970, whole multiples of a unit; some differ by one unit only."""

    def draw(source: random.Random) -> Value:
        roll = source.random()
        if roll < 0.1:
            day = source.choice((-719_162, 2_932_896, -1))  # 0001-01-01, 9999-12-31, 1969-12-31
            return day * _MICROSECONDS_A_DAY + source.randrange(0, 1_000_000, unit_microseconds)
        base = 1_700_000_000_000_000 if roll < 0.5 else source.randrange(10**15, 2 * 10**15)
        base -= base % unit_microseconds
        return base + unit_microseconds * source.randint(0, 2_000)

    return draw


def nanoseconds(source: random.Random) -> Value:
    """Draw instants as nanoseconds since 1970, not before it: the rules do not say how a part of -1 us is rounded."""
    return 1_700_000_000_000_000_000 + source.randint(0, 10**12)


def texts(source: random.Random) -> Value:
    """Draw texts."""
    return source.choice(_TEXTS) if source.random() < 0.5 else f"text {source.randrange(10**6)}"


def binaries(source: random.Random) -> Value:
    """Draw bytes that are not UTF-8, or empty."""
    return source.choice((b"", b"\x00", b"\xff\xfe")) if source.random() < 0.3 else source.randbytes(6)


def blocks(source: random.Random) -> Value:
    """Draw bytes of a fixed size, four."""
    return source.randbytes(4)


def floats(source: random.Random) -> Value:
    """Draw 64-bit floats with NaN, the infinities and both zeros."""
    return source.choice(_FLOATS) if source.random() < 0.5 else source.uniform(-1e6, 1e6)


def singles(source: random.Random) -> Value:
    """Draw floats that 32 bits hold exactly."""
    return source.choice(_SINGLES) if source.random() < 0.5 else source.randint(-(2**20), 2**20) / 8


def halves(source: random.Random) -> Value:
    """Draw floats that 16 bits hold exactly."""
    return source.randint(-1024, 1024) / 4


def booleans(source: random.Random) -> Value:
    """Draw booleans."""
    return source.random() < 0.5


def lists(source: random.Random) -> Value:
    """Draw lists of integers, one of which is NULL."""
    return tuple(source.choice((None, 1, 2, 3)) for _ in range(source.randint(0, 3)))


def structs(source: random.Random) -> Value:
    """Draw structs as their members' values."""
    return (source.choice((None, 1, 2)), source.choice((None, "", "text")))
