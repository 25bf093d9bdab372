"""The sequence lock: a table's counter row, locked `FOR NO KEY UPDATE` from taking a sequence to COMMIT.

The lock makes commit order the order of the sequences; `LockedTable.add` takes them. While it is held, no other
transaction stages, changes the schema or publishes for the table; a rollback returns every number. Locks are always
taken in the order of table ids, so that transactions never deadlock.

`read_versions_and_positions` reads under the lock what a batch depends on when it is typed, and with
`source_order=enforce` the last accepted position per table and log of a source. A batch that does not go beyond the
position of its task repeats changes that are already staged. The position is written by the statement that stages the
batch, so it never says more or less than what is staged.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from app.domain.loads import LoadId
from app.domain.model.change import NOT_COUNTED, Counted
from app.domain.model.table import BatchSequence, FileNumber, Generation, Table, TableId, TableState
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.source_order import Reached
from app.staging.connection.raw_sql import driver_rows, int_array_literal, text_array_literal

LOCK_COUNTERS: Final = """
    SELECT table_id, last_sequence, next_file_number, recorded_file_number, published_through, cdc_started,
        CAST(open_load AS text), operation_count, counted_changes, missing_changes
    FROM mirrorgate.table_counters WHERE table_id = ANY(%(table_ids)s::bigint[])
    ORDER BY table_id FOR NO KEY UPDATE"""
"""Take the sequence lock of some tables, and read their counters."""

SELECT_TABLE_VERSIONS: Final = """
    SELECT table_id, generation, state, schema_version, revision, (SELECT mirrorgate.database_run()), rebuild_due
    FROM mirrorgate.tables
    WHERE table_id = ANY(%(locked_table_ids)s::bigint[])"""
"""Read what a batch depends on when it is typed."""

SELECT_TABLES_OF_SCHEMA_IDS: Final = """
    SELECT given.schema_id, t.name FROM unnest(%(schema_ids)s::text[]) AS given (schema_id)
    JOIN mirrorgate.tables t ON t.replicate_schema_ids ? given.schema_id WHERE t.state <> 'dropped'"""
"""List the live tables that each of these Replicate schema ids has described."""

SHORTEN_LOCK_TIMEOUT = sa.text("SET LOCAL lock_timeout = '500ms'")
"""Wait half a second at most for locks in this transaction."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The counter row of a table, as it was when the lock was granted."""

    last_sequence: BatchSequence
    next_file_number: FileNumber
    recorded_file_number: FileNumber
    published_through: BatchSequence
    cdc_started: bool
    open_load: LoadId | None = None
    """The load session of the table that may be open."""
    counted: Counted = NOT_COUNTED
    """Arcion's counts of operations so far."""


@dataclass(frozen=True, slots=True)
class TableVersionCheck:
    """The present facts of a table that must be those under which a batch was typed."""

    generation: Generation
    state: TableState
    schema_version: SchemaVersion
    revision: int
    database_run: str
    rebuild_due: bool
    """True if batches note the rows that they change, for a rebuild that copies the row images."""

    def accepts(self, table: Table) -> bool:
        """Return true if a batch that was typed for `table` may be staged."""
        present = (self.generation, self.schema_version, self.revision, self.database_run)
        return self.state.accepts_changes and table.typed_under == present


def lock_counters(connection: sa.Connection, table_ids: Iterable[TableId]) -> Mapping[TableId, Counters]:
    """Take the sequence lock of these tables until the transaction ends; missing tables are left out."""
    rows = driver_rows(connection, LOCK_COUNTERS, {"table_ids": int_array_literal(sorted(table_ids))})
    return {
        TableId(table_id): Counters(
            BatchSequence(last),
            FileNumber(next_number),
            FileNumber(recorded),
            BatchSequence(through),
            started,
            load,
            Counted(*counted),
        )
        for table_id, last, next_number, recorded, through, started, load, *counted in rows
    }


def shorten_lock_timeout(connection: sa.Connection) -> None:
    """Let this transaction give up on a lock before Postgres checks for deadlocks, by default after 1 s.

    Otherwise a deadlock could abort a transaction of the API instead of this one, which can be repeated.
    """
    connection.execute(SHORTEN_LOCK_TIMEOUT)


def read_table_versions(connection: sa.Connection, table_ids: Iterable[TableId]) -> Mapping[TableId, TableVersionCheck]:
    """Return state, generation, schema version, revision, database run and whether a rebuild is due, of locked tables.

    This is a separate statement, because one that also waits for the lock would see the tables as they were before.
    """
    rows = driver_rows(connection, SELECT_TABLE_VERSIONS, {"locked_table_ids": int_array_literal(table_ids)})
    return dict(map(version_of, rows))


def version_of(row: tuple[Any, ...]) -> tuple[TableId, TableVersionCheck]:
    """Return the facts of a row of SELECT_TABLE_VERSIONS."""
    table_id, generation, state, version, revision, run, rebuild_due = row
    return TableId(table_id), TableVersionCheck(
        Generation(generation), TableState(state), SchemaVersion(version), revision, run, rebuild_due
    )


def read_tables_of_schema_ids(connection: sa.Connection, schema_ids: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Return the names of the live tables that each of these Replicate schema ids has described."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    for schema_id, name in driver_rows(connection, SELECT_TABLES_OF_SCHEMA_IDS, {"schema_ids": [*schema_ids]}):
        names[schema_id].add(name)
    return {schema_id: frozenset(found) for schema_id, found in names.items()}


SELECT_POSITIONS: Final = """
    SELECT p.table_id, p.generation, p.task, p.last_position, p.last_rows, p.newest_at
    FROM unnest(%(table_ids)s::bigint[], %(generations)s::integer[], %(tasks)s::text[])
        AS wanted (table_id, generation, task)
    CROSS JOIN LATERAL (
        SELECT * FROM mirrorgate.source_positions s
        WHERE s.table_id = wanted.table_id AND s.generation = wanted.generation AND s.task = wanted.task OFFSET 0) p"""
"""Read the positions of some tasks, each in a generation of a table."""

_VERSION_COLUMNS: Final = 7

SELECT_VERSIONS_AND_POSITIONS: Final = f"""
    SELECT versions.*, positions.generation, task, last_position, last_rows, newest_at
    FROM ({SELECT_TABLE_VERSIONS}) versions LEFT JOIN ({SELECT_POSITIONS}) positions USING (table_id)"""  # noqa: S608  # constant text
"""Read the facts of tables and the positions of their tasks in one round trip."""

MOVED_POSITIONS: Final = """
    moved AS (
        INSERT INTO mirrorgate.source_positions (table_id, generation, task, last_position, last_rows, newest_at)
        SELECT table_id, generation, task, last_position, string_to_array(last_rows, ','), newest_at
        FROM unnest(%(moved_table_ids)s::bigint[], %(moved_generations)s::integer[], %(moved_tasks)s::text[],
            %(moved_positions)s::text[], %(moved_rows)s::text[], %(moved_newest)s::timestamptz[])
            AS moved (table_id, generation, task, last_position, last_rows, newest_at)
        ON CONFLICT (table_id, generation, task) DO UPDATE SET last_position = excluded.last_position,
            last_rows = excluded.last_rows, newest_at = excluded.newest_at)"""
"""Move the positions of some tasks, as a part of the statement that stages their batches.

The digests of rows are hexadecimal, so a comma separates them.
"""

TaskKey: TypeAlias = tuple[TableId, Generation, str]
"""A table in a generation, and the key that `app.domain.rows.source_order` makes of a task or a log."""


def source_positions(connection: sa.Connection, wanted: Collection[TaskKey]) -> Mapping[TaskKey, Reached]:
    """Return how far each of these tasks is accepted.

    Positions that are read without the sequence lock must be compared again under it.
    """
    return _reached(driver_rows(connection, SELECT_POSITIONS, _task_keys(wanted))) if wanted else {}


def read_versions_and_positions(
    connection: sa.Connection, table_ids: Collection[TableId], wanted: Collection[TaskKey]
) -> tuple[Mapping[TableId, TableVersionCheck], Mapping[TaskKey, Reached]]:
    """Return what `read_table_versions` and `source_positions` do, for locked tables."""
    if not wanted:
        return read_table_versions(connection, table_ids), {}
    parameters = {"locked_table_ids": int_array_literal(table_ids), **_task_keys(wanted)}
    rows = driver_rows(connection, SELECT_VERSIONS_AND_POSITIONS, parameters)
    versions = dict(version_of(row[:_VERSION_COLUMNS]) for row in rows)
    found = [(row[0], *row[_VERSION_COLUMNS:]) for row in rows if row[_VERSION_COLUMNS] is not None]
    return versions, _reached(found)


def moved_positions(moved: Mapping[TaskKey, Reached]) -> dict[str, str]:
    """Return the parameters of MOVED_POSITIONS."""
    return {
        **{f"moved_{name}": value for name, value in _task_keys(moved).items()},
        "moved_positions": text_array_literal([one.position for one in moved.values()]),
        "moved_rows": text_array_literal([",".join(sorted(one.rows)) for one in moved.values()]),
        "moved_newest": text_array_literal([one.newest.isoformat() if one.newest else None for one in moved.values()]),
    }


def _reached(rows: Iterable[tuple[Any, ...]]) -> dict[TaskKey, Reached]:
    return {
        (table_id, generation, task): Reached(position, frozenset(last), newest)
        for table_id, generation, task, position, last, newest in rows
    }


def _task_keys(keys: Collection[TaskKey]) -> dict[str, str]:
    return {
        "table_ids": int_array_literal(table_id for table_id, _, _ in keys),
        "generations": int_array_literal(generation for _, generation, _ in keys),
        "tasks": text_array_literal([task for _, _, task in keys]),
    }
