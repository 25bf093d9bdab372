"""Layouts of Replicate messages in Postgres, by name.

A change request reads its layout each time, so a request that begins after a change was committed is read under the new
layout (docs/decisions/0026).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from app.staging.connection.advisory_locks import AdvisoryLock, lock_for_transaction

MAX_LAYOUTS: Final = 1_000
"""Layouts of a gateway; one per message format is enough."""

SELECT_LAYOUT = sa.text("""
    SELECT name, layout, changed_at, changed_by FROM mirrorgate.layouts WHERE name = :name""")
"""Read one layout."""

SELECT_LAYOUTS = sa.text("SELECT name, layout, changed_at, changed_by FROM mirrorgate.layouts ORDER BY name")
"""Read all layouts by name."""

COUNT_LAYOUTS = sa.text("SELECT count(*) FROM mirrorgate.layouts")
"""Count the layouts."""

SET_LAYOUT = sa.text("""
    INSERT INTO mirrorgate.layouts AS l (name, layout, changed_by)
    VALUES (:name, CAST(:layout AS jsonb), :changed_by)
    ON CONFLICT (name) DO UPDATE
        SET layout = excluded.layout, changed_by = excluded.changed_by, changed_at = clock_timestamp()""")
"""Store a layout under its name."""

DELETE_LAYOUT = sa.text("DELETE FROM mirrorgate.layouts WHERE name = :name")
"""Delete a layout."""


@dataclass(frozen=True, slots=True)
class StoredLayout:
    """A layout as it is stored, and who changed it last."""

    name: str
    document: Mapping[str, Any]
    changed_at: datetime
    changed_by: str


def find_layout(connection: sa.Connection, name: str) -> StoredLayout | None:
    """Return the layout of this name, or None."""
    row = connection.execute(SELECT_LAYOUT, {"name": name}).one_or_none()
    return StoredLayout(*row) if row else None


def list_layouts(connection: sa.Connection) -> list[StoredLayout]:
    """Return all layouts by name."""
    return [StoredLayout(*row) for row in connection.execute(SELECT_LAYOUTS)]


def has_room(connection: sa.Connection) -> bool:
    """Tell whether another layout can be stored."""
    return int(connection.execute(COUNT_LAYOUTS).scalar_one()) < MAX_LAYOUTS


def set_layout(connection: sa.Connection, name: str, document: Mapping[str, Any], subject: str) -> StoredLayout:
    """Store a layout under its name, in the place of the one that has it."""
    connection.execute(SET_LAYOUT, {"name": name, "layout": json.dumps(document), "changed_by": subject})
    stored = find_layout(connection, name)
    assert stored is not None
    return stored


def delete_layout(connection: sa.Connection, name: str) -> bool:
    """Delete a layout; return false if there is none of this name."""
    return connection.execute(DELETE_LAYOUT, {"name": name}).rowcount == 1


def lock_layouts(connection: sa.Connection) -> None:
    """Keep others from changing layouts until the transaction ends."""
    lock_for_transaction(connection, AdvisoryLock.LAYOUTS)
