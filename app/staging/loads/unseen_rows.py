"""Finds the rows that completing a full load deletes: those whose image no batch wrote since the load began.

Images are read without a lock, in the order of their keys; the sequence lock decides again when the deletes are staged.
No image with an older sequence can appear behind the scan, because the stream and the load write newer ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from app.domain.loads.load_session import LoadSession
from app.domain.model.change import Change, Operation
from app.domain.model.table import Table
from app.domain.rows.landing_rows import LandingRows, landing_rows
from app.domain.rows.projection.landed_bytes import rows_of_block
from app.domain.rows.row_image import decode_image, is_deleted
from app.domain.rows.row_rules import RowRules
from app.staging.batches.load_transaction import find_loads
from app.staging.batches.row_images import read_row_images

KEYS_PER_PAGE: Final = 20_000
"""Row images that one query looks at."""

DELETES_PER_BATCH: Final = 2_000
"""Rows that one batch deletes at most."""

SELECT_PAGE = sa.text("""
    SELECT row_key, sequence < :begin_sequence FROM mirrorgate.row_images
    WHERE table_id = :table_id AND generation = :generation
      AND (CAST(:after AS bytea) IS NULL OR row_key > :after) ORDER BY row_key LIMIT :limit""")
"""Read the next row keys of a generation, and tell which images are older than a load."""

NOTE_SCANNED = sa.text("""
    UPDATE mirrorgate.loads
    SET scanned_through = :scanned_through, expires_at = clock_timestamp() + make_interval(secs => idle_seconds)
    WHERE load_id = CAST(:load_id AS uuid) AND state = 'completing'""")
"""Store how far completing a load has looked at row images."""


@dataclass(frozen=True, slots=True)
class UnseenPage:
    """A part of the rows to delete, and how far the scan came with it."""

    rows: LandingRows | None
    """None if every row of this part was seen."""
    scanned_through: bytes | None
    """The last row key that was looked at; None at the end."""


def next_unseen(connection: sa.Connection, table: Table, load: LoadSession, *, keys: int = KEYS_PER_PAGE) -> UnseenPage:
    """Return the deletes of the next rows that were not seen, looking at this many row images at most."""
    after = load.scanned_through
    parameters = {"table_id": table.table_id, "generation": table.generation, "after": after, "limit": keys}
    page = connection.execute(SELECT_PAGE, parameters | {"begin_sequence": load.begin_sequence}).all()
    unseen = [bytes(key) for key, is_unseen in page if is_unseen]
    most = rows_of_block(RowRules.of(table), DELETES_PER_BATCH)
    if len(unseen) > most:
        unseen = unseen[:most]
        through: bytes | None = unseen[-1]
    else:
        through = bytes(page[-1][0]) if page else None
    if not unseen:
        return UnseenPage(None, through)
    found = read_row_images(connection, table.table_id, table.generation, unseen)
    images = {key: stored.image for key, stored in found.items() if not is_deleted(stored.image)}
    if not images:  # the stream has deleted them, since or before
        return UnseenPage(None, through)
    return UnseenPage(_deletes(images, table), through)


def note_scanned(connection: sa.Connection, load: LoadSession, scanned_through: bytes) -> LoadSession:
    """Store that no unseen row is left up to a row key, and return the load. Dying before COMMIT repeats the look."""
    connection.execute(NOTE_SCANNED, {"load_id": load.load_id, "scanned_through": scanned_through})
    [found] = find_loads(connection, [load.load_id])
    return found


def _deletes(images: Mapping[bytes, bytes], table: Table) -> LandingRows:
    rows = landing_rows([*_changes(images, table)], RowRules.of(table))
    if rows.images is None or {*rows.images.keys} != images.keys():
        raise RuntimeError(f"row images of table {table.name} have other keys than their rows")
    return rows


def _changes(images: Mapping[bytes, bytes], table: Table) -> Iterator[Change]:
    keys = [(name, table.schema.names.index(name)) for name in table.schema.key_columns]
    for index, image in enumerate(images.values()):
        values = decode_image(image)
        yield Change(index, Operation.DELETE, {name: values[at] for name, at in keys}, None, "", "")
