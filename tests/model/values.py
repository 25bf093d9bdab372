"""Random values of each column type, and how sources spell them."""

import struct
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa

Row = dict[str, Any]
"""Values of a source row by column: as they land before masks and names are applied."""

KINDS: Final = ("boolean", "int16", "int32", "int64", "float32", "float64", "decimal", "date", "timestamp", "string",
                "string", "binary", "json")  # fmt: skip
KEY_KINDS: Final = ("int32", "int64", "int64", "string", "string", "date", "binary", "timestamp", "decimal")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
BAD: Final = "not a value"
"""What stands in a row that is to be rejected."""
_BITS: Final[Mapping[str, int]] = {"int16": 15, "int32": 31, "int64": 63}
_TEXTS: Final = ("", " x ", "NULL", "a,b", '"', "'", "\\", "line\r\nbreak", "tab\t", "é", "e\u0301", "ß", "ss", "K",
                 "🐘", "{}", "0", "true", "None", "\u2028", "x" * 300)  # fmt: skip
_JSON: Final = ('{"a":[1,"\\"x\\""],"b":null}', "[]", "{}", '"text"', '{"é":"\\\\","c":1.50}', "[1e5,-0]", "1", "true")
NO_NUMBERS: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@dataclass(frozen=True)
class Column:
    """A column of the source, with what its table says of its texts."""

    name: str
    kind: str
    zone: ZoneInfo
    nullable: bool = True
    encoding: str = "hex"
    saturates: bool = False
    declared: str = ""

    @property
    def precision(self) -> tuple[int, int]:
        """Digits of a decimal, and those after the point."""
        inside = self.declared.removeprefix("decimal(").removesuffix(")").split(",")
        return int(inside[0]), int(inside[1])

    @property
    def arrow(self) -> pa.DataType:
        """The type in the landing files."""
        if self.kind == "decimal":
            return pa.decimal128(*self.precision)
        return ARROW[self.kind]


ARROW: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "float32": pa.float32(),
    "float64": pa.float64(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "string": pa.string(),
    "binary": pa.binary(), "json": pa.string(),
}  # fmt: skip


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


def as_text(value: Any, column: Column, rng: Random) -> str:
    """Return one of the spellings of a value, which is not NULL, in a text."""
    if isinstance(value, bool):
        return rng.choice(("true", "1", "TRUE", "t") if value else ("false", "0", "False", "f"))
    if isinstance(value, int) and value > 0 and rng.random() < 0.1:
        return rng.choice((f"+{value}", f"00{value}", f"{value}.0"))
    if isinstance(value, float):
        return next((name for name, number in NO_NUMBERS.items() if repr(number) == repr(value)), repr(value))
    if isinstance(value, bytes):
        return b64encode(value).decode() if column.encoding == "base64" else value.hex()
    if isinstance(value, datetime):
        return _moment_text(value, column, rng)
    if isinstance(value, date):
        if value in (date.min, date.max) and column.saturates:
            early = ("-infinity", "0000-00-00", "0044-03-15 BC")
            return rng.choice(early if value == date.min else ("infinity", "10000-01-01"))
        return value.isoformat() + rng.choice(("", "", " 00:00:00"))
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _moment_text(value: datetime, column: Column, rng: Random) -> str:
    if value in (FIRST, LAST) and column.saturates:
        early = ("-infinity", "0000-00-00 00:00:00", "-0043-03-15T12:00:00Z")
        return rng.choice(early if value == FIRST else ("infinity", "10000-01-01 00:00:00", "+12000-01-01T00:00:00Z"))
    local = local_time(value, column.zone)
    between = rng.choice(" T")
    if local is None or rng.random() < 0.3:
        return value.replace(tzinfo=None).isoformat(between) + rng.choice(("Z", "+00:00"))
    return local.isoformat(between)


def local_time(value: datetime, zone: ZoneInfo) -> datetime | None:
    """Return the naive local time that means this moment; None if none does."""
    if not FIRST + timedelta(days=2) < value < LAST - timedelta(days=2):
        return None if zone.key != "UTC" else value.replace(tzinfo=None)
    local = value.astimezone(zone)
    return None if local.fold else local.replace(tzinfo=None)


def as_json(value: Any, column: Column, rng: Random) -> Any:
    """Return one of the spellings of a value in JSON, for an encoder that writes decimals as numbers."""
    if value is None:
        return None
    if column.kind == "json" and value[0] in "[{" and rng.random() < 0.5:
        return msgspec.Raw(value.encode())
    is_number = isinstance(value, bool | int | Decimal) or (isinstance(value, float) and value - value == 0)
    return value if is_number and rng.random() < 0.7 else as_text(value, column, rng)


def landed_value(value: Any) -> Any:
    """Return a value of a landing file so that equal ones compare as equal."""
    return "NaN" if isinstance(value, float) and value != value else value
