"""Writes the row images of one step, without undoing what newer batches wrote."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import sqlalchemy as sa

from app.domain.model.table import Table
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.domain.rows.from_arrow.arrow_images import source_rows
from app.domain.rows.row_image import encode_images
from app.domain.rows.row_rules import RowRules
from app.staging.connection.database import BINARY_RESULT
from app.staging.connection.raw_sql import int_array_literal

UPSERT_OLDER_IMAGES: Final = """
    INSERT INTO mirrorgate.row_images AS present (table_id, generation, row_key, sequence, image)
    SELECT %(table_id)s, %(generation)s, row_key, sequence, image
    FROM unnest(%(keys)b::bytea[], %(sequences)s::bigint[], %(images)b::bytea[]) AS new (row_key, sequence, image)
    ON CONFLICT (table_id, generation, row_key)
    DO UPDATE SET sequence = excluded.sequence, image = excluded.image WHERE present.sequence < excluded.sequence
    RETURNING row_key"""
"""Store row images unless the key has one of the same or a newer batch, and return the keys that got theirs."""

KEYS_PER_STEP: Final = 5_000
"""Row images that one transaction writes at most: about 50 ms, for which changes of the table wait."""


class NewImages(NamedTuple):
    """The images of some rows, by key."""

    keys: Sequence[bytes]
    sequences: Sequence[int]
    """The batch that each row is of."""
    images: Sequence[bytes]


def encoded(rows: pa.RecordBatch, schema: TableSchema, options: TableOptions) -> list[bytes]:
    """Return the images of typed rows."""
    return [image for part in source_rows(rows, RowRules(schema, options)) for image in encode_images(part)]


def write_older(connection: sa.Connection, table: Table, new: NewImages) -> set[bytes]:
    """Store images under the sequence lock, and return the keys that had none of the same or a newer batch."""
    written = {
        "table_id": table.table_id,
        "generation": table.generation,
        "keys": new.keys,
        "sequences": int_array_literal(new.sequences),
        "images": new.images,
    }
    rows = connection.exec_driver_sql(UPSERT_OLDER_IMAGES, written, execution_options=BINARY_RESULT)
    return {bytes(key) for (key,) in rows}
