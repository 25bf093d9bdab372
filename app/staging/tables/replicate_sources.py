"""What Replicate's metadata messages said of tables, and which tables a schema id describes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import TableId
from app.domain.model.table_options import PartialUpdates

SELECT_BY_SCHEMA_ID = sa.text("""
    SELECT name FROM mirrorgate.tables WHERE state <> 'dropped' AND replicate_schema_ids ? :schema_id""")

SELECT_SOURCE = sa.text("""
    SELECT table_id, options -> 'exclude' AS excluded, options ->> 'partial_updates' AS partial_updates,
        CASE WHEN :whole THEN replicate_metadata ELSE replicate_metadata - 'earlier' END AS metadata
    FROM mirrorgate.tables WHERE folded_name = :folded_name AND state <> 'dropped'""")

SELECT_METADATA = sa.text("SELECT replicate_metadata FROM mirrorgate.tables WHERE table_id = :table_id")

LOCK_METADATA = sa.text("""
    SELECT replicate_metadata FROM mirrorgate.tables WHERE table_id = :table_id FOR NO KEY UPDATE""")

UPDATE_METADATA = sa.text("""
    UPDATE mirrorgate.tables SET replicate_metadata = CAST(:metadata AS jsonb) WHERE table_id = :table_id""")


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What decoding a table's Replicate messages needs of it."""

    table_id: TableId
    excluded: frozenset[str]
    completes: bool
    """Whether the table completes partial updates from row images."""
    metadata: Mapping[str, Any] | None
    """The current version of its source; the whole history where that was asked for."""


def names_with_schema_id(connection: sa.Connection, schema_id: str) -> list[TableName]:
    """Return the live tables one of whose metadata messages had this schema id, whoever may touch them."""
    return [TableName.parse(name) for (name,) in connection.execute(SELECT_BY_SCHEMA_ID, {"schema_id": schema_id})]


def source_facts(connection: sa.Connection, name: TableName, *, whole: bool = False) -> SourceFacts | None:
    """Return the facts of the live table of this name; its earlier source versions only where `whole` asks for them."""
    parameters = {"folded_name": name.folded, "whole": whole}
    row = connection.execute(SELECT_SOURCE, parameters).one_or_none()
    if row is None:
        return None
    completes = row.partial_updates == PartialUpdates.COMPLETE
    return SourceFacts(TableId(row.table_id), frozenset(row.excluded or ()), completes, row.metadata)


def replicate_metadata(connection: sa.Connection, table_id: TableId, *, lock: bool = False) -> Mapping[str, Any] | None:
    """Return all that is kept of the table's metadata messages; `lock` keeps it as it is until the transaction ends."""
    statement = LOCK_METADATA if lock else SELECT_METADATA
    metadata: Mapping[str, Any] | None = connection.execute(statement, {"table_id": table_id}).scalar()
    return metadata


def record_replicate_metadata(connection: sa.Connection, table_id: TableId, metadata: Mapping[str, Any]) -> None:
    """Keep what the table's metadata messages said; dies with the transaction."""
    connection.execute(UPDATE_METADATA, {"table_id": table_id, "metadata": json.dumps(metadata)})
