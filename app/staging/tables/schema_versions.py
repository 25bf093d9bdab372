"""Schema versions of a generation: stored in order, and told in the metadata chain before any of their data.

Invariant: a version never changes, so a staged block keeps its meaning however the table evolves.
"""

import json
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.domain.arrow import schema_to_flatbuffer
from app.domain.model.table import Generation, Table, TableId
from app.domain.model.table_schema import SchemaVersion, TableSchema
from app.domain.publication import set_data_schema
from app.staging.ledger.files import append_block

INSERT_VERSION = sa.text("""
    INSERT INTO mirrorgate.schema_versions (table_id, generation, version, key_columns, columns, bare, lands_as)
    VALUES (:table_id, :generation, :version, :key_columns, CAST(:columns AS jsonb), :bare,
        CAST(:lands_as AS jsonb))""")
"""Store a schema version."""

UPDATE_CURRENT_VERSION = sa.text("UPDATE mirrorgate.tables SET schema_version = :version WHERE table_id = :table_id")
"""Make a schema version the current one of its table."""

SELECT_VERSION = sa.text("""
    SELECT key_columns, columns, bare, lands_as FROM mirrorgate.schema_versions
    WHERE table_id = :table_id AND generation = :generation AND version = :version""")
"""Read a schema version."""

SELECT_NEWEST_VERSIONS = sa.text("""
    SELECT generation, version, created_at, key_columns, columns, bare FROM mirrorgate.schema_versions
    WHERE table_id = :table_id ORDER BY generation DESC, version DESC LIMIT :limit""")
"""List the schema versions of all generations of a table, the newest first."""


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A schema version with the time of its registration."""

    generation: Generation
    version: SchemaVersion
    created_at: datetime
    schema: TableSchema


def schema_of_version(
    connection: sa.Connection, table_id: TableId, generation: Generation, version: SchemaVersion
) -> TableSchema:
    """Return the columns and keys of a schema version, which must exist."""
    keys = {"table_id": table_id, "generation": generation, "version": version}
    return TableSchema.from_json(dict(connection.execute(SELECT_VERSION, keys).mappings().one()))


def advance_version(connection: sa.Connection, table: Table, schema: TableSchema, *, marker_first: bool) -> None:
    """Give a table its next schema version. The caller holds the sequence lock.

    A process that dies before the commit leaves the present version.
    """
    version = SchemaVersion(table.schema_version + 1)
    insert_version(connection, table.table_id, table.generation, version, schema, marker_first=marker_first)
    connection.execute(UPDATE_CURRENT_VERSION, {"table_id": table.table_id, "version": version})


def insert_version(
    connection: sa.Connection,
    table_id: TableId,
    generation: Generation,
    version: SchemaVersion,
    schema: TableSchema,
    *,
    marker_first: bool,
) -> None:
    """Store a schema version, and append it to the metadata chain as files will have it."""
    store_version(connection, table_id, generation, version, schema)
    announce_version(connection, table_id, generation, schema, marker_first=marker_first)


def store_version(
    connection: sa.Connection, table_id: TableId, generation: Generation, version: SchemaVersion, schema: TableSchema
) -> None:
    """Store a schema version, of a generation whose metadata chain may begin later."""
    stored = schema.to_json()
    keys = {"table_id": table_id, "generation": generation, "version": version}
    parameters = {
        **stored,
        "columns": json.dumps(stored["columns"]),
        "lands_as": json.dumps(stored["lands_as"]) if "lands_as" in stored else None,
    }
    connection.execute(INSERT_VERSION, {**parameters, **keys})


def announce_version(
    connection: sa.Connection, table_id: TableId, generation: Generation, schema: TableSchema, *, marker_first: bool
) -> None:
    """Append a schema to the metadata chain as files will have it."""
    in_files = schema_to_flatbuffer(schema.landing.file_schema(marker_first=marker_first))
    append_block(connection, table_id, generation, set_data_schema(in_files))


def newest_versions(connection: sa.Connection, table_id: TableId, *, limit: int) -> list[StoredVersion]:
    """Return at most `limit` schema versions of a table, the newest first, those of earlier generations included."""
    rows = connection.execute(SELECT_NEWEST_VERSIONS, {"table_id": table_id, "limit": limit}).mappings()
    return [
        StoredVersion(row["generation"], row["version"], row["created_at"], TableSchema.from_json(dict(row)))
        for row in rows
    ]
