"""Gives row images to the rows that a table had before it kept any, from the payloads that are still staged.

Blocks are read from the first one on, and each key gets its newest row: an image of a newer batch stays, and a key that
a later block deletes loses what an earlier one gave it. So after the last block, and not before, the images are the
rows of the table. Batches that are accepted meanwhile write their own images and are read like all others.

Each step is one transaction under the sequence lock. A process that dies leaves images that count as incomplete; the
next run begins with the first block again.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import sqlalchemy as sa

from app.domain.arrow.payload import decode_payload
from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, Table
from app.domain.model.table_schema import SchemaVersion, TableSchema
from app.domain.rows.from_arrow.arrow_images import source_rows
from app.domain.rows.row_image import encode_images, row_keys
from app.domain.rows.row_rules import RowMarker, RowRules
from app.errors import Code, RejectedInput
from app.staging.batches.sequence_lock import Counters, lock_counters
from app.staging.connection.database import BINARY_RESULT, Engine, translated_errors
from app.staging.connection.raw_sql import int_array_literal
from app.staging.tables.registration_events import ROW_RULES_CHANGED
from app.staging.tables.registry import find_table, find_table_by_id
from app.staging.tables.schema_versions import schema_of_version

SELECT_NEXT_BLOCK = sa.text("""
    SELECT b.first_sequence, b.last_sequence, b.schema_version, b.batch_rows, p.payload
    FROM (
        SELECT table_id, generation, first_sequence, last_sequence, schema_version, batch_rows, bucket
        FROM mirrorgate.staged_blocks
        WHERE table_id = :table_id AND generation = :generation AND first_sequence > :after
        ORDER BY first_sequence LIMIT 1) b
    LEFT JOIN mirrorgate.block_payloads p USING (table_id, generation, first_sequence)
    WHERE p.bucket IS NULL OR p.bucket >= b.bucket""").execution_options(**BINARY_RESULT)
"""Read the block behind a sequence with its payload, which is null if retention has deleted it."""

UPSERT_OLDER_IMAGES: Final = """
    INSERT INTO mirrorgate.row_images AS present (table_id, generation, row_key, sequence, image)
    SELECT %(table_id)s, %(generation)s, row_key, sequence, image
    FROM unnest(%(keys)b::bytea[], %(sequences)s::bigint[], %(images)b::bytea[]) AS new (row_key, sequence, image)
    ON CONFLICT (table_id, generation, row_key)
    DO UPDATE SET sequence = excluded.sequence, image = excluded.image WHERE present.sequence < excluded.sequence"""
"""Store row images unless the key has one of a newer batch."""

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

SELECT_RULES_CHANGED = sa.text("""
    SELECT EXISTS (SELECT FROM mirrorgate.table_events
        WHERE folded_name = :folded_name AND table_id = :table_id AND generation = :generation AND action = :action)""")
"""Tell whether the masks or the filter of a table have changed in this generation."""

_RECREATE: Final = "Recreate the table with row_images=on and load it again (docs/tables.md)."


@dataclass(frozen=True, slots=True)
class BackfillProgress:
    """How far a backfill is: the last batch whose rows have images, and the last one of the table."""

    through: BatchSequence
    last: BatchSequence


class _Block(NamedTuple):
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
    images: Sequence[bytes]


def backfill_images(engine: Engine, name: TableName, progress: Callable[[BackfillProgress], None]) -> Table:
    """Give an image to every row of a table, and return the table; it then has complete images.

    `progress` is called after each block. Raises RejectedInput `unknown_table`, `no_row_images`, `bad_option` or
    `payloads_purged`, with everything that was written left as it is: such images count as incomplete.
    """
    with translated_errors(), engine.begin() as connection:
        table = find_table(connection, name)
        if table is None:
            remedy = "`mirrorgate tables list` shows all tables."
            raise RejectedInput(Code.UNKNOWN_TABLE, f"there is no table {name}", remedy=remedy)
        _check(connection, table)
    through = BatchSequence(0)
    while not table.images_complete:
        with translated_errors(), engine.begin() as connection:
            block = _next_block(connection, table, through)
        if block is None:
            table = _complete(engine, table, through)
            continue
        last = through = block.last
        for step in _steps(engine, table, block):
            with translated_errors(), engine.begin() as connection:
                table, counters = _locked(connection, table)
                _write(connection, table, block, step)
            last = counters.last_sequence
        progress(BackfillProgress(through, last))
    return table


def _check(connection: sa.Connection, table: Table) -> None:
    """Raise RejectedInput unless the images are complete, or the staged rows of the table can complete them."""
    if not table.options.keeps_images:
        raise RejectedInput(Code.NO_ROW_IMAGES, f"{table.name} keeps no row images to complete")
    if table.images_complete:
        return
    if table.options.masks or table.options.filter is not None or _rules_changed(connection, table):
        detail = (
            f"masks or a filter apply, or applied, to {table.name}: its staged rows can have values that a mask takes"
            " away, or lack rows of the source"
        )
        raise RejectedInput(Code.BAD_OPTION, detail, remedy=_RECREATE)
    if table.options.reads_images:
        detail = "partial updates would be completed from rows that a backfill has not brought up to date yet"
        remedy = "Set row_images=on and partial_updates=reject until the backfill has ended."
        raise RejectedInput(Code.BAD_OPTION, detail, remedy=remedy)


def _rules_changed(connection: sa.Connection, table: Table) -> bool:
    life = {"folded_name": table.name.folded, "table_id": table.table_id, "generation": table.generation}
    return bool(connection.execute(SELECT_RULES_CHANGED, {**life, "action": ROW_RULES_CHANGED}).scalar_one())


def _check_schema(table: Table, schema: TableSchema) -> None:
    if schema.lands_as is not None:
        detail = (
            f"staged rows of {table.name} are not as the source wrote them, because options of the table change them"
        )
        raise RejectedInput(Code.BAD_OPTION, detail, remedy=_RECREATE)


def _locked(connection: sa.Connection, table: Table) -> tuple[Table, Counters]:
    """Return the table under its sequence lock, and its counters. Raises RejectedInput if it has changed too much."""
    counters = lock_counters(connection, [table.table_id])[table.table_id]
    present = find_table_by_id(connection, table.table_id)
    if present is None or present.generation != table.generation:
        raise RejectedInput(Code.UNKNOWN_TABLE, f"{table.name} has been dropped or recreated")
    _check(connection, present)
    return present, counters


def _next_block(connection: sa.Connection, table: Table, after: BatchSequence) -> _Block | None:
    """Return the block behind a sequence, None behind the last one. Raises RejectedInput `payloads_purged`."""
    keys = {"table_id": table.table_id, "generation": table.generation, "after": after}
    row = connection.execute(SELECT_NEXT_BLOCK, keys).one_or_none()
    if row is None:
        return None
    if row.first_sequence != after + 1 or row.payload is None:
        raise _purged(table, after)
    return _Block(row.first_sequence, row.last_sequence, row.schema_version, row.batch_rows, bytes(row.payload))


def _purged(table: Table, after: BatchSequence) -> RejectedInput:
    detail = f"the payloads of {table.name} from batch {after + 1} on are purged"
    return RejectedInput(Code.PAYLOADS_PURGED, detail, remedy=_RECREATE)


def _steps(engine: Engine, table: Table, block: _Block) -> Iterator[_Step]:
    """Yield the newest row of each key of a block, some keys at a time."""
    with translated_errors(), engine.begin() as connection:
        schema = schema_of_version(connection, table.table_id, table.generation, block.version)
    _check_schema(table, schema)
    rows = decode_payload(block.payload, schema.arrow)
    sequences = [sequence for sequence, count in enumerate(block.batch_rows, block.first) for _ in range(count)]
    newest = {key: row for row, key in enumerate(row_keys([rows.column(name) for name in table.schema.key_columns]))}
    markers = rows.column(rows.num_columns - 1).to_pylist()
    keys = list(newest)
    for start in range(0, len(keys), KEYS_PER_STEP):
        chosen = keys[start : start + KEYS_PER_STEP]
        kept = [key for key in chosen if markers[newest[key]] != RowMarker.DELETE]
        typed = rows.take(pa.array([newest[key] for key in kept], pa.int64()))
        yield _Step(
            [key for key in chosen if markers[newest[key]] == RowMarker.DELETE],
            kept,
            [sequences[newest[key]] for key in kept],
            [image for part in source_rows(typed, RowRules(schema, table.options)) for image in encode_images(part)],
        )


def _write(connection: sa.Connection, table: Table, block: _Block, step: _Step) -> None:
    life = {"table_id": table.table_id, "generation": table.generation}
    if step.deleted:
        deleted = {**life, "keys": step.deleted, "last_sequence": block.last}
        connection.exec_driver_sql(DELETE_OLDER_IMAGES, deleted)
    if step.keys:
        written = {"keys": step.keys, "sequences": int_array_literal(step.sequences), "images": step.images}
        connection.exec_driver_sql(UPSERT_OLDER_IMAGES, {**life, **written})


def _complete(engine: Engine, table: Table, through: BatchSequence) -> Table:
    """Record that the images are complete if no batch was accepted meanwhile; return the present table."""
    with translated_errors(), engine.begin() as connection:
        present, counters = _locked(connection, table)
        if counters.last_sequence > through:
            if _next_block(connection, present, through) is None:  # under the lock, so its block was there and is not
                raise _purged(present, through)
            return present
        connection.execute(SET_COMPLETE, {"table_id": table.table_id, "generation": table.generation})
        found = find_table_by_id(connection, table.table_id)
        assert found is not None
        return found
