"""Copy row images into a table's next generation, part by part, all from one snapshot of the database.

A part is a range of keys. One transaction stages its rows as one block under a new sequence, and stores their
new images. So parts can be copied in any order, by several processes, and each of them once.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

import psycopg.errors
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from app.domain.arrow import encode_payload
from app.domain.model.table import BatchSequence, Generation, TableId
from app.domain.model.table_schema import SchemaVersion
from app.domain.rebuild import RebuiltRows
from app.staging.batches.sequence_lock import lock_counters
from app.staging.batches.staged_blocks import NewBlock, insert_block
from app.staging.connection.raw_sql import driver_of
from app.staging.ledger.leases import NO_IDLE_LIMIT
from app.staging.rebuild.progress import AttemptIsOver, Rebuild, clear_touched, require_attempt

EXPORT_SNAPSHOT = sa.text("SELECT pg_export_snapshot()")
"""Let other sessions read what this transaction sees."""

SET_SNAPSHOT: Final = "SET TRANSACTION SNAPSHOT '{snapshot}'"
"""Let this transaction read what the exporting one sees; Postgres takes no parameter here."""

_AFTER: Final = """
    FROM mirrorgate.row_images
    WHERE table_id = :table_id AND generation = :generation AND (CAST(:after AS bytea) IS NULL OR row_key > :after)"""

SELECT_BOUND = sa.text(f"""
    SELECT row_key, number FROM (
        SELECT row_key, row_number() OVER keys AS number, sum(bytes) OVER keys AS size FROM (
            SELECT row_key, octet_length(image) AS bytes {_AFTER} ORDER BY row_key LIMIT :rows) page
        WINDOW keys AS (ORDER BY row_key)) sized
    WHERE size <= :max_bytes OR number = 1 ORDER BY number DESC LIMIT 1""")  # noqa: S608  # constant text
"""Read the last key of a part, and how many row images it has: so many, or as many as fit, and at least one."""

SELECT_PART: Final = """
    SELECT image FROM mirrorgate.row_images
    WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key <= %(through)b
      AND (%(after)b::bytea IS NULL OR row_key > %(after)b) ORDER BY row_key"""
"""Read the row images of one part."""

COPY_IMAGES: Final = """
    COPY mirrorgate.row_images (table_id, generation, row_key, sequence, image) FROM STDIN (FORMAT BINARY)"""
"""Store new row images. COPY writes many rows with one record of WAL; INSERT … SELECT would take half as long again."""

COUNT_PARTS = sa.text("""
    SELECT count(*) FROM mirrorgate.staged_blocks
    WHERE table_id = :table_id AND generation = :generation AND schema_version = 1 AND first_sequence <= :parts""")
"""Count the blocks of a generation that are the first parts of a copy, and none of its corrections."""

MAX_PART_BYTES: Final = 64 * 2**20
"""Bytes of the row images of a part; a task holds them several times."""

NO_FLUSH: Final = "SET LOCAL synchronous_commit = off"
"""Let COMMIT not wait for the disk: if Postgres dies it can lose the last parts, so the switch counts them."""

_COPY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0)
_COPY_END: Final = struct.pack(">h", -1)


class DuplicateKeys(Exception):
    """Two rows have the same key in the next generation."""


class PartIsStored(Exception):
    """The part is stored already, or its attempt is over."""


class Part(NamedTuple):
    """A range of row keys: those after `after` (None: from the first) through `through`."""

    number: int
    """From 1; also the batch sequence of the part's rows."""
    after: bytes | None
    through: bytes
    first_row: int
    """Position of its first row among all, from 1."""
    rows: int


@dataclass(frozen=True, slots=True)
class CopySource:
    """Table whose row images are copied, and the snapshot that is read."""

    table_id: TableId
    generation: Generation
    snapshot: str


@contextmanager
def image_snapshot(engine: sa.Engine, rebuild: Rebuild) -> Iterator[tuple[CopySource, sa.Connection]]:
    """Export a snapshot of the row images for the length of the block; give the transaction that holds it.

    It is taken under the sequence lock, with no key noted as changed: each later batch notes the keys that it changes.
    Raises AttemptIsOver: the noted keys are those of another attempt, whose copies lack their changes.
    """
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as reader, reader.begin():
        reader.execute(NO_IDLE_LIMIT)
        with engine.begin() as connection:
            lock_counters(connection, [rebuild.table_id])
            require_attempt(connection, rebuild)
            clear_touched(connection, rebuild.table_id)
            snapshot = reader.execute(EXPORT_SNAPSHOT).scalar_one()
        yield CopySource(rebuild.table_id, rebuild.generation, snapshot), reader


@contextmanager
def reading_snapshot(engine: sa.Engine, source: CopySource) -> Iterator[sa.Connection]:
    """Begin a transaction that reads the snapshot, and commit it at the end of the block."""
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection, connection.begin():
        connection.exec_driver_sql(SET_SNAPSHOT.format(snapshot=source.snapshot))
        yield connection


def parts_of(reader: sa.Connection, source: CopySource, *, size: int) -> list[Part]:
    """Return the parts of `size` rows each, or fewer if images are long, that the row images of the snapshot have."""
    keys = {"table_id": source.table_id, "generation": source.generation, "rows": size, "max_bytes": MAX_PART_BYTES}
    parts: list[Part] = []
    after, first_row = None, 1
    while (bound := reader.execute(SELECT_BOUND, {**keys, "after": after}).one_or_none()) is not None:
        parts.append(Part(len(parts) + 1, after, bytes(bound.row_key), first_row, bound.number))
        after, first_row = parts[-1].through, first_row + bound.number
    return parts


def read_part(connection: sa.Connection, source: CopySource, part: Part) -> list[bytes]:
    """Return the row images of a part, in the order of their keys."""
    bounds = {
        "table_id": source.table_id,
        "generation": source.generation,
        "after": part.after,
        "through": part.through,
    }
    with driver_of(connection, SELECT_PART) as driver, driver.cursor(binary=True) as cursor:
        return [image for (image,) in cursor.execute(SELECT_PART, bounds).fetchall()]


def store_part(
    connection: sa.Connection, source: CopySource, part: Part, rows: RebuiltRows, landing: pa.RecordBatch
) -> None:
    """Stage the rows of a part, as they land, as a block of the next generation, and store their images.

    Dying before COMMIT leaves nothing of the part, and so can Postgres until the next COMMIT that waits for the disk.
    Raises DuplicateKeys, also if a row of another part has the key, and PartIsStored.
    """
    connection.exec_driver_sql(NO_FLUSH)
    next_generation = Generation(source.generation + 1)
    sequence = BatchSequence(part.number)
    count = rows.batch.num_rows
    block = NewBlock(
        source.table_id,
        next_generation,
        SchemaVersion(1),
        sequence,
        [landing.num_rows],
        [count],
        *encode_payload([landing]),
        cdc_started=False,
    )
    try:
        insert_block(connection, block)
    except sa.exc.IntegrityError as error:
        raise PartIsStored from error
    except sa.exc.OperationalError as error:
        if isinstance(error.orig, psycopg.errors.SerializationFailure):  # the schema version was deleted meanwhile
            raise PartIsStored from error
        raise
    _copy_images(connection, source.table_id, next_generation, sequence, rows)


def _copy_images(
    connection: sa.Connection, table_id: TableId, generation: Generation, sequence: BatchSequence, rows: RebuiltRows
) -> None:
    """Store new images by COPY in binary form, in the order of their keys: each page of the index is read once."""
    order = pc.array_sort_indices(rows.keys)
    keys, images = rows.keys.take(order), rows.images.take(order)
    start = struct.pack(">hiqii", 5, 8, table_id, 4, generation)
    middle = struct.pack(">iq", 8, sequence)
    lines = pc.binary_join_element_wise(start, _lengths(keys), keys, middle, _lengths(images), images, b"")
    _, ends, content = lines.buffers()
    written = memoryview(content)[: memoryview(ends).cast("i")[len(lines)]]
    with driver_of(connection, COPY_IMAGES) as driver:
        try:
            with driver.cursor() as cursor, cursor.copy(COPY_IMAGES) as copy:
                copy.write(b"".join((_COPY_HEADER, written, _COPY_END)))
        except (psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected) as error:
            # Parts wait for each other only if both store the same key.
            raise DuplicateKeys from error


def _lengths(values: pa.BinaryArray) -> pa.BinaryArray:
    """Return the length of each value, as COPY writes it before the value."""
    lengths = pc.binary_length(values).to_numpy().astype(">i4")
    return pc.cast(pa.Array.from_buffers(pa.binary(4), len(values), [None, pa.py_buffer(lengths)]), pa.binary())


def require_parts(connection: sa.Connection, rebuild: Rebuild, parts: int) -> None:
    """Raise AttemptIsOver unless the next generation has all parts of the copy."""
    keys = {"table_id": rebuild.table_id, "generation": rebuild.next_generation, "parts": parts}
    if connection.execute(COUNT_PARTS, keys).scalar_one() != parts:
        raise AttemptIsOver
