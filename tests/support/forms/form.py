"""A form: how a tool writes the events of a table into a body, and how the gateway reads it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from app.domain.access.rights import Principal, Right
from app.domain.model.change import Change
from app.domain.model.names import TableName
from app.domain.model.table_schema import TableSchema
from app.domain.rows.landing_rows import LandingRows, landing_rows
from app.domain.rows.row_rules import RowRules
from app.ingest.columnar import Asked, ColumnarBody
from tests.support.forms.source_histories import Event, SourceTable
from tests.support.samples.schemas import schema_of

NAME: Final = TableName.parse("S.T")
"""The table that all bodies are for."""
ANYONE: Final = Principal("forms", frozenset({Right.INGEST}), ("*",))

Events: TypeAlias = Sequence[Event]


@dataclass(frozen=True, slots=True)
class Form:
    """One form of a body; events are those of one transaction."""

    write: Callable[[SourceTable, Events], bytes]
    """Return the body."""
    read: Callable[[SourceTable, bytes], Sequence[Change]]
    """Return its changes as the exact path decodes them."""
    request: Callable[[bytes], Asked[ColumnarBody]] | None = None
    """Return the request of the columnar path, if the form has one that needs nothing but the table."""
    is_partial: bool = False
    """True if a change does not give all columns, so that only row images make whole rows of it."""
    splits_key_changes: bool = False
    """True if the form has no key changes: the old row is deleted, and a new one is inserted."""
    land: Callable[[bytes, RowRules], LandingRows] | None = None
    """Return the rows of a body that has no changes in between, such as Arrow columns."""

    def rows(self, table: SourceTable, events: Events, rules: RowRules) -> LandingRows:
        """Write events, and return the rows that they land as."""
        body = self.write(table, events)
        return self.land(body, rules) if self.land else landing_rows(self.read(table, body), rules)

    def changes(self, table: SourceTable, events: Events) -> Sequence[Change]:
        """Write events and read them again."""
        return self.read(table, self.write(table, events))


def schema(table: SourceTable) -> TableSchema:
    """Return the schema that the table is registered with; keys are required."""
    keys = key_columns(table)
    return schema_of(table.types, keys, keys)


def key_columns(table: SourceTable) -> list[str]:
    """Return the names of the key columns."""
    return [*table.types][: table.keys]


def split_key_changes(table: SourceTable, events: Events) -> list[Event]:
    """Return the events with a delete and an insert for each change of a key."""
    parts = [
        [Event(event.old, None), Event(None, event.new)]
        if event.old and event.new and table.key(event.old) != table.key(event.new)
        else [event]
        for event in events
    ]
    return [event for part in parts for event in part]
