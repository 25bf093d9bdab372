"""Row images in Postgres: the latest full row per key, which completes partial updates (decision 0067).

A row image is written in the transaction of the batch that changes the row. Reads and writes happen only under the
table's sequence lock, so each batch sees the images of all batches before it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import sqlalchemy as sa

from app.domain.model.table import BatchSequence, Generation, TableId
from app.domain.rows.row_image import MAX_COMPLETED_BYTES, CompletedBytes, StoredImage
from app.staging.connection.database import BINARY_RESULT
from app.staging.connection.raw_sql import int_array_literal
from mirrorgate.errors import Code, RejectedInput

# psycopg's placeholders, because %()b sends arrays in binary form; as text they would be twice as long.
SELECT_ROW_IMAGES: Final = """
    SELECT array_agg(row_key), array_agg(image) FILTER (WHERE bytes <= %(max_bytes)s), array_agg(sequence), max(bytes),
        array_agg(ctid)::text
    FROM (
        SELECT ctid, row_key, image, sequence, sum(octet_length(image)) OVER () AS bytes FROM mirrorgate.row_images
        WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = ANY(%(keys)b)) AS wanted"""
"""Read the row images of some keys if they fit in `max_bytes` together; their sizes are known without reading them."""

SELECT_PRESENT_KEYS: Final = """
    SELECT array_agg(row_key) FROM mirrorgate.row_images
    WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = ANY(%(keys)b)"""
"""Read which of some keys have a row image."""

_INSERT: Final = """
    INSERT INTO mirrorgate.row_images (table_id, generation, row_key, sequence, image)
    SELECT %(table_id)s, %(generation)s, row_key, sequence, image
    FROM unnest(%(keys)b::bytea[], %(sequences)s::bigint[], %(images)b::bytea[]) AS new (row_key, sequence, image)"""
"""Store row images of keys that have none."""

_ON_CONFLICT: Final = """
    ON CONFLICT (table_id, generation, row_key)
    DO UPDATE SET sequence = excluded.sequence, image = excluded.image"""

UPSERT_ROW_IMAGES: Final = f"{_INSERT}{_ON_CONFLICT}"
"""Store row images."""

SELECT_HAS_ANY: Final = """
        SELECT count(*) > 0 FROM mirrorgate.row_images
        WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = ANY(%(keys)b)"""
"""Return True if one of some keys has a row image."""

INSERT_OR_UPSERT_ROW_IMAGES: Final = f"""
    WITH present AS MATERIALIZED (
        SELECT CASE WHEN ({SELECT_HAS_ANY.replace("keys", "sample")}) THEN true ELSE ({SELECT_HAS_ANY}) END AS has_any),
    inserted AS ({_INSERT} WHERE NOT (SELECT has_any FROM present))
    {_INSERT} WHERE (SELECT has_any FROM present){_ON_CONFLICT}"""  # noqa: S608  # constant text
"""Store row images, under the sequence lock: by a plain INSERT if none of the keys has one, and else by an upsert.

A new image costs Postgres 2.5 µs instead of the 4.2 of an upsert (decision 0067). If the sample shows that keys have
images, it does not look for the others.
"""

UPDATE_ROW_IMAGES: Final = """
    UPDATE mirrorgate.row_images old SET sequence = new.sequence, image = new.image
    FROM unnest(%(places)s::tid[], %(sequences)s::bigint[], %(images)b::bytea[]) AS new (place, sequence, image)
    WHERE old.ctid = new.place"""
"""Replace row images that this transaction has read, by their places in the table.

That costs Postgres half of UPSERT_ROW_IMAGES: it looks up no key and locks no row before it writes.
"""

DELETE_ROW_IMAGES: Final = """
    DELETE FROM mirrorgate.row_images
    WHERE table_id = %(table_id)s AND generation = %(generation)s AND row_key = ANY(%(keys)b)"""
"""Delete the row images of some keys."""

DISCARD_ROW_IMAGES = sa.text("""
    DELETE FROM mirrorgate.row_images
    WHERE table_id = :table_id AND generation = :generation AND row_key = ANY(ARRAY(
        SELECT row_key FROM mirrorgate.row_images
        WHERE table_id = :table_id AND generation = :generation LIMIT :limit))""")
"""Delete some row images of a generation."""

SELECT_ANY_ROW_IMAGE = sa.text("""
    SELECT EXISTS (SELECT FROM mirrorgate.row_images WHERE table_id = :table_id AND generation = :generation)""")
"""Return True if a generation has a row image."""

SCAN_ROW_IMAGES = sa.text("""
    SELECT row_key, image FROM (
        SELECT row_key, image, sum(octet_length(image)) OVER (ORDER BY row_key) - octet_length(image) AS before FROM (
            SELECT row_key, image FROM mirrorgate.row_images
            WHERE table_id = :table_id AND generation = :generation
              AND (CAST(:after AS bytea) IS NULL OR row_key > :after) ORDER BY row_key LIMIT :limit) page) sized
    WHERE before < :max_bytes ORDER BY row_key""")
"""Read the next row images of a generation in the order of their keys, up to so many bytes and one more image."""

MOVE_ROW_IMAGES: Final = """
    UPDATE mirrorgate.row_images SET generation = %(new)s, sequence = %(sequence)s
    WHERE table_id = %(table_id)s AND generation = %(old)s AND row_key = ANY(%(keys)b)"""
"""Move row images to another generation."""

NOTE_TOUCHED: Final = """
    INSERT INTO mirrorgate.rebuild_touched (table_id, row_key, image)
    SELECT %(table_id)s, touched.row_key, i.image
    FROM unnest(%(keys)b::bytea[]) AS touched (row_key)
    LEFT JOIN mirrorgate.row_images i
      ON i.table_id = %(table_id)s AND i.generation = %(generation)s AND i.row_key = touched.row_key
    ON CONFLICT (table_id, row_key) DO NOTHING"""
"""Note keys with their present images, unless they are noted."""

MAX_SCANNED_BYTES: Final = 16 * 2**20
"""Bytes of row images that a scan reads at a time; as Python values they take several times as much."""

MAX_IMAGES_PER_STATEMENT: Final = 2_000
"""Row images that one statement reads or writes; Postgres limits the array that holds them to 1 GB."""

MIN_INSERTED_IMAGES: Final = 200
"""Row images from which INSERT_OR_UPSERT_ROW_IMAGES costs less; its second plan takes as long as 20 new images."""

SAMPLED_KEYS: Final = 50
"""Keys that INSERT_OR_UPSERT_ROW_IMAGES looks for first."""

MAX_DISCARDED_AT_ONCE: Final = 5_000
"""Row images that a transaction deletes while changes of their table wait, in about 50 ms."""

NO_PLACES: Final[Mapping[bytes, str]] = {}

Item = TypeVar("Item")


def read_row_images(
    connection: sa.Connection,
    table_id: TableId,
    generation: Generation,
    keys: Collection[bytes],
    places: dict[bytes, str] | None = None,
    completed: CompletedBytes | None = None,
) -> dict[bytes, StoredImage]:
    """Return the row images of these keys, read after the sequence lock was granted, and add their places.

    A place is valid as long as the lock is held and the image is not written. Raises RejectedInput `body_too_large` if
    the images take more than MAX_COMPLETED_BYTES together, over all reads that share `completed`.
    """
    found: dict[bytes, StoredImage] = {}
    completed = completed or CompletedBytes()
    for chunk in chunks(keys):
        left = MAX_COMPLETED_BYTES - completed.read
        parameters = {"table_id": table_id, "generation": generation, "keys": chunk, "max_bytes": left}
        row = connection.exec_driver_sql(SELECT_ROW_IMAGES, parameters, execution_options=BINARY_RESULT).one()
        completed.read += int(row[3] or 0)
        if completed.read > MAX_COMPLETED_BYTES:
            detail = f"the row images that these changes need take more than {MAX_COMPLETED_BYTES} bytes"
            raise RejectedInput(Code.BODY_TOO_LARGE, detail)
        if row[0]:
            found.update(zip(row[0], map(StoredImage, row[1], row[2]), strict=True))
            if places is not None:
                places.update(zip(row[0], row[4][2:-2].split('","'), strict=True))
    return found


def read_present_keys(
    connection: sa.Connection, table_id: TableId, generation: Generation, keys: Collection[bytes]
) -> set[bytes]:
    """Return those of these keys that have a row image, read after the sequence lock was granted."""
    found: set[bytes] = set()
    for chunk in chunks(keys):
        parameters = {"table_id": table_id, "generation": generation, "keys": chunk}
        row = connection.exec_driver_sql(SELECT_PRESENT_KEYS, parameters, execution_options=BINARY_RESULT).one()
        found.update(row[0] or ())
    return found


def write_row_images(
    connection: sa.Connection,
    table_id: TableId,
    generation: Generation,
    images: Mapping[bytes, StoredImage | None],
    places: Mapping[bytes, str] = NO_PLACES,
) -> None:
    """Store these row images, and delete those of keys with None; dying before COMMIT leaves the old ones.

    `places` are those that `read_row_images` has found in the same transaction. Raises RuntimeError if one is wrong.
    """
    generation_key = {"table_id": table_id, "generation": generation}
    deleted = [key for key, image in images.items() if image is None]
    # Keys in order touch each page of the index once. For keys in random order that is a sixth of the cost.
    kept = [(key, image) for key in sorted(images) if (image := images[key]) is not None]
    replaced = [(places[key], image) for key, image in kept if key in places] if places else []
    new = [(key, image) for key, image in kept if key not in places] if places else kept
    for keys in chunks(deleted):
        connection.exec_driver_sql(DELETE_ROW_IMAGES, {**generation_key, "keys": keys})
    for replacements in chunks(replaced):
        written = {"places": _quoted_array([place for place, _ in replacements]), **_columns(replacements)}
        if connection.exec_driver_sql(UPDATE_ROW_IMAGES, written).rowcount != len(replacements):
            raise RuntimeError("a row image was written without the sequence lock of its table")
    for chunk in chunks(new):
        keys = [key for key, _ in chunk]
        written = {**generation_key, "keys": keys, **_columns(chunk)}
        if len(keys) < MIN_INSERTED_IMAGES:
            connection.exec_driver_sql(UPSERT_ROW_IMAGES, written)
        else:
            sample = keys[:: max(1, len(keys) // SAMPLED_KEYS)]
            connection.exec_driver_sql(INSERT_OR_UPSERT_ROW_IMAGES, {**written, "sample": sample})


def note_touched(connection: sa.Connection, table_id: TableId, generation: Generation, keys: Collection[bytes]) -> None:
    """Note the keys whose images a batch is about to write, for a rebuild that copies the images.

    Dying before COMMIT leaves neither the note nor the image.
    """
    parameters = {"table_id": table_id, "generation": generation, "keys": [*keys]}
    connection.exec_driver_sql(NOTE_TOUCHED, parameters)


def scan_row_images(
    connection: sa.Connection, table_id: TableId, generation: Generation, limit: int
) -> Iterator[dict[bytes, bytes]]:
    """Yield all row images of a generation in the order of their keys, `limit` at a time or fewer long ones."""
    after: bytes | None = None
    while True:
        parameters = {"table_id": table_id, "generation": generation, "after": after, "limit": limit}
        parameters["max_bytes"] = MAX_SCANNED_BYTES
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
    """Move these row images to a new generation, as if its batch `sequence` had written them."""
    parameters = {"table_id": table_id, "old": old, "new": new, "keys": keys, "sequence": sequence}
    connection.exec_driver_sql(MOVE_ROW_IMAGES, parameters)


def discard_row_images(connection: sa.Connection, table_id: TableId, generation: Generation) -> bool:
    """Delete at most MAX_DISCARDED_AT_ONCE row images of a generation, under the sequence lock; return if none is left.

    Retention deletes those that are left, once the table keeps none. The change of options has made the database forget
    a running backfill, so it ends, and the next one starts from its first row.
    """
    keys = {"table_id": table_id, "generation": generation}
    connection.execute(DISCARD_ROW_IMAGES, {**keys, "limit": MAX_DISCARDED_AT_ONCE})
    return not connection.execute(SELECT_ANY_ROW_IMAGE, keys).scalar_one()


def _columns(chunk: Sequence[tuple[object, StoredImage]]) -> dict[str, object]:
    sequences = [image.sequence for _, image in chunk]
    return {"sequences": int_array_literal(sequences), "images": [image.image for _, image in chunk]}


def _quoted_array(places: Sequence[str]) -> str:
    return '{"' + '","'.join(places) + '"}'


def chunks(items: Collection[Item]) -> Iterator[list[Item]]:
    """Yield the items in lists of at most MAX_IMAGES_PER_STATEMENT."""
    listed = [*items]
    return (
        listed[start : start + MAX_IMAGES_PER_STATEMENT] for start in range(0, len(listed), MAX_IMAGES_PER_STATEMENT)
    )
