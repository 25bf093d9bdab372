"""How far the backfill of a table's row images is: stored with each step, continued by another process, and shown.

Invariant: only the newest attempt moves the place. A process whose attempt is over, because another one has begun or
the backfill was cancelled, cannot commit a step any more. Its number and its start identify an attempt: numbers begin
at 1 again after an option has discarded the images and the place.
"""

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self, TypeAlias

import sqlalchemy as sa

from app.domain.model.table import BatchSequence, Generation, Table, TableId
from app.errors import Code, RejectedInput

SELECT_BACKFILLS = sa.text("""
    SELECT table_id, generation, state, attempt, step, mirror_id, mirror_version, mirror_rows, through_key,
        through_sequence, rows_done, rows_total, batches_total, by_drain, detail, started_at, updated_at, finished_at
    FROM mirrorgate.image_backfills WHERE table_id = ANY(:table_ids)""")
"""Read the last backfills of tables."""

BEGIN_ATTEMPT = sa.text("""
    INSERT INTO mirrorgate.image_backfills AS b (table_id, generation, state, attempt, step, mirror_id, mirror_version,
        mirror_rows, through_key, through_sequence, rows_done, rows_total, batches_total, by_drain)
    VALUES (:table_id, :generation, 'running', 1, :step, :mirror_id, :mirror_version, :mirror_rows, :through_key,
        :through_sequence, :rows_done, :rows_total, :batches_total, :by_drain)
    ON CONFLICT (table_id) DO UPDATE SET generation = excluded.generation, state = excluded.state,
        attempt = b.attempt + 1, step = excluded.step,
        mirror_id = excluded.mirror_id, mirror_version = excluded.mirror_version,
        mirror_rows = excluded.mirror_rows, through_key = excluded.through_key,
        through_sequence = excluded.through_sequence, rows_done = excluded.rows_done,
        rows_total = excluded.rows_total, batches_total = excluded.batches_total, by_drain = excluded.by_drain,
        detail = NULL,
        started_at = CASE WHEN :is_new THEN clock_timestamp() ELSE b.started_at END,
        updated_at = clock_timestamp(), finished_at = NULL""")
"""Begin a backfill in place of the last one of the table, or continue that."""

STORE_PLACE = sa.text("""
    UPDATE mirrorgate.image_backfills
    SET step = :step, mirror_rows = :mirror_rows, through_key = :through_key, through_sequence = :through_sequence,
        rows_done = :rows_done, batches_total = :batches_total, updated_at = clock_timestamp()
    WHERE table_id = :table_id AND attempt = :attempt AND started_at = :started_at AND state = 'running'""")
"""Store how far an attempt is."""

NOTE_DETAIL = sa.text("""
    UPDATE mirrorgate.image_backfills SET detail = :detail
    WHERE table_id = :table_id AND state = 'running' AND by_drain""")
"""Store why an attempt of a drain failed; the next one may succeed."""

END_BACKFILL = sa.text("""
    UPDATE mirrorgate.image_backfills
    SET state = :state, detail = :detail, updated_at = clock_timestamp(), finished_at = clock_timestamp()
    WHERE table_id = :table_id AND generation = :generation AND state = 'running'
      AND attempt = coalesce(:attempt, attempt) AND started_at = coalesce(:started_at, started_at)""")
"""End a running backfill of a generation, of a certain attempt or of any."""


class BackfillState(StrEnum):
    """The state of a backfill. A running one can belong to a process that died."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class BackfillStep(StrEnum):
    """What a backfill reads."""

    MIRROR = "mirror"
    """The rows of a Delta version."""
    OLDER = "older"
    """The images of before that version, of rows that it does not have."""
    PAYLOADS = "payloads"
    """The staged blocks behind `through_sequence`."""


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill as it was read, or as a step leaves it."""

    table_id: TableId
    generation: Generation
    state: BackfillState
    attempt: int
    step: BackfillStep
    mirror_id: str | None
    """The id of the Delta table, which another one at its place does not have."""
    mirror_version: int | None
    """The Delta version whose rows are copied; None for a backfill from payloads alone."""
    mirror_rows: int
    """The rows of that version that are copied, in its order."""
    through_key: bytes | None
    """The last row key that the step OLDER has looked at."""
    through_sequence: BatchSequence
    """The last batch whose rows have images; before the step PAYLOADS, the last one that the Delta version has."""
    rows_done: int
    rows_total: int
    batches_total: int
    by_drain: bool
    """True if the drain that owns the table carries it out, and begins again after a failure of a moment."""
    detail: str | None
    started_at: datetime
    updated_at: datetime
    finished_at: datetime | None

    @property
    def is_due(self) -> bool:
        """True while a drain has to carry it out."""
        return self.by_drain and self.state is BackfillState.RUNNING

    @property
    def can_continue(self) -> bool:
        """False after a failure while a Delta version was copied: the next one begins again, perhaps with another."""
        return not (self.state is BackfillState.FAILED and self.step is BackfillStep.MIRROR)

    def is_of(self, table: Table) -> bool:
        """Return whether it is of the table's present generation."""
        return (self.table_id, self.generation) == (table.table_id, table.generation)

    @property
    def batches_done(self) -> int:
        """Return the last batch whose rows all have images."""
        return self.through_sequence if self.step is BackfillStep.PAYLOADS else 0


Progress: TypeAlias = Callable[[Backfill], None]
"""Called with the backfill after each step."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an attempt begins, and how much there is to read."""

    step: BackfillStep
    through_sequence: BatchSequence
    rows_total: int
    batches_total: int
    mirror_id: str | None = None
    mirror_version: int | None = None
    mirror_rows: int = 0
    through_key: bytes | None = None
    rows_done: int = 0

    @classmethod
    def of(cls, backfill: Backfill, rows_left: int, batches_total: int) -> Self:
        """Return the place where a backfill has ended."""
        return cls(
            step=backfill.step,
            through_sequence=backfill.through_sequence,
            rows_total=backfill.rows_done + rows_left,
            batches_total=batches_total,
            mirror_id=backfill.mirror_id,
            mirror_version=backfill.mirror_version,
            mirror_rows=backfill.mirror_rows,
            through_key=backfill.through_key,
            rows_done=backfill.rows_done,
        )


def find_backfill(connection: sa.Connection, table: Table) -> Backfill | None:
    """Return the last backfill of a table's present generation."""
    found = find_backfills(connection, [table.table_id]).get(table.table_id)
    return found if found is not None and found.is_of(table) else None


def find_backfills(connection: sa.Connection, table_ids: Collection[TableId]) -> dict[TableId, Backfill]:
    """Return the last backfill of each of these tables that had one."""
    rows = connection.execute(SELECT_BACKFILLS, {"table_ids": list(table_ids)}).mappings()
    return {TableId(row["table_id"]): _backfill(row) for row in rows}


def is_same_attempt(one: Backfill | None, other: Backfill | None) -> bool:
    """Tell whether two backfills of a generation are one attempt, or both are none."""
    if one is None or other is None:
        return one is other
    return (one.attempt, one.started_at) == (other.attempt, other.started_at)


def begin_attempt(connection: sa.Connection, table: Table, place: Place, *, is_new: bool, by_drain: bool) -> Backfill:
    """Begin at a place, under the sequence lock; an attempt of before cannot commit a step any more.

    A backfill that is not new keeps the start of the one that it continues.
    A process that dies before the commit leaves the attempt of before.
    """
    life = {"table_id": table.table_id, "generation": table.generation}
    connection.execute(BEGIN_ATTEMPT, {**life, "is_new": is_new, "by_drain": by_drain, **asdict(place)})
    found = find_backfill(connection, table)
    assert found is not None
    return found


def store_place(connection: sa.Connection, backfill: Backfill) -> None:
    """Store where a step ends, in its transaction. Raises RejectedInput `backfill_stopped` if the attempt is over."""
    parameters = {
        "table_id": backfill.table_id,
        "attempt": backfill.attempt,
        "started_at": backfill.started_at,
        "step": backfill.step,
        "mirror_rows": backfill.mirror_rows,
        "through_key": backfill.through_key,
        "through_sequence": backfill.through_sequence,
        "rows_done": backfill.rows_done,
        "batches_total": backfill.batches_total,
    }
    if connection.execute(STORE_PLACE, parameters).rowcount == 0:
        raise RejectedInput(Code.BACKFILL_STOPPED, "the backfill was cancelled, or another process continues it")


def note_detail(connection: sa.Connection, table_id: TableId, detail: str) -> None:
    """Store why an attempt of a drain failed, for those who wait."""
    connection.execute(NOTE_DETAIL, {"table_id": table_id, "detail": detail})


def end_backfill(
    connection: sa.Connection, backfill: Backfill, state: BackfillState, detail: str | None = None
) -> bool:
    """End an attempt, and return whether this did; nothing happens if it is over already."""
    return _end(connection, backfill, backfill, state, detail)


def cancel_backfill(connection: sa.Connection, table: Table) -> bool:
    """Cancel the running backfill of a table's present generation, and return whether there was one.

    Call it under the sequence lock.

    The process that runs it stops at its next step. The images that it has written stay, and count as incomplete.
    """
    return _end(connection, table, None, BackfillState.CANCELLED, None)


def _end(
    connection: sa.Connection,
    life: Table | Backfill,
    attempt: Backfill | None,
    state: BackfillState,
    detail: str | None,
) -> bool:
    ended = {
        "table_id": life.table_id,
        "generation": life.generation,
        "attempt": attempt and attempt.attempt,
        "started_at": attempt and attempt.started_at,
        "state": state,
        "detail": detail,
    }
    return connection.execute(END_BACKFILL, ended).rowcount > 0


def _backfill(row: sa.RowMapping) -> Backfill:
    parsed = {"state": BackfillState(row["state"]), "step": BackfillStep(row["step"])}
    return Backfill(**{**row, **parsed})
