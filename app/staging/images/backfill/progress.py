"""How far the backfill of a table's row images is: stored with each step, continued by another drain, and shown.

Invariant: a step commits only if the backfill is still where the step began. So a drain whose backfill was cancelled or
begun anew, or that another drain has overtaken after a lost lease, cannot undo what came after.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

import sqlalchemy as sa

from app.domain.model.table import BatchSequence, Generation, Table, TableId

SELECT_BACKFILLS = sa.text("""
    SELECT table_id, generation, state, through_sequence, rows_done, rows_total, batches_total, detail, started_at,
        updated_at, finished_at
    FROM mirrorgate.image_backfills WHERE table_id = ANY(:table_ids)""")
"""Read the last backfills of tables."""

BEGIN_BACKFILL = sa.text("""
    INSERT INTO mirrorgate.image_backfills AS b (table_id, generation, state, through_sequence, rows_total,
        batches_total)
    VALUES (:table_id, :generation, 'running', 0, :rows_total, :batches_total)
    ON CONFLICT (table_id) DO UPDATE SET generation = excluded.generation, state = excluded.state,
        through_sequence = 0, rows_done = 0, rows_total = excluded.rows_total, batches_total = excluded.batches_total,
        detail = NULL, started_at = clock_timestamp(), updated_at = clock_timestamp(), finished_at = NULL""")
"""Begin a backfill in place of the last one of the table."""

CONTINUE_BACKFILL = sa.text("""
    UPDATE mirrorgate.image_backfills
    SET state = 'running', rows_total = rows_done + :rows_left, batches_total = :batches_total, detail = NULL,
        updated_at = clock_timestamp(), finished_at = NULL
    WHERE table_id = :table_id""")
"""Continue the last backfill of a table where it has ended."""

STORE_PLACE = sa.text("""
    UPDATE mirrorgate.image_backfills
    SET through_sequence = :through_sequence, rows_done = :rows_done, batches_total = :batches_total, detail = NULL,
        updated_at = clock_timestamp()
    WHERE table_id = :table_id AND started_at = :started_at AND state = 'running' AND through_sequence = :before""")
"""Store how far a backfill is, if it is still where the step began."""

NOTE_DETAIL = sa.text("""
    UPDATE mirrorgate.image_backfills SET detail = :detail WHERE table_id = :table_id AND state = 'running'""")
"""Store why a drain could not do a step; the next attempt may succeed."""

END_BACKFILL = sa.text("""
    UPDATE mirrorgate.image_backfills
    SET state = :state, detail = :detail, updated_at = clock_timestamp(), finished_at = clock_timestamp()
    WHERE table_id = :table_id AND generation = :generation AND state = 'running'""")
"""End the running backfill of a generation."""


class BackfillState(StrEnum):
    """The state of a backfill."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Overtaken(Exception):
    """A backfill ends or continues without this drain: it was cancelled, begun anew, or is another drain's."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill as it was read, or as a step leaves it."""

    table_id: TableId
    generation: Generation
    state: BackfillState
    through_sequence: BatchSequence
    """The last batch whose rows all have images."""
    rows_done: int
    rows_total: int
    batches_total: int
    detail: str | None
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None

    def is_of(self, table: Table) -> bool:
        """Return whether it is of the table's present generation."""
        return (self.table_id, self.generation) == (table.table_id, table.generation)

    @property
    def batches_done(self) -> int:
        """Return the last batch whose rows all have images."""
        return self.through_sequence


Progress: TypeAlias = Callable[[Backfill], None]
"""Called with the backfill after each step."""


def find_backfill(connection: sa.Connection, table: Table) -> Backfill | None:
    """Return the last backfill of a table's present generation."""
    found = find_backfills(connection, [table.table_id]).get(table.table_id)
    return found if found is not None and found.is_of(table) else None


def find_backfills(connection: sa.Connection, table_ids: Collection[TableId]) -> dict[TableId, Backfill]:
    """Return the last backfill of each of these tables that had one."""
    rows = connection.execute(SELECT_BACKFILLS, {"table_ids": list(table_ids)}).mappings()
    return {TableId(row["table_id"]): Backfill(**{**row, "state": BackfillState(row["state"])}) for row in rows}


def begin_backfill(
    connection: sa.Connection, table: Table, continued: Backfill | None, rows: int, last: BatchSequence
) -> None:
    """Begin a backfill under the sequence lock, or continue one; there are that many rows to read, up to a last batch.

    A process that dies before the commit leaves the last backfill as it was.
    """
    life = {"table_id": table.table_id, "generation": table.generation, "batches_total": last}
    if continued is None:
        connection.execute(BEGIN_BACKFILL, {**life, "rows_total": rows})
    else:
        connection.execute(CONTINUE_BACKFILL, {**life, "rows_left": rows})


def store_place(
    connection: sa.Connection,
    backfill: Backfill,
    last: BatchSequence,
    through: BatchSequence | None = None,
    rows: int = 0,
) -> Backfill:
    """Store where a step ends, in its transaction, and return the backfill as it is then.

    `last` is the table's last batch. With `through` the step ends behind that batch and has read that many rows;
    without it, within a block. Raises Overtaken if the backfill is not where the step began.
    """
    moved = replace(
        backfill,
        through_sequence=backfill.through_sequence if through is None else through,
        rows_done=backfill.rows_done + rows,
        batches_total=last,
        detail=None,
    )
    place = {
        "table_id": moved.table_id,
        "started_at": moved.started_at,
        "before": backfill.through_sequence,
        "through_sequence": moved.through_sequence,
        "rows_done": moved.rows_done,
        "batches_total": moved.batches_total,
    }
    if connection.execute(STORE_PLACE, place).rowcount == 0:
        raise Overtaken
    return moved


def note_detail(connection: sa.Connection, table_id: TableId, detail: str) -> None:
    """Store why a drain could not do a step, for those who wait."""
    connection.execute(NOTE_DETAIL, {"table_id": table_id, "detail": detail})


def end_backfill(connection: sa.Connection, table: Table, state: BackfillState, detail: str | None = None) -> bool:
    """End the running backfill of a table's generation, and return whether there was one.

    A drain that carries it out stops at its next step. Its images stay; they count as incomplete unless the state is
    `done`.
    """
    life = {"table_id": table.table_id, "generation": table.generation}
    return connection.execute(END_BACKFILL, {**life, "state": state, "detail": detail}).rowcount > 0
