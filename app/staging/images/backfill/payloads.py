"""Gives images to the rows of staged blocks, one block after the other.

Each key gets its newest row: an image of a newer batch stays, and a key that a later block deletes loses what an
earlier one gave it. So after the last block, and not before, the images are the rows of the table. Batches that are
accepted meanwhile write their own images and are read like all others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import pyarrow as pa
import sqlalchemy as sa

from app.domain.arrow.payload import decode_payload
from app.domain.model.table import BatchSequence, Table
from app.domain.model.table_schema import SchemaVersion
from app.domain.rows.projection.source_rows import source_rows_of
from app.domain.rows.row_image import row_keys
from app.domain.rows.row_rules import RowMarker
from app.errors import Code, RejectedInput
from app.staging.connection.database import BINARY_RESULT, Engine, translated_errors
from app.staging.images.backfill.images import KEYS_PER_STEP, NewImages, encoded, write_older
from app.staging.images.backfill.progress import Backfill, Progress, store_place
from app.staging.images.backfill.rules import locked_table
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

SELECT_LEFT = sa.text("""
    SELECT c.last_sequence, coalesce(sum(b.row_count), 0)::bigint AS rows,
        c.last_sequence <= :after OR coalesce(
            min(b.first_sequence) <= :after + 1 AND bool_and(k.bucket IS NOT NULL), false) AS is_there
    FROM mirrorgate.table_counters c
    LEFT JOIN mirrorgate.staged_blocks b
        ON b.table_id = c.table_id AND b.generation = :generation AND b.last_sequence > :after
    LEFT JOIN mirrorgate.payload_buckets k ON k.bucket = b.bucket
    WHERE c.table_id = :table_id GROUP BY c.last_sequence""")
"""Read the last batch of a table, and the rows behind a sequence; tell whether all their payloads are there."""

DELETE_OLDER_IMAGES: Final = """
    DELETE FROM mirrorgate.row_images
    WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = ANY(%(keys)b)
      AND sequence <= %(last_sequence)s"""
"""Delete the row images of some keys, unless a newer batch wrote them."""


class Left(NamedTuple):
    """What there is to read behind a batch."""

    last: BatchSequence
    """The table's last batch."""
    rows: int
    is_there: bool
    """False if retention has deleted a payload of it."""


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
    kept: NewImages


def what_is_left(connection: sa.Connection, table: Table, after: BatchSequence) -> Left:
    """Return what there is to read behind a batch."""
    keys = {"table_id": table.table_id, "generation": table.generation, "after": after}
    return Left(*connection.execute(SELECT_LEFT, keys).one())


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


def purged(table: Table, after: BatchSequence, *, has_mirror: bool = True) -> RejectedInput:
    """Return the rejection of a backfill whose next payload is purged; tell whether it could read a mirror."""
    detail = f"the payloads of {table.name} from batch {after + 1} on are purged"
    if not has_mirror:
        detail += ", and no target of a Delta mirror is named"
    remedy = (
        "If a Delta mirror of the landing zone has the table (docs/mirror.md), name its target: `mirrorgate tables "
        f"backfill-images {table.name} --to TARGET`, or MIRRORGATE_MIRROR_TARGET of the drain. Otherwise recreate the "
        "table with row_images=on and load it again."
    )
    return RejectedInput(Code.PAYLOADS_PURGED, detail, remedy=remedy)


def replay_block(engine: Engine, table: Table, block: Block, backfill: Backfill, progress: Progress) -> Backfill:
    """Give images to the rows of a block, and return where the backfill is then. Call `progress` after each step.

    The place moves with the last one. A process that dies before it begins the block again, which changes nothing that
    is written already.
    """
    steps = list(_steps(engine, table, block))
    for number, step in enumerate(steps, start=1):
        with translated_errors(), engine.begin() as connection:
            present, counters = locked_table(connection, table)
            _write(connection, present, block, step)
            backfill = replace(backfill, batches_total=counters.last_sequence)
            if number == len(steps):
                backfill = replace(
                    backfill, through_sequence=block.last, rows_done=backfill.rows_done + sum(block.batch_rows)
                )
            store_place(connection, backfill)
        progress(backfill)
    return backfill


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
        images = encoded(rows.take(pa.array([newest[key] for key in kept], pa.int64())), schema, table.options)
        deleted = [key for key in chosen if markers[newest[key]] == RowMarker.DELETE]
        yield _Step(deleted, NewImages(kept, [sequences[newest[key]] for key in kept], images))


def _write(connection: sa.Connection, table: Table, block: Block, step: _Step) -> None:
    if step.deleted:
        deleted = {
            "table_id": table.table_id,
            "generation": table.generation,
            "keys": step.deleted,
            "last_sequence": block.last,
        }
        connection.exec_driver_sql(DELETE_OLDER_IMAGES, deleted)
    if step.kept.keys:
        write_older(connection, table, step.kept)
