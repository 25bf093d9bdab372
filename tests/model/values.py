"""Random values of each column type."""

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

from tests.support.forms.values import EPOCH, FIRST, LAST, NO_NUMBERS, Column

KINDS: Final = ("boolean", "int16", "int32", "int64", "float32", "float64", "decimal", "date", "timestamp", "string",
                "string", "binary", "json")  # fmt: skip
KEY_KINDS: Final = ("int32", "int64", "int64", "string", "string", "date", "binary", "timestamp", "decimal")
_BITS: Final[Mapping[str, int]] = {"int16": 15, "int32": 31, "int64": 63}
_TEXTS: Final = ("", " x ", "NULL", "a,b", '"', "'", "\\", "line\r\nbreak", "tab\t", "é", "e\u0301", "ß", "ss", "K",
                 "🐘", "{}", "0", "true", "None", "\u2028", "x" * 300)  # fmt: skip
_JSON: Final = ('{"a":[1,"\\"x\\""],"b":null}', "[]", "{}", '"text"', '{"é":"\\\\","c":1.50}', "[1e5,-0]", "1", "true")


def random_value(rng: Random, column: Column, *, is_key: bool = False) -> Any:
    """Return a value; a tenth of them are at an edge of the type."""
    if column.nullable and rng.random() < 0.12:
        return None
    made = _RANDOM[column.kind](rng, column)
    if is_key and column.kind == "string" and rng.random() < 0.8:  # else keys would be few
        return f"{made}{rng.randrange(10**6)}"
    return made


def _integer(rng: Random, column: Column) -> int:
    bits = _BITS[column.kind]
    if rng.random() < 0.1:
        return rng.choice((0, -1, 2**bits - 1, -(2**bits)))
    return rng.randrange(-(2 ** min(bits, 40)), 2 ** min(bits, 40))


def _float(rng: Random, column: Column) -> float:
    if rng.random() < 0.15:
        large = (3.4028234663852886e38, 1.401298464324817e-45)
        small = (1.7976931348623157e308, 5e-324, 0.1)
        edges = (*(large if column.kind == "float32" else small), 0.0, *NO_NUMBERS.values())
        return rng.choice(edges)
    value = rng.uniform(-1e6, 1e6)
    return float(struct.unpack("f", struct.pack("f", value))[0]) if column.kind == "float32" else value


def _decimal(rng: Random, column: Column) -> Decimal:
    precision, scale = column.precision
    most = 10**precision - 1
    unscaled = (
        rng.choice((most, -most, 0)) if rng.random() < 0.1 else rng.randrange(-min(most, 10**9), min(most, 10**9))
    )
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _date(rng: Random, _: Column) -> date:
    if rng.random() < 0.1:
        return rng.choice((date.min, date.max, date(1582, 10, 15), date(1970, 1, 1), date(2024, 2, 29)))
    return date.fromordinal(rng.randrange(date(1900, 1, 1).toordinal(), date(2100, 1, 1).toordinal()))


def _moment(rng: Random, _: Column) -> datetime:
    if rng.random() < 0.1:
        return rng.choice((FIRST, LAST, EPOCH, datetime(1890, 6, 1, 12, tzinfo=UTC)))
    micros = rng.randrange(-(10**15), 4 * 10**15)
    return EPOCH + timedelta(microseconds=rng.choice((1, 10**3, 10**6)) * (micros // 10**6) + micros)


def _text(rng: Random, _: Column) -> str:
    if rng.random() < 0.25:
        return rng.choice(_TEXTS)
    return "".join(rng.choices("abcdefghij ÄÖü0123456789-_", k=rng.randrange(1, 12)))


def _bytes(rng: Random, _: Column) -> bytes:
    return rng.randbytes(rng.randrange(9))


_RANDOM: Final[Mapping[str, Callable[[Random, Column], Any]]] = {
    "boolean": lambda rng, _: rng.random() < 0.5, "int16": _integer, "int32": _integer, "int64": _integer,
    "float32": _float, "float64": _float, "decimal": _decimal, "date": _date, "timestamp": _moment, "string": _text,
    "binary": _bytes, "json": lambda rng, _: rng.choice(_JSON),
}  # fmt: skip


def landed_value(value: Any) -> Any:
    """Return a value of a landing file so that equal ones compare as equal."""
    return "NaN" if isinstance(value, float) and value != value else value
