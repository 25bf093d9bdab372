"""Read the row images of all present rows of a table as they were at one moment, while changes continue."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import sqlalchemy as sa

from app.domain.model.table import BatchSequence, Table
from app.domain.rows.row_image import is_deleted
from app.staging.batches.row_images import scan_row_images
from app.staging.connection.database import Engine, read_snapshot, translated_errors
from app.staging.tables.registry import find_table_by_id
from mirrorgate.errors import Code, RejectedInput

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
