"""Row images in Postgres: the latest full row per key, written in the transaction of the batch that makes it.

Read and written under the table's sequence lock only, so that each batch sees what all batches before it left.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import sqlalchemy as sa

from app.domain.model.table import BatchSequence, Generation, TableId
from app.domain.rows.completed_bytes import MAX_COMPLETED_BYTES
from app.domain.rows.row_image import StoredImage
from app.errors import Code, RejectedInput
from app.staging.connection.database import BINARY_RESULT

# In the driver's own placeholders, of which %()b sends arrays in binary form: as text they would be twice as long.
SELECT_ROW_IMAGES: Final = """
    SELECT array_agg(row_key), array_agg(image) FILTER (WHERE bytes <= %(most)s), array_agg(sequence), max(bytes)
    FROM (
        SELECT row_key, image, sequence, sum(octet_length(image)) OVER () AS bytes FROM mirrorgate.row_images
        WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = ANY(%(keys)b)) AS wanted"""
"""The length of an image is known without reading it."""

SELECT_PRESENT_KEYS: Final = """
    SELECT array_agg(row_key) FROM mirrorgate.row_images
    WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = ANY(%(keys)b)"""

UPSERT_ROW_IMAGES: Final = """
    INSERT INTO mirrorgate.row_images (table_id, generation, row_key, sequence, image)
    SELECT %(table_id)s, %(generation)s, row_key, sequence, image
    FROM unnest(%(keys)b::bytea[], %(sequences)b::bigint[], %(images)b::bytea[]) AS new (row_key, sequence, image)
    ON CONFLICT (table_id, generation, row_key)
    DO UPDATE SET sequence = excluded.sequence, image = excluded.image"""

DELETE_ROW_IMAGES: Final = """
    DELETE FROM mirrorgate.row_images
    WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = ANY(%(keys)b)"""

COUNT_ROW_IMAGES = sa.text("""
    SELECT count(*) FROM mirrorgate.row_images WHERE table_id = :table_id AND generation = :generation""")

CLEAR_ROW_IMAGES = sa.text("DELETE FROM mirrorgate.row_images WHERE table_id = :table_id")

SCAN_ROW_IMAGES = sa.text("""
    SELECT row_key, image FROM mirrorgate.row_images
    WHERE table_id = :table_id AND generation = :generation
      AND (CAST(:after AS bytea) IS NULL OR row_key > :after) ORDER BY row_key LIMIT :most""")

MOVE_ROW_IMAGES: Final = """
    UPDATE mirrorgate.row_images SET generation = %(new)s, sequence = %(sequence)s
    WHERE table_id = %(table_id)s AND generation = %(old)s AND row_key = ANY(%(keys)b)"""

MAX_IMAGES_PER_STATEMENT: Final = 2_000
"""Images that one statement reads or writes, which Postgres gives and takes as one array of at most 1 GB."""

Item = TypeVar("Item")


def read_row_images(
    connection: sa.Connection, table_id: TableId, generation: Generation, keys: Collection[bytes]
) -> dict[bytes, StoredImage]:
    """The stored images of these row keys. A statement of its own, begun after the sequence lock was granted.

    Raises RejectedInput `body_too_large` where they take more than MAX_COMPLETED_BYTES together.
    """
    found: dict[bytes, StoredImage] = {}
    left = MAX_COMPLETED_BYTES
    for chunk in _chunks(list(keys)):
        parameters = {"table_id": table_id, "generation": generation, "keys": chunk, "most": left}
        row = connection.exec_driver_sql(SELECT_ROW_IMAGES, parameters, execution_options=BINARY_RESULT).one()
        if (left := left - (row[3] or 0)) < 0:
            detail = f"the rows that partial updates are completed from take more than {MAX_COMPLETED_BYTES} bytes"
            raise RejectedInput(Code.BODY_TOO_LARGE, detail)
        found.update(zip(row[0] or (), map(StoredImage, row[1] or (), row[2] or ()), strict=True))
    return found


def read_present_keys(
    connection: sa.Connection, table_id: TableId, generation: Generation, keys: Collection[bytes]
) -> set[bytes]:
    """Those of these row keys that have a stored image. A statement of its own, as that of `read_row_images`."""
    found: set[bytes] = set()
    for chunk in _chunks(list(keys)):
        parameters = {"table_id": table_id, "generation": generation, "keys": chunk}
        row = connection.exec_driver_sql(SELECT_PRESENT_KEYS, parameters, execution_options=BINARY_RESULT).one()
        found.update(row[0] or ())
    return found


def write_row_images(
    connection: sa.Connection,
    table_id: TableId,
    generation: Generation,
    images: Mapping[bytes, StoredImage | None],
) -> None:
    """Leave these images stored, and nothing under a key whose image is None. Dies with the transaction."""
    place = {"table_id": table_id, "generation": generation}
    deleted = [key for key, image in images.items() if image is None]
    kept = [(key, image) for key, image in images.items() if image is not None]
    for keys in _chunks(deleted):
        connection.exec_driver_sql(DELETE_ROW_IMAGES, {**place, "keys": keys})
    for chunk in _chunks(kept):
        columns = {
            "keys": [key for key, _ in chunk],
            "sequences": [image.sequence for _, image in chunk],
            "images": [image.image for _, image in chunk],
        }
        connection.exec_driver_sql(UPSERT_ROW_IMAGES, {**place, **columns})


def count_row_images(connection: sa.Connection, table_id: TableId, generation: Generation) -> int:
    """How many rows have an image."""
    count: int = connection.execute(COUNT_ROW_IMAGES, {"table_id": table_id, "generation": generation}).scalar_one()
    return count


def scan_row_images(
    connection: sa.Connection, table_id: TableId, generation: Generation, most: int
) -> Iterator[dict[bytes, bytes]]:
    """All images by row key, in the order of the keys, `most` at a time."""
    after: bytes | None = None
    while True:
        parameters = {"table_id": table_id, "generation": generation, "after": after, "most": most}
        chunk = {bytes(key): bytes(image) for key, image in connection.execute(SCAN_ROW_IMAGES, parameters)}
        if not chunk:
            return
        yield chunk
        after = max(chunk)


def move_row_images(
    connection: sa.Connection,
    table_id: TableId,
    old: Generation,
    new: Generation,
    keys: Sequence[bytes],
    sequence: BatchSequence,
) -> None:
    """Make these images those of a new generation, written by its batch `sequence`."""
    parameters = {"table_id": table_id, "old": old, "new": new, "keys": keys, "sequence": sequence}
    connection.exec_driver_sql(MOVE_ROW_IMAGES, parameters)


def clear_row_images(connection: sa.Connection, table_id: TableId) -> None:
    """Forget all images of a table."""
    connection.execute(CLEAR_ROW_IMAGES, {"table_id": table_id})


def _chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (items[start : start + MAX_IMAGES_PER_STATEMENT] for start in range(0, len(items), MAX_IMAGES_PER_STATEMENT))
