"""The last accepted position per table and log of a source, for `source_order=enforce`.

A batch that does not go beyond the position of its task repeats changes that are already staged. The position is
written by the statement that stages the batch, so it never says more or less than what is staged.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from app.domain.model.table import Generation, TableId
from app.domain.rows.source_order import Reached
from app.staging.batches.sequence_lock import SELECT_TABLE_VERSIONS, TableVersionCheck, read_table_versions, version_of
from app.staging.connection.raw_sql import driver_rows, int_array_literal, text_array_literal

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
    return _reached(driver_rows(connection, SELECT_POSITIONS, _keys(wanted))) if wanted else {}


def read_versions_and_positions(
    connection: sa.Connection, table_ids: Collection[TableId], wanted: Collection[TaskKey]
) -> tuple[Mapping[TableId, TableVersionCheck], Mapping[TaskKey, Reached]]:
    """Return what `read_table_versions` and `source_positions` do, for locked tables."""
    if not wanted:
        return read_table_versions(connection, table_ids), {}
    parameters = {"locked_table_ids": int_array_literal(table_ids), **_keys(wanted)}
    rows = driver_rows(connection, SELECT_VERSIONS_AND_POSITIONS, parameters)
    versions = dict(version_of(row[:_VERSION_COLUMNS]) for row in rows)
    found = [(row[0], *row[_VERSION_COLUMNS:]) for row in rows if row[_VERSION_COLUMNS] is not None]
    return versions, _reached(found)


def moved_positions(moved: Mapping[TaskKey, Reached]) -> dict[str, str]:
    """Return the parameters of MOVED_POSITIONS."""
    return {
        **{f"moved_{name}": value for name, value in _keys(moved).items()},
        "moved_positions": text_array_literal([one.position for one in moved.values()]),
        "moved_rows": text_array_literal([",".join(sorted(one.rows)) for one in moved.values()]),
        "moved_newest": text_array_literal([one.newest.isoformat() if one.newest else None for one in moved.values()]),
    }


def _reached(rows: Iterable[tuple[Any, ...]]) -> dict[TaskKey, Reached]:
    return {
        (table_id, generation, task): Reached(position, frozenset(last), newest)
        for table_id, generation, task, position, last, newest in rows
    }


def _keys(keys: Collection[TaskKey]) -> dict[str, str]:
    return {
        "table_ids": int_array_literal(table_id for table_id, _, _ in keys),
        "generations": int_array_literal(generation for _, generation, _ in keys),
        "tasks": text_array_literal([task for _, _, task in keys]),
    }
