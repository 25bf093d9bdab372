"""Gives images to the rows of staged blocks, one block after the other: the drain's part of a backfill.

Each key gets its newest row: an image of a newer batch stays, and a key that a later block deletes loses what an
earlier one gave it. So after the last block, and not before, the images are the rows of the table. Batches that are
accepted meanwhile write their own images and are read like all others.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

import pyarrow as pa
import sqlalchemy as sa

from app.domain.arrow.payload import decode_payload
from app.domain.model.table import BatchSequence, Table, TableId
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.from_arrow.arrow_images import source_rows
from app.domain.rows.projection.source_rows import source_rows_of
from app.domain.rows.row_image import encode_images, row_keys
from app.domain.rows.row_rules import RowMarker, RowRules
from app.errors import RejectedInput
from app.staging.batches.sequence_lock import lock_counters
from app.staging.connection.database import BINARY_RESULT, Engine, translated_errors
from app.staging.connection.raw_sql import int_array_literal
from app.staging.images.backfill.progress import (
    Backfill,
    BackfillState,
    Overtaken,
    Progress,
    end_backfill,
    find_backfill,
    store_place,
)
from app.staging.images.backfill.request import check_table, purged
from app.staging.ledger.leases import is_leased_by
from app.staging.tables.events import record_event
from app.staging.tables.registry import find_table_by_id
from app.staging.tables.schema_versions import schema_of_version

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

UPSERT_OLDER_IMAGES: Final = """
    INSERT INTO mirrorgate.row_images AS present (table_id, generation, row_key, sequence, image)
    SELECT %(table_id)s, %(generation)s, row_key, sequence, image
    FROM unnest(%(keys)b::bytea[], %(sequences)s::bigint[], %(images)b::bytea[]) AS new (row_key, sequence, image)
    ON CONFLICT (table_id, generation, row_key)
    DO UPDATE SET sequence = excluded.sequence, image = excluded.image WHERE present.sequence < excluded.sequence"""
"""Store row images unless the key has one of the same or a newer batch."""

DELETE_OLDER_IMAGES: Final = """
    DELETE FROM mirrorgate.row_images
    WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = ANY(%(keys)b)
      AND sequence <= %(last_sequence)s"""
"""Delete the row images of some keys, unless a newer batch wrote them."""

SET_COMPLETE = sa.text("""
    UPDATE mirrorgate.tables SET images_complete = true, revision = revision + 1
    WHERE table_id = :table_id AND generation = :generation""")
"""Record that no row of a table lacks a row image."""

KEYS_PER_STEP: Final = 5_000
"""Row images that one transaction writes at most: about 50 ms, for which changes of the table wait."""


class Block(NamedTuple):
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


def run_backfill(engine: Engine, table_id: TableId, worker_id: UUID, progress: Progress) -> None:
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


def next_block(connection: sa.Connection, table: Table, after: BatchSequence) -> Block | None:
    """Return the block that has the batch behind a sequence; None if it is not staged.

    Raises RejectedInput `payloads_purged` if its payload is purged.
    """
    keys = {"table_id": table.table_id, "generation": table.generation, "after": after}
    row = connection.execute(SELECT_NEXT_BLOCK, keys).one_or_none()
    if row is None:
        return None
    if row.payload is None:
        raise purged(table, after)
    return Block(row.first_sequence, row.last_sequence, row.schema_version, row.batch_rows, bytes(row.payload))


def _replay_block(engine: Engine, table: Table, block: Block, backfill: Backfill, progress: Progress) -> Backfill:
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


def _steps(engine: Engine, table: Table, block: Block) -> Iterator[_Step]:
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


def _write(connection: sa.Connection, table: Table, block: Block, step: _Step) -> None:
    """Write the images of a step under the sequence lock, without undoing what newer batches wrote."""
    life = {"table_id": table.table_id, "generation": table.generation}
    if step.deleted:
        deleted = {**life, "keys": step.deleted, "last_sequence": block.last}
        connection.exec_driver_sql(DELETE_OLDER_IMAGES, deleted)
    if step.keys:
        kept = {**life, "keys": step.keys, "sequences": int_array_literal(step.sequences), "images": step.images}
        connection.exec_driver_sql(UPSERT_OLDER_IMAGES, kept)
