"""Reads all row images of a table as they were at one moment, while changes go on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import sqlalchemy as sa

from app.domain.model.table import BatchSequence, Table
from app.staging.batches.row_images import scan_row_images
from app.staging.connection.database import Engine, translated_errors

_IMAGES_AT_ONCE: Final = 5_000

SELECT_LAST_SEQUENCE = sa.text("SELECT last_sequence FROM mirrorgate.table_counters WHERE table_id = :table_id")
"""Read the sequence of a table's last batch."""


class ImageSnapshot(NamedTuple):
    """The row images of a generation after its batch `sequence`."""

    sequence: BatchSequence
    images: Iterator[list[bytes]]
    """Some images at a time, in the order of their keys."""


@contextmanager
def image_snapshot(engine: Engine, table: Table) -> Iterator[ImageSnapshot]:
    """Read the row images of a table in one snapshot of the database, which lasts as long as the block."""
    with translated_errors(), engine.connect() as session:
        connection = session.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connection.begin():
            sequence = connection.execute(SELECT_LAST_SEQUENCE, {"table_id": table.table_id}).scalar_one()
            chunks = scan_row_images(connection, table.table_id, table.generation, _IMAGES_AT_ONCE)
            yield ImageSnapshot(BatchSequence(sequence), (list(chunk.values()) for chunk in chunks))
