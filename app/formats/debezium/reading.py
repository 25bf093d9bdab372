"""How a body of Debezium events is read where the events leave it open: the parameters of a request."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self


class TimestampUnit(StrEnum):
    """What the integers of timestamp columns count since 1970, in events without a schema."""

    MILLIS = "millis"
    MICROS = "micros"
    NANOS = "nanos"


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
    timestamps: TimestampUnit | None = None
    decimals: DecimalForm = DecimalForm.TEXT
    tombstones: Tombstones | None = None
    """None ignores them, and rejects those that can be the only sign of a delete."""
    unavailable: tuple[str, ...] = ()
    """Placeholders of values that the connector could not read, beside Debezium's default."""
    nanoseconds: Nanoseconds = Nanoseconds.REJECT

    def to_json(self) -> dict[str, Any]:
        """Return the reading as it is stored with a dead letter."""
        return {
            "keyed": self.keyed,
            "key_columns": list(self.key_columns),
            "timestamps": self.timestamps,
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
            None if stored["timestamps"] is None else TimestampUnit(stored["timestamps"]),
            DecimalForm(stored["decimals"]),
            None if stored["tombstones"] is None else Tombstones(stored["tombstones"]),
            tuple(stored["unavailable"]),
            Nanoseconds(stored.get("nanoseconds", Nanoseconds.REJECT)),
        )


PLAIN_READING: DebeziumReading = DebeziumReading()
