"""The last accepted change sequence per table and source task, for `source_order=enforce`.

A batch that does not go beyond the position of its task repeats changes that are already staged. The position is
written in the batch's transaction, so it never says more or less than what is staged.
"""

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from app.domain.model.table import Generation, TableId

SELECT_POSITIONS = sa.text("""
    SELECT task, last_sequence FROM mirrorgate.source_positions
    WHERE table_id = :table_id AND generation = :generation AND task = ANY(:tasks)""")
"""Read the positions of some tasks in a generation."""

UPSERT_POSITION = sa.text("""
    INSERT INTO mirrorgate.source_positions (table_id, generation, task, last_sequence)
    VALUES (:table_id, :generation, :task, :last_sequence)
    ON CONFLICT (table_id, generation, task) DO UPDATE SET last_sequence = excluded.last_sequence""")
"""Move the position of a task."""


def source_positions(
    connection: sa.Connection, table_id: TableId, generation: Generation, tasks: Collection[str]
) -> Mapping[str, str]:
    """Return the last sequence of each of these tasks, by the key that `app.domain.rows.source_order.order_key` makes.

    Positions that are read without the sequence lock must be compared again under it.
    """
    keys = {"table_id": table_id, "generation": generation, "tasks": list(tasks)}
    rows = connection.execute(SELECT_POSITIONS, keys)
    return {row.task: row.last_sequence for row in rows}


def record_source_position(
    connection: sa.Connection, table_id: TableId, generation: Generation, task: str, last_sequence: str
) -> None:
    """Move the position of a task, under the sequence lock; dying before COMMIT leaves the old position."""
    keys = {"table_id": table_id, "generation": generation, "task": task}
    connection.execute(UPSERT_POSITION, keys | {"last_sequence": last_sequence})
