"""Qlik Replicate's sources in Postgres: what metadata messages declare about tables, and the layouts of messages.

`record_replicate_metadata` stores what metadata messages declare, and `names_with_schema_id` finds the tables of a
schema id. A data message names its table's structure only by schema id, so the metadata outlives the message that
brought it.

`find_layout` returns the layout of a name. A change request reads its layout each time, so a request that begins after
a change was committed is read under the new layout (docs/contribute/decisions/0026).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import TableId
from app.staging.connection.database import AdvisoryLock, lock_for_transaction

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
    """Return True if another layout can be stored."""
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


SELECT_BY_SCHEMA_ID = sa.text("""
    SELECT name FROM mirrorgate.tables WHERE state <> 'dropped' AND replicate_schema_ids ? :schema_id""")
"""List the live tables that a schema id has described."""

SELECT_SOURCE = sa.text("""
    SELECT table_id, revision, options -> 'exclude' AS excluded,
        CASE WHEN :whole THEN replicate_metadata ELSE replicate_metadata - 'earlier' END AS metadata
    FROM mirrorgate.tables WHERE folded_name = :folded_name AND state <> 'dropped'""")
"""Read what decoding a table's messages needs, without earlier versions unless asked for."""

SELECT_DATA_SCHEMAS = sa.text("""
    SELECT name, coalesce(
        jsonb_path_query_first(replicate_metadata, :current, jsonb_build_object('id', CAST(:schema_id AS text))),
        jsonb_path_query_first(replicate_metadata, :earlier, jsonb_build_object('id', CAST(:schema_id AS text)))
    ) #>> '{}' AS data_schema
    FROM mirrorgate.tables WHERE state <> 'dropped' AND replicate_schema_ids ? :schema_id""")
"""Read the Avro schema of a schema id, of each live table that the id has described."""

_CURRENT_SCHEMA: Final = '$ ? (@."schema_id" == $id)."data_schema"'
_EARLIER_SCHEMA: Final = '$."earlier"[*] ? (@."schema_id" == $id)."data_schema"'

SELECT_METADATA = sa.text("SELECT replicate_metadata FROM mirrorgate.tables WHERE table_id = :table_id")
"""Read the metadata of a table."""

LOCK_METADATA = sa.text("""
    SELECT replicate_metadata FROM mirrorgate.tables WHERE table_id = :table_id FOR NO KEY UPDATE""")
"""Lock a table's row and read its metadata."""

UPDATE_METADATA = sa.text("""
    UPDATE mirrorgate.tables SET replicate_metadata = CAST(:metadata AS jsonb) WHERE table_id = :table_id""")
"""Store the metadata of a table."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """The facts of a table for decoding its Replicate messages."""

    table_id: TableId
    excluded: frozenset[str]
    metadata: Mapping[str, Any] | None
    """The current version of its source, or the whole history if that was asked for."""
    revision: int
    """The table's revision, which each change of its metadata advances."""


def names_with_schema_id(connection: sa.Connection, schema_id: str) -> list[TableName]:
    """Return the live tables that metadata with this schema id described, including tables hidden from the caller."""
    return [TableName.parse(name) for (name,) in connection.execute(SELECT_BY_SCHEMA_ID, {"schema_id": schema_id})]


def data_schemas(connection: sa.Connection, schema_id: str) -> list[tuple[TableName, str | None]]:
    """Return the live tables that metadata with this schema id described, each with the Avro schema of its messages."""
    paths = {"current": _CURRENT_SCHEMA, "earlier": _EARLIER_SCHEMA}
    found = connection.execute(SELECT_DATA_SCHEMAS, {"schema_id": schema_id, **paths})
    return [(TableName.parse(name), data_schema) for name, data_schema in found]


def source_facts(connection: sa.Connection, name: TableName, *, whole: bool = False) -> SourceFacts | None:
    """Return the facts of the live table of a name, with its earlier source versions if `whole`."""
    parameters = {"folded_name": name.folded, "whole": whole}
    row = connection.execute(SELECT_SOURCE, parameters).one_or_none()
    if row is None:
        return None
    return SourceFacts(TableId(row.table_id), frozenset(row.excluded or ()), row.metadata, row.revision)


def replicate_metadata(connection: sa.Connection, table_id: TableId, *, lock: bool = False) -> Mapping[str, Any] | None:
    """Return all stored metadata of a table; `lock` keeps others from changing it in this transaction."""
    statement = LOCK_METADATA if lock else SELECT_METADATA
    metadata: Mapping[str, Any] | None = connection.execute(statement, {"table_id": table_id}).scalar()
    return metadata


def record_replicate_metadata(connection: sa.Connection, table_id: TableId, metadata: Mapping[str, Any]) -> None:
    """Store what a table's metadata messages declared. The database advances the table's revision.

    A process that dies before the commit leaves the former metadata; the caller's request was not answered.
    """
    connection.execute(UPDATE_METADATA, {"table_id": table_id, "metadata": json.dumps(metadata)})
