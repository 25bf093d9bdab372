"""How a body of Debezium events is read where the events leave it open: the parameters of a request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from app.domain.model.table_options import TableOptions, TimestampUnit
from app.errors import Code, RejectedInput

EVERY_COLUMN: Final = "*"
_UNITS: Final = ", ".join(TimestampUnit)


class DecimalForm(StrEnum):
    """What the texts of decimal columns are, in events without a schema: digits, or base64 of Connect's bytes."""

    TEXT = "text"
    BASE64 = "base64"


class Nanoseconds(StrEnum):
    """What happens to the digits below a microsecond of a timestamp: the event is rejected, or they are cut off."""

    REJECT = "reject"
    TRUNCATE = "truncate"


class Tombstones(StrEnum):
    """What a record with a key and without a value means: nothing, or that the row with this key was deleted."""

    IGNORE = "ignore"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class DebeziumReading:
    """What a request says about its events."""

    keyed: bool | None = None
    """Whether each element is a record `{"key": …, "value": …}`; None recognizes records by their shape."""
    key_columns: tuple[str, ...] = ()
    """The key columns of every table of the request; empty takes them from the key of each record."""
    timestamps: tuple[tuple[str, TimestampUnit], ...] = ()
    """What integers count, by column; `*` is every column that neither the request nor its table names."""
    decimals: DecimalForm = DecimalForm.TEXT
    tombstones: Tombstones | None = None
    """None ignores them, and rejects those that can be the only sign of a delete."""
    unavailable: tuple[str, ...] = ()
    """Placeholders of values that the connector could not read, beside Debezium's default."""
    nanoseconds: Nanoseconds = Nanoseconds.REJECT

    def unit_of(self, column: str, options: TableOptions) -> TimestampUnit | None:
        """Return what the integers of a timestamp column count, None if that is unknown."""
        given = dict(self.timestamps)
        return given.get(column) or options.unit_of(column) or given.get(EVERY_COLUMN)

    def to_json(self) -> dict[str, Any]:
        """Return the reading as it is stored with a dead letter."""
        return {
            "keyed": self.keyed,
            "key_columns": list(self.key_columns),
            "timestamps": dict(self.timestamps),
            "decimals": self.decimals,
            "tombstones": self.tombstones,
            "unavailable": list(self.unavailable),
            "nanoseconds": self.nanoseconds,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read a stored reading."""
        return cls(
            stored["keyed"],
            tuple(stored["key_columns"]),
            tuple((column, TimestampUnit(unit)) for column, unit in stored["timestamps"].items()),
            DecimalForm(stored["decimals"]),
            None if stored["tombstones"] is None else Tombstones(stored["tombstones"]),
            tuple(stored["unavailable"]),
            Nanoseconds(stored["nanoseconds"]),
        )


PLAIN_READING: DebeziumReading = DebeziumReading()


def parse_units(written: Sequence[str]) -> tuple[tuple[str, TimestampUnit], ...]:
    """Read the parameter `timestamps`, such as `created:millis` and `*:micros`. Raises RejectedInput `bad_request`."""
    found: dict[str, TimestampUnit] = {}
    for entry in written:
        column, colon, unit = entry.rpartition(":")
        if not colon or not column or unit not in {*TimestampUnit}:
            detail = (
                f"timestamps must be column:unit pairs with the units {_UNITS}, for example "
                "timestamps=created:millis,*:micros, where * is every other column: a connector can write milliseconds "
                "and microseconds in one row"
            )
            raise RejectedInput(Code.BAD_REQUEST, detail)
        if column in found:
            raise RejectedInput(Code.BAD_REQUEST, f"timestamps names the column {column!r} twice")
        found[column] = TimestampUnit(unit)
    return tuple(found.items())
