"""The kinds of columns that publishers write: how a file holds them, and what a Delta table must hold after them.

A value is plain Python: instants and times of day are whole numbers of microseconds since their origin, a list is a
tuple, a struct is the tuple of its members. Two values that Python calls equal, but a table must not exchange (NaN and
NaN, 0.0 and -0.0), get a text in `exact`.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tests.mirror.model import values
from tests.mirror.model.values import Draw, Value


def unchanged(value: Value) -> Value:
    return value


def exact(value: Value) -> Value:
    """Return a float as a value that equals only the same float."""
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return "NaN"
    return "-0.0" if value == 0 and math.copysign(1, value) < 0 else value


@dataclass(frozen=True)
class Kind:
    """A column type of a landing file, and what becomes of its values."""

    arrow: pa.DataType
    delta: str
    """The type of the Delta column."""
    draw: Draw
    via: pa.DataType | None = None
    """The type that takes the values before the cast to `arrow`."""
    expected: Callable[[Value], Value] = unchanged
    """What the Delta table holds after a value."""
    is_key: bool = True
    """Whether equality of two values is beyond doubt; false for floats and nested values."""

    def array(self, drawn: Sequence[Value]) -> pa.Array:
        """Return drawn values as a column of a landing file."""
        if self.via is None:
            return pa.array(drawn, self.arrow)
        return pa.array(drawn, self.via).cast(self.arrow)

    def value(self, source: random.Random) -> Value:
        """Draw a value that is not NULL."""
        return self.draw(source)


def _integer(arrow: pa.DataType, delta: str, low: int, high: int) -> Kind:
    return Kind(arrow, delta, values.integers(low, high))


def _signed(bits: int, delta: str) -> Kind:
    return _integer(getattr(pa, f"int{bits}")(), delta, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _unsigned(bits: int, delta: str) -> Kind:
    return _integer(getattr(pa, f"uint{bits}")(), delta, 0, 2**bits - 1)


def _decimal(precision: int, scale: int) -> Kind:
    name = f"decimal({precision},{scale})"
    return Kind(pa.decimal128(precision, scale), name, values.decimals(precision, scale))


def _in_microseconds(nanoseconds: Value) -> Value:
    assert isinstance(nanoseconds, int)
    return nanoseconds // 1_000


def _instant(unit: str, zone: str | None, microseconds: int = 1) -> Kind:
    """Return a timestamp kind; Delta keeps microseconds, and takes a time without zone as UTC."""
    if unit == "ns":
        return Kind(pa.timestamp("ns", zone), "timestamp", values.nanoseconds, pa.int64(), _in_microseconds)
    draw = values.moments(microseconds)
    return Kind(pa.timestamp(unit, zone), "timestamp", draw, pa.timestamp("us", zone))


def _float(arrow: pa.DataType, delta: str, draw: Draw) -> Kind:
    return Kind(arrow, delta, draw, expected=exact, is_key=False)


def _text(arrow: pa.DataType) -> Kind:
    return Kind(arrow, "string", values.texts, pa.string())


OF_GATEWAY: Final[dict[str, Kind]] = {
    "bool": Kind(pa.bool_(), "boolean", values.booleans),
    "int16": _signed(16, "short"),
    "int32": _signed(32, "integer"),
    "int64": _signed(64, "long"),
    "float32": _float(pa.float32(), "float", values.singles),
    "float64": _float(pa.float64(), "double", values.floats),
    "decimal(9,2)": _decimal(9, 2),
    "decimal(18,4)": _decimal(18, 4),
    "decimal(38,10)": _decimal(38, 10),
    "date": Kind(pa.date32(), "date", values.days),
    "timestamp": _instant("us", "UTC"),
    "string": _text(pa.string()),
    "binary": Kind(pa.binary(), "binary", values.binaries),
}
"""What the gateway's own files have."""

OF_OTHERS: Final[dict[str, Kind]] = {
    "int8": _signed(8, "byte"),
    "uint8": _unsigned(8, "short"),
    "uint16": _unsigned(16, "integer"),
    "uint32": _unsigned(32, "long"),
    "uint64": _unsigned(64, "decimal(20,0)"),
    "float16": _float(pa.float16(), "float", values.halves),
    "decimal(5,0)": _decimal(5, 0),
    "date64": Kind(pa.date64(), "date", values.days, pa.date32()),
    "timestamp[ns]": _instant("ns", "UTC"),
    "timestamp[ms]": _instant("ms", "UTC", 1_000),
    "timestamp without zone": _instant("us", None),
    "timestamp[ns] without zone": _instant("ns", None),
    "timestamp of a zone": _instant("us", "Europe/Berlin"),
    "large_string": _text(pa.large_string()),
    "dictionary": _text(pa.dictionary(pa.int32(), pa.string())),
    "large_binary": Kind(pa.large_binary(), "binary", values.binaries, pa.binary()),
    "fixed binary": Kind(pa.binary(4), "binary", values.blocks),
}
"""What files of other publishers have besides."""

KINDS: Final = OF_GATEWAY | OF_OTHERS
