"""Row images of a whole table: their backfill, and a snapshot of all of them.

The backfill gives an image to each row that a table had before it kept any. A request asks the drain that owns the
table for it. It can run while all payloads are kept whose rows tell the rows of the source. The drain reads the staged
blocks from the first one on, and each key gets its newest row: an image of a newer batch remains, and a key that a
later block deletes loses what an earlier one gave it. So after the last block, and not before, the images are the rows
of the table. Batches that are accepted meanwhile write their own images and are read like all others.

Invariant: a step commits only if the backfill is still where the step began. So a drain whose backfill was cancelled or
begun anew, or that another drain has overtaken after a lost lease, cannot undo what came after.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

import pyarrow as pa
import sqlalchemy as sa

from app.domain.arrow import decode_payload
from app.domain.model.names import TableName
from app.domain.model.projection import History
from app.domain.model.table import BatchSequence, Generation, Table, TableId
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.from_arrow import source_rows
from app.domain.rows.landing_projection import source_rows_of
from app.domain.rows.row_image import encode_images, is_deleted, row_keys
from app.domain.rows.row_rules import RowMarker, RowRules
from app.staging.batches.row_images import DELETE_ROW_IMAGES, UPSERT_ROW_IMAGES, scan_row_images
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.database import BINARY_RESULT, Engine, read_snapshot, translated_errors
from app.staging.connection.raw_sql import int_array_literal
from app.staging.ledger.leases import is_leased_by
from app.staging.tables.events import record_event
from app.staging.tables.operations import locked_table
from app.staging.tables.registration import ROW_RULES_CHANGED
from app.staging.tables.registry import find_table_by_id
from app.staging.tables.schema_versions import schema_of_version
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.errors.site import with_addresses

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


OnBackfillStep: TypeAlias = Callable[[Backfill], None]
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
    place = asdict(moved) | {"before": backfill.through_sequence}
    if connection.execute(STORE_PLACE, place).rowcount == 0:
        raise Overtaken
    return moved


def note_detail(connection: sa.Connection, table_id: TableId, detail: str) -> None:
    """Store why a drain could not do a step, for those who wait."""
    connection.execute(NOTE_DETAIL, {"table_id": table_id, "detail": detail})


def end_backfill(connection: sa.Connection, table: Table, state: BackfillState, detail: str | None = None) -> bool:
    """End the running backfill of a table's generation, and return whether there was one.

    A drain that carries it out stops at its next step. Its images remain; they count as incomplete unless the state is
    `done`.
    """
    life = {"table_id": table.table_id, "generation": table.generation}
    return connection.execute(END_BACKFILL, {**life, "state": state, "detail": detail}).rowcount > 0


SELECT_RULES_CHANGED = sa.text("""
    SELECT EXISTS (SELECT FROM mirrorgate.table_events
        WHERE folded_name = :folded_name AND table_id = :table_id AND generation = :generation AND action = :action)""")
"""Return True if masks, filter, replaced columns or names of a table have changed in this generation."""

SELECT_LEFT = sa.text("""
    SELECT c.last_sequence, coalesce(sum(b.row_count), 0)::bigint AS rows,
        c.last_sequence <= :after OR coalesce(
            min(b.first_sequence) <= :after + 1 AND bool_and(k.bucket IS NOT NULL), false) AS is_there
    FROM mirrorgate.table_counters c
    LEFT JOIN mirrorgate.staged_blocks b
        ON b.table_id = c.table_id AND b.generation = :generation AND b.last_sequence > :after
    LEFT JOIN mirrorgate.payload_buckets k ON k.bucket = b.bucket
    WHERE c.table_id = :table_id GROUP BY c.last_sequence""")
"""Read the last batch of a table, and the rows behind a sequence; return True if all their payloads are there."""

_RECREATE: Final = with_addresses(
    "Recreate the table with row_images=on and load it again, in one go or beside its changes in a load session "
    "(docs/tables/reload.md)."
)


class Left(NamedTuple):
    """The remaining batches behind a batch."""

    last: BatchSequence
    """The table's last batch."""
    rows: int
    is_there: bool
    """False if retention has deleted a payload of it."""


def request_backfill(connection: sa.Connection, name: TableName, generation: Generation, actor: str) -> Table:
    """Ask for the backfill of a table, or for the rest of one that has ended. Repeating it changes nothing.

    A table with complete images is left as it is. A process that dies before the commit has asked for nothing. Raises
    RejectedInput `unknown_table`, `generation_mismatch`, `wrong_table_state`, `no_row_images`, `bad_option` or
    `payloads_purged`.
    """
    table = locked_table(connection, name, generation)
    if table.state.deletes_folder:
        raise RejectedInput(Code.WRONG_TABLE_STATE, f"table {table.name} is {table.state}")
    check_table(connection, table)
    if table.images_complete or table.backfill_due:
        return table
    present = find_backfill(connection, table)
    after = BatchSequence(0) if present is None else present.through_sequence
    left = what_is_left(connection, table, after)
    if not left.is_there:
        raise purged(table, after)
    begin_backfill(connection, table, present, left.rows, left.last)
    record_event(connection, table, actor, "backfill")
    return replace(table, backfill_due=True)


def stop_backfill(connection: sa.Connection, name: TableName, generation: Generation, actor: str) -> Table:
    """Cancel the running backfill of a table. Without one, change nothing.

    Its images remain, and the next request continues it. A process that dies before the commit has cancelled nothing.
    Raises RejectedInput `unknown_table` or `generation_mismatch`.
    """
    table = locked_table(connection, name, generation)
    if end_backfill(connection, table, BackfillState.CANCELLED):
        record_event(connection, table, actor, "backfill cancelled")
    return replace(table, backfill_due=False)


def check_table(connection: sa.Connection, table: Table) -> None:
    """Raise RejectedInput unless the images are complete, or staged rows of the table can complete them."""
    if not table.options.keeps_images:
        raise RejectedInput(Code.NO_ROW_IMAGES, f"{table.name} keeps no row images to complete")
    if table.images_complete:
        return
    lost = _lost(connection, table)
    if lost is not None:
        detail = f"the staged rows of {table.name} are not those of its source: {lost}"
        raise RejectedInput(Code.BAD_OPTION, detail, remedy=_RECREATE)
    if table.options.reads_images:
        detail = "partial updates would be completed from rows that a backfill has not brought up to date yet"
        remedy = "Set row_images=on and partial_updates=reject until the backfill has ended."
        raise RejectedInput(Code.BAD_OPTION, detail, remedy=remedy)


def what_is_left(connection: sa.Connection, table: Table, after: BatchSequence) -> Left:
    """Return what there is to read behind a batch."""
    keys = {"table_id": table.table_id, "generation": table.generation, "after": after}
    return Left(*connection.execute(SELECT_LEFT, keys).one())


def purged(table: Table, after: BatchSequence) -> RejectedInput:
    """Return the rejection of a backfill that needs a payload behind a batch which retention has deleted."""
    detail = f"payloads of {table.name} from batch {after + 1} on are purged"
    return RejectedInput(Code.PAYLOADS_PURGED, detail, remedy=_RECREATE)


def _lost(connection: sa.Connection, table: Table) -> str | None:
    """Return why the staged rows of a table do not tell those of its source; None if they do."""
    if table.options.history is not History.OFF:
        return "its files have every version of a row (history=append_only)"
    if table.options.masks or table.options.filter is not None or table.replaced:
        return "masks, a filter or replaced columns apply to it"
    life = {"folded_name": table.name.folded, "table_id": table.table_id, "generation": table.generation}
    if connection.execute(SELECT_RULES_CHANGED, {**life, "action": ROW_RULES_CHANGED}).scalar_one():
        return "its masks, its filter, its `rename` or its replaced columns have changed since its generation began"
    return None


SELECT_NEXT_BLOCK = sa.text("""
    SELECT b.first_sequence, b.last_sequence, b.schema_version, b.batch_rows, p.payload
    FROM (
        SELECT table_id, generation, first_sequence, last_sequence, schema_version, batch_rows, bucket
        FROM mirrorgate.staged_blocks
        WHERE table_id = :table_id AND generation = :generation AND first_sequence <= :after + 1
        ORDER BY first_sequence DESC LIMIT 1) b
    LEFT JOIN mirrorgate.block_payloads p USING (table_id, generation, first_sequence)
    WHERE b.last_sequence > :after AND (p.bucket IS NULL OR p.bucket >= b.bucket)""").execution_options(**BINARY_RESULT)
"""Read the block that has the next batch with its payload, which is null if retention has deleted it."""

UPSERT_OLDER_IMAGES: Final = f"{UPSERT_ROW_IMAGES} WHERE row_images.sequence < excluded.sequence"
"""Store row images unless the key has one of the same or a newer batch."""

DELETE_OLDER_IMAGES: Final = f"{DELETE_ROW_IMAGES} AND sequence <= %(last_sequence)s"
"""Delete the row images of some keys, unless a newer batch wrote them."""

SET_COMPLETE = sa.text("""
    UPDATE mirrorgate.tables SET images_complete = true, revision = revision + 1
    WHERE table_id = :table_id AND generation = :generation""")
"""Record that no row of a table lacks a row image."""

KEYS_PER_STEP: Final = 5_000
"""Row images that one transaction writes at most: about 50 ms, for which changes of the table wait."""


class BlockRows(NamedTuple):
    """A staged block with its rows."""

    first: BatchSequence
    last: BatchSequence
    version: SchemaVersion
    batch_rows: Sequence[int]
    payload: bytes


class _Step(NamedTuple):
    """The newest rows of some keys of a block."""

    deleted: Sequence[bytes]
    keys: Sequence[bytes]
    sequences: Sequence[int]
    """The batch of each kept row."""
    images: Sequence[bytes]


def run_backfill(engine: Engine, table_id: TableId, worker_id: UUID, progress: OnBackfillStep) -> None:
    """Carry out the backfill that is due for a table, from its place to the end; do nothing without one.

    Nothing happens either if another worker has claimed the table since: the backfill is then that worker's. `progress`
    is called after each step and may raise, which leaves the backfill due, as a process that dies does: the next one
    continues it. Raises TemporarilyUnavailable, Overtaken, and RejectedInput `no_row_images`, `bad_option` or
    `payloads_purged` after the backfill has ended as failed.
    """
    with translated_errors(), engine.begin() as connection:
        table = find_table_by_id(connection, table_id)
        is_due = table is not None and table.backfill_due and is_leased_by(connection, table_id, worker_id)
        backfill = find_backfill(connection, table) if table is not None and is_due else None
    if table is None or backfill is None:
        return
    try:
        with translated_errors(), engine.begin() as connection:
            check_table(connection, table)
        progress(backfill)
        is_complete = False
        while not is_complete:
            with translated_errors(), engine.begin() as connection:
                block = next_block(connection, table, backfill.through_sequence)
            if block is None:
                is_complete = _complete(engine, table, backfill)
            else:
                backfill = _replay_block(engine, table, block, backfill, progress)
    except RejectedInput as error:
        detail = f"{error.detail} ({error.code})"
        with translated_errors(), engine.begin() as connection:
            if end_backfill(connection, table, BackfillState.FAILED, detail):
                record_event(connection, table, "drain", "backfill failed", reason=detail)
        raise


def next_block(connection: sa.Connection, table: Table, after: BatchSequence) -> BlockRows | None:
    """Return the block that has the batch behind a sequence; None if it is not staged.

    Raises RejectedInput `payloads_purged` if its payload is purged.
    """
    keys = {"table_id": table.table_id, "generation": table.generation, "after": after}
    row = connection.execute(SELECT_NEXT_BLOCK, keys).one_or_none()
    if row is None:
        return None
    if row.payload is None:
        raise purged(table, after)
    return BlockRows(row.first_sequence, row.last_sequence, row.schema_version, row.batch_rows, bytes(row.payload))


def _replay_block(
    engine: Engine, table: Table, block: BlockRows, backfill: Backfill, progress: OnBackfillStep
) -> Backfill:
    """Give images to the rows of a block, and return where the backfill is then. Call `progress` after each step.

    The place moves with the last one. A process that dies before it begins the block again, which changes nothing that
    is written already.
    """
    steps = list(_steps(engine, table, block))
    for number, step in enumerate(steps, start=1):
        is_last = number == len(steps)
        with translated_errors(), engine.begin() as connection:
            last = _lock(connection, table)
            _write(connection, table, block, step)
            through, rows = (block.last, sum(block.batch_rows)) if is_last else (None, 0)
            backfill = store_place(connection, backfill, last, through, rows)
        progress(backfill)
    return backfill


def _complete(engine: Engine, table: Table, backfill: Backfill) -> bool:
    """Record that the images are complete; return False if a batch was accepted meanwhile.

    A process that dies before the commit leaves a backfill that the next one completes at once.
    """
    with translated_errors(), engine.begin() as connection:
        last = _lock(connection, table)
        if last > backfill.through_sequence:
            # Under the lock: a block that is not there now was purged.
            if next_block(connection, table, backfill.through_sequence) is None:
                raise purged(table, backfill.through_sequence)
            return False
        store_place(connection, backfill, last)
        end_backfill(connection, table, BackfillState.DONE)
        record_event(connection, table, "drain", "backfill done")
        connection.execute(SET_COMPLETE, {"table_id": table.table_id, "generation": table.generation})
        return True


def _lock(connection: sa.Connection, table: Table) -> BatchSequence:
    """Take the sequence lock of a table that `check_table` has passed, and return its last batch.

    Raises RejectedInput as `check_table` if the table has changed too much since, and Overtaken if it was dropped or
    recreated, or its images are complete.
    """
    counters = lock_counters(connection, [table.table_id])[table.table_id]
    present = find_table_by_id(connection, table.table_id)
    if present is None or present.generation != table.generation or present.images_complete:
        raise Overtaken
    if (present.revision, present.schema_version) != (table.revision, table.schema_version):
        # Each change of the rules or the columns raises one of them. Without one, `check_table` passed already.
        check_table(connection, present)
    return counters.last_sequence


def _steps(engine: Engine, table: Table, block: BlockRows) -> Iterator[_Step]:
    """Yield the newest row of each key of a block, some keys at a time."""
    with translated_errors(), engine.begin() as connection:
        schema = schema_of_version(connection, table.table_id, table.generation, block.version)
    landed = decode_payload(block.payload, schema.landing.arrow)
    rows = source_rows_of(landed, schema, table.options)
    sequences = [sequence for sequence, count in enumerate(block.batch_rows, block.first) for _ in range(count)]
    newest = {key: row for row, key in enumerate(row_keys([rows.column(name) for name in table.schema.key_columns]))}
    markers = rows.column(rows.num_columns - 1).to_pylist()
    keys = list(newest)
    for start in range(0, len(keys), KEYS_PER_STEP):
        chosen = keys[start : start + KEYS_PER_STEP]
        kept = [key for key in chosen if markers[newest[key]] != RowMarker.DELETE]
        kept_rows = rows.take(pa.array([newest[key] for key in kept], pa.int64()))
        images = [
            image for part in source_rows(kept_rows, RowRules(schema, table.options)) for image in encode_images(part)
        ]
        deleted = [key for key in chosen if markers[newest[key]] == RowMarker.DELETE]
        yield _Step(deleted, kept, [sequences[newest[key]] for key in kept], images)


def _write(connection: sa.Connection, table: Table, block: BlockRows, step: _Step) -> None:
    """Write the images of a step under the sequence lock, without undoing what newer batches wrote."""
    life = {"table_id": table.table_id, "generation": table.generation}
    if step.deleted:
        deleted = {**life, "keys": step.deleted, "last_sequence": block.last}
        connection.exec_driver_sql(DELETE_OLDER_IMAGES, deleted)
    if step.keys:
        kept = {**life, "keys": step.keys, "sequences": int_array_literal(step.sequences), "images": step.images}
        connection.exec_driver_sql(UPSERT_OLDER_IMAGES, kept)


_IMAGES_AT_ONCE: Final = 5_000

SELECT_LAST_SEQUENCE = sa.text("SELECT last_sequence FROM mirrorgate.table_counters WHERE table_id = :table_id")
"""Read the sequence of a table's last batch."""


class ImageSnapshot(NamedTuple):
    """The row images of a table after its batch `sequence`, without those of rows that are flagged as deleted."""

    table: Table
    sequence: BatchSequence
    images: Iterator[list[bytes]]
    """Images of the snapshot, some at a time, in the order of their keys."""


@contextmanager
def image_snapshot(engine: Engine, table: Table) -> Iterator[ImageSnapshot]:
    """Read the row images of a table in one snapshot of the database, which lasts as long as the block.

    The table is read again, because it may have changed since. Raises RejectedInput `unknown_table` for one of another
    generation, and `no_row_images`.
    """
    with translated_errors(), read_snapshot(engine) as connection:
        present = find_table_by_id(connection, table.table_id)
        if present is None or present.generation != table.generation:
            raise RejectedInput(Code.UNKNOWN_TABLE, f"table {table.name} was dropped or recreated in the meantime")
        present.require_images()
        sequence = connection.execute(SELECT_LAST_SEQUENCE, {"table_id": table.table_id}).scalar_one()
        chunks = scan_row_images(connection, table.table_id, table.generation, _IMAGES_AT_ONCE)
        images = ([image for image in chunk.values() if not is_deleted(image)] for chunk in chunks)
        yield ImageSnapshot(present, BatchSequence(sequence), images)
