"""Stores what metadata messages of Qlik Replicate declare about tables, and finds the tables of a schema id.

A data message names its table's structure only by schema id, so the metadata outlives the message that brought it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import TableId

SELECT_BY_SCHEMA_ID = sa.text("""
    SELECT name FROM mirrorgate.tables WHERE state <> 'dropped' AND replicate_schema_ids ? :schema_id""")
"""List the live tables that a schema id has described."""

SELECT_SOURCE = sa.text("""
    SELECT table_id, revision, options -> 'exclude' AS excluded,
        CASE WHEN :whole THEN replicate_metadata ELSE replicate_metadata - 'earlier' END AS metadata
    FROM mirrorgate.tables WHERE folded_name = :folded_name AND state <> 'dropped'""")
"""Read what decoding a table's messages needs, without earlier versions unless asked for."""

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
    """What decoding a table's Replicate messages needs to know about the table."""

    table_id: TableId
    excluded: frozenset[str]
    metadata: Mapping[str, Any] | None
    """The current version of its source, or the whole history if that was asked for."""
    revision: int
    """The table's revision, which each change of its metadata advances."""


def names_with_schema_id(connection: sa.Connection, schema_id: str) -> list[TableName]:
    """Return the live tables that metadata with this schema id described, including tables hidden from the caller."""
    return [TableName.parse(name) for (name,) in connection.execute(SELECT_BY_SCHEMA_ID, {"schema_id": schema_id})]


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
