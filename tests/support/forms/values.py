"""The columns of a source table, and how sources spell their values in a text and in JSON."""

from base64 import b64encode
from collections.abc import Mapping
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

UTC_ZONE: Final = ZoneInfo("UTC")
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
BAD: Final = "not a value"
"""The value of a row that the gateway must reject."""
NO_NUMBERS: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@dataclass(frozen=True)
class Column:
    """A column of the source, with what its table says of its texts."""

    name: str
    kind: str
    zone: ZoneInfo = UTC_ZONE
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
