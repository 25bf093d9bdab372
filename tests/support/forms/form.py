"""A form: how a tool writes the changes of a table as a request, and what it can tell of a change.

Nothing here and in the modules of the forms uses the gateway's code; `reading` does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

import msgspec

from tests.support.forms.values import Column, Row

ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
NAMES: Final = {"I": "insert", "U": "update", "D": "delete", "R": "upsert", "S": "snapshot"}
"""What audit columns call an operation."""

Key = tuple[Any, ...]


class Anything:
    """Equal to every value: what the documentation leaves open."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "(any)"


ANY: Final = Anything()


@dataclass(frozen=True)
class Facts:
    """What audit columns tell of a change."""

    operation: str | Anything
    timestamp: datetime | Anything | None = None
    position: str | Anything | None = None


@dataclass(slots=True)
class Change:
    """What a statement of the source did to one row. `given` names the columns that a message tells, None for all.

    Changes with the same `statement` changed keys together. `known` is false for a delete of a row that never was.
    """

    operation: str
    old: Row | None
    new: Row | None
    given: frozenset[str] | None = None
    statement: int = 0
    known: bool = True
    facts: Facts | None = None

    def tell(self, timestamp: Any, position: Any) -> None:
        """Note what a message tells of the change beside its rows."""
        self.facts = Facts(NAMES[self.operation], timestamp, position)


@dataclass
class Request:
    """A request of changes."""

    path: str
    parameters: dict[str, str]
    content: str
    body: bytes


@dataclass
class SourceTable:
    """A table of the source. `excluded` columns are in its messages and not in the gateway's table."""

    name: str
    columns: list[Column]
    keys: list[str]
    excluded: list[Column] = field(default_factory=list, kw_only=True)

    @property
    def sent(self) -> list[Column]:
        """Columns that messages have."""
        return [*self.columns, *self.excluded]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that messages have."""
        return tuple(column.name for column in self.sent)

    @property
    def key_columns(self) -> list[Column]:
        return [column for column in self.columns if column.name in self.keys]

    def key(self, row: Row) -> Key:
        return tuple([row[name] for name in self.keys])

    def given(self, change: Change) -> list[Column]:
        """Return the columns that a message gives of the new row."""
        return [column for column in self.sent if change.given is None or column.name in change.given]


@dataclass
class Source:
    """The writer's side of a table: its random source, the state of its metadata, and a clock."""

    table: SourceTable
    rng: Random
    table_version: int = 0
    described: tuple[str, ...] = ()
    position: int = 0

    def value(self, row: Row, column: Column) -> Any:
        """Return a value of a row; excluded columns have whatever comes."""
        return row.get(column.name) if column not in self.table.excluded else self.rng.choice((None, "secret", 1))

    def next_position(self) -> int:
        self.position += 1
        return self.position

    def moment(self) -> datetime:
        """Return the time of a change, in milliseconds."""
        return datetime(2026, 1, 5, 8, tzinfo=UTC) + timedelta(milliseconds=1234 * self.position)


@dataclass(frozen=True)
class Form:
    """An encoding. `operations` are those that it writes; `partial` tells of what it can leave values out.

    `partial` is a subset of "U" for updates, "I" for inserts, and "*" if all rows of a request leave out the same.
    """

    name: str
    write: Callable[[Source, Sequence[Change]], Request]
    operations: str = "IUD"
    partial: str = ""
    moves: bool = False
    is_text: bool = True
    """Whether a message can have a value that is no value of its column."""
    omits: Callable[[Column], bool] = field(default=lambda column: True)
    """Whether an update can leave out a column that it does not change."""
    leaves_out: bool = False
    """Whether its updates do leave out what they do not change, so that only row images make whole rows of them."""
