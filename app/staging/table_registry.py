"""Which tables exist, with which schema versions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from app.domain.metadata_chain import seed, set_data_schema
from app.domain.names import TableName
from app.domain.table import Generation, Table, TableId, TableState
from app.domain.table_schema import Column, ColumnType, SchemaVersion, TableSchema, evolve
from app.errors import Code, RejectedInput
from app.staging.database import installation_id
from app.staging.metadata_blocks import append_block
from app.staging.sequence_lock import lock_counters

_SELECT_TABLES = """
    SELECT t.table_id, t.name, t.generation, t.state, t.schema_version, v.key_columns, v.columns
    FROM mirrorgate.tables t
    JOIN mirrorgate.schema_versions v
      ON v.table_id = t.table_id AND v.generation = t.generation AND v.version = t.schema_version
    WHERE t.state <> 'dropped'"""

SELECT_BY_NAME = sa.text(_SELECT_TABLES + " AND t.folded_name = :folded_name")
SELECT_BY_ID = sa.text(_SELECT_TABLES + " AND t.table_id = :table_id")
SELECT_BY_REPLICATE_SCHEMA = sa.text(_SELECT_TABLES + " AND t.replicate_metadata ->> 'schema_id' = :schema_id")
SELECT_ALL = sa.text(_SELECT_TABLES + " ORDER BY t.name")

SELECT_VERSION = sa.text("""
    SELECT key_columns, columns FROM mirrorgate.schema_versions
    WHERE table_id = :table_id AND generation = :generation AND version = :version""")

INSERT_TABLE = sa.text("""
    INSERT INTO mirrorgate.tables (name, folded_name) VALUES (:name, :folded_name)
    ON CONFLICT (folded_name) WHERE state <> 'dropped' DO NOTHING
    RETURNING table_id""")

INSERT_COUNTERS = sa.text("INSERT INTO mirrorgate.table_counters (table_id) VALUES (:table_id)")

INSERT_VERSION = sa.text("""
    INSERT INTO mirrorgate.schema_versions (table_id, generation, version, key_columns, columns)
    VALUES (:table_id, :generation, :version, :key_columns, CAST(:columns AS jsonb))""")

UPDATE_VERSION = sa.text("UPDATE mirrorgate.tables SET schema_version = :version WHERE table_id = :table_id")

SELECT_REPLICATE_METADATA = sa.text("SELECT replicate_metadata FROM mirrorgate.tables WHERE table_id = :table_id")

LOCK_REPLICATE_METADATA = sa.text("""
    SELECT replicate_metadata FROM mirrorgate.tables WHERE table_id = :table_id FOR NO KEY UPDATE""")

UPDATE_REPLICATE_METADATA = sa.text("""
    UPDATE mirrorgate.tables SET replicate_metadata = CAST(:metadata AS jsonb) WHERE table_id = :table_id""")


QUARANTINE = sa.text("""
    UPDATE mirrorgate.tables SET state = 'quarantined', state_reason = :reason
    WHERE table_id = :table_id AND state = 'active'""")


class RegistrationOutcome(StrEnum):
    """What a registration did."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    EVOLVED = "evolved"


@dataclass(frozen=True, slots=True)
class Registration:
    """The table as it stands after a registration."""

    table: Table
    outcome: RegistrationOutcome


def find_table(connection: sa.Connection, name: TableName) -> Table | None:
    """The live table of this name (letter case does not matter)."""
    row = connection.execute(SELECT_BY_NAME, {"folded_name": name.folded}).mappings().one_or_none()
    return _table(row) if row else None


def find_table_by_id(connection: sa.Connection, table_id: TableId) -> Table | None:
    """The live table with this id."""
    row = connection.execute(SELECT_BY_ID, {"table_id": table_id}).mappings().one_or_none()
    return _table(row) if row else None


def find_table_by_replicate_schema(connection: sa.Connection, schema_id: str) -> Table | None:
    """The live table whose latest Replicate metadata message had this schema id."""
    row = connection.execute(SELECT_BY_REPLICATE_SCHEMA, {"schema_id": schema_id}).mappings().first()
    return _table(row) if row else None


def list_tables(connection: sa.Connection) -> list[Table]:
    """All live tables by name."""
    return [_table(row) for row in connection.execute(SELECT_ALL).mappings()]


def schema_of_version(
    connection: sa.Connection, table_id: TableId, generation: Generation, version: SchemaVersion
) -> TableSchema:
    """The columns and keys of one schema version, which must exist."""
    keys = {"table_id": table_id, "generation": generation, "version": version}
    return _schema(connection.execute(SELECT_VERSION, keys).mappings().one())


def register_table(
    connection: sa.Connection, name: TableName, wanted: TableSchema, *, marker_first: bool = False
) -> Registration:
    """Create the table, or bring an existing one to `wanted`; the same again changes nothing.

    The metadata chain tells each new schema version as files will have it, before any of its data.

    Takes the table's sequence lock before it changes a schema, so that no batch is staged under the old one
    beside it. Raises RejectedInput `incompatible_schema` or `table_not_accepting`.
    """
    table_id = connection.execute(INSERT_TABLE, {"name": str(name), "folded_name": name.folded}).scalar()
    if table_id is not None:
        connection.execute(INSERT_COUNTERS, {"table_id": table_id})
        append_block(connection, table_id, Generation(1), seed(str(name), Generation(1), installation_id(connection)))
        _insert_version(connection, TableId(table_id), Generation(1), SchemaVersion(1), wanted, marker_first)
        return Registration(_must_find(connection, name), RegistrationOutcome.CREATED)
    lock_counters(connection, [_must_find(connection, name).table_id])
    table = _must_find(connection, name)
    if not table.state.accepts_changes:
        raise RejectedInput(Code.TABLE_NOT_ACCEPTING, f"table {table.name} is {table.state}")
    schema = evolve(table.schema, wanted)
    if schema == table.schema:
        return Registration(table, RegistrationOutcome.UNCHANGED)
    version = SchemaVersion(table.schema_version + 1)
    _insert_version(connection, table.table_id, table.generation, version, schema, marker_first)
    connection.execute(UPDATE_VERSION, {"table_id": table.table_id, "version": version})
    return Registration(_must_find(connection, name), RegistrationOutcome.EVOLVED)


def replicate_metadata(connection: sa.Connection, table_id: TableId, *, lock: bool = False) -> Mapping[str, Any] | None:
    """What the table's Replicate metadata messages said; `lock` keeps it from changing until the transaction ends."""
    statement = LOCK_REPLICATE_METADATA if lock else SELECT_REPLICATE_METADATA
    metadata: Mapping[str, Any] | None = connection.execute(statement, {"table_id": table_id}).scalar()
    return metadata


def record_replicate_metadata(connection: sa.Connection, table_id: TableId, metadata: Mapping[str, Any]) -> None:
    """Remember the latest Replicate metadata message of a table."""
    connection.execute(UPDATE_REPLICATE_METADATA, {"table_id": table_id, "metadata": json.dumps(metadata)})


def quarantine_table(connection: sa.Connection, table_id: TableId, reason: str) -> None:
    """Stop publishing one table until an operator has looked; ingest goes on."""
    connection.execute(QUARANTINE, {"table_id": table_id, "reason": reason})


def _must_find(connection: sa.Connection, name: TableName) -> Table:
    table = find_table(connection, name)
    if table is None:  # dropped between two statements of this transaction
        raise RejectedInput(Code.TABLE_NOT_ACCEPTING, f"table {name} was dropped just now")
    return table


def _insert_version(
    connection: sa.Connection,
    table_id: TableId,
    generation: Generation,
    version: SchemaVersion,
    schema: TableSchema,
    marker_first: bool,
) -> None:
    columns = [{"name": c.name, "type": str(c.type), "nullable": c.nullable} for c in schema.columns]
    connection.execute(
        INSERT_VERSION,
        {
            "table_id": table_id,
            "generation": generation,
            "version": version,
            "key_columns": list(schema.key_columns),
            "columns": json.dumps(columns),
        },
    )
    append_block(connection, table_id, generation, set_data_schema(schema.file_schema(marker_first=marker_first)))


def _table(row: sa.RowMapping) -> Table:
    return Table(
        table_id=TableId(row["table_id"]),
        name=TableName.parse(row["name"]),
        generation=Generation(row["generation"]),
        state=TableState(row["state"]),
        schema_version=SchemaVersion(row["schema_version"]),
        schema=_schema(row),
    )


def _schema(row: sa.RowMapping) -> TableSchema:
    stored: Sequence[Mapping[str, Any]] = row["columns"]
    columns = tuple(Column(c["name"], ColumnType.parse(c["type"]), c["nullable"]) for c in stored)
    return TableSchema(columns, tuple(row["key_columns"]))
