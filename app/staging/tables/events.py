"""Events: what operators and the drain did to tables, and the outcome. They remain when the table is gone."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import DropAction, Table
from app.observability.telemetry import current_request_id

INSERT_EVENT = sa.text("""
    INSERT INTO mirrorgate.table_events (table_id, folded_name, generation, actor, action, reason, details, request_id)
    VALUES (:table_id, :folded_name, :generation, :actor, :action, :reason, CAST(:details AS jsonb), :request_id)""")
"""Store an event."""

SELECT_EVENTS = sa.text("""
    SELECT event_id, generation, happened_at, actor, action, reason, details FROM mirrorgate.table_events
    WHERE folded_name = :folded_name AND event_id > :after ORDER BY event_id LIMIT :limit""")
"""List the events of a name after an event id."""

SELECT_NEWEST_EVENTS = sa.text("""
    SELECT event_id, generation, happened_at, actor, action, reason, details FROM mirrorgate.table_events
    WHERE folded_name = :folded_name AND event_id < :before ORDER BY event_id DESC LIMIT :limit""")
"""List the events of a name before an event id, the newest first."""

COMPLETIONS: Final[Mapping[DropAction, str]] = {action: f"{action} done" for action in DropAction}
"""The action of the event that completes a drop, recreate or rename."""

_COMPLETED: Final = {text: action for action, text in COMPLETIONS.items()}
"""The operation that the action of an event completes."""


@dataclass(frozen=True, slots=True)
class TableEvent:
    """One event: who did it (`actor`, a caller or `drain`), what, when and why."""

    event_id: int
    generation: int
    happened_at: datetime
    actor: str
    action: str
    reason: str | None
    details: Mapping[str, Any]

    @property
    def completes(self) -> DropAction | None:
        """Return the operation that this event completes, None for every other event."""
        return _COMPLETED.get(self.action)


def record_event(
    connection: sa.Connection,
    table: Table,
    actor: str,
    action: str,
    reason: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Store an event in the transaction of the operation, with the id of the request."""
    parameters = {
        "table_id": table.table_id,
        "folded_name": table.name.folded,
        "generation": table.generation,
        "actor": actor,
        "action": action,
        "reason": reason,
        "details": json.dumps(details or {}),
        "request_id": current_request_id(),
    }
    connection.execute(INSERT_EVENT, parameters)


def list_events(connection: sa.Connection, name: TableName, *, after: int, limit: int) -> list[TableEvent]:
    """Return at most `limit` events of every table that had this name, in order, after event `after`."""
    parameters = {"folded_name": name.folded, "after": after, "limit": limit}
    return [TableEvent(*row) for row in connection.execute(SELECT_EVENTS, parameters)]


def newest_events(connection: sa.Connection, name: TableName, *, before: int, limit: int) -> list[TableEvent]:
    """Return at most `limit` events of every table that had this name, before event `before`, the newest first."""
    parameters = {"folded_name": name.folded, "before": before, "limit": limit}
    return [TableEvent(*row) for row in connection.execute(SELECT_NEWEST_EVENTS, parameters)]
