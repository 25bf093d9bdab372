"""The last accepted change sequence per table and source task, for `source_order=enforce`."""

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from app.domain.model.table import Generation, TableId

SELECT_POSITIONS = sa.text("""
    SELECT task, last_sequence FROM mirrorgate.source_positions
    WHERE table_id = :table_id AND generation = :generation AND task = ANY(:tasks)""")

UPSERT_POSITION = sa.text("""
    INSERT INTO mirrorgate.source_positions (table_id, generation, task, last_sequence)
    VALUES (:table_id, :generation, :task, :last_sequence)
    ON CONFLICT (table_id, generation, task) DO UPDATE SET last_sequence = excluded.last_sequence""")


def source_positions(
    connection: sa.Connection, table_id: TableId, generation: Generation, tasks: Collection[str]
) -> Mapping[str, str]:
    """Return the positions of these tasks, see `app.domain.rows.source_order.order_key`.

    What is read outside the sequence lock must be compared again under it.
    """
    keys = {"table_id": table_id, "generation": generation, "tasks": list(tasks)}
    rows = connection.execute(SELECT_POSITIONS, keys)
    return {row.task: row.last_sequence for row in rows}


def record_source_position(
    connection: sa.Connection, table_id: TableId, generation: Generation, task: str, last_sequence: str
) -> None:
    """Remember how far a task has come; in the transaction of the batch, under the sequence lock."""
    keys = {"table_id": table_id, "generation": generation, "task": task}
    connection.execute(UPSERT_POSITION, keys | {"last_sequence": last_sequence})
