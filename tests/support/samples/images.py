"""Row images in tests: stage, and read what was staged and what the images hold."""

from typing import Any, Final

import sqlalchemy as sa

from app.domain.arrow import decode_payload
from app.domain.model.change import SourceValue
from app.domain.model.table import Generation, Table, TableId
from app.domain.model.table_options import PartialUpdates, RowImages, TableOptions
from app.domain.rows.row_image import decode_image
from app.domain.rows.typed_columns import typed_images
from app.staging.tables.schema_versions import schema_of_version
from tests.support.gateway_parts import current
from tests.support.postgres import sql

KEEP: Final = TableOptions(row_images=RowImages.ON)
COMPLETE: Final = TableOptions(partial_updates=PartialUpdates.COMPLETE)


def staged_batches(engine: sa.Engine, table: Table) -> list[list[dict[str, Any]]]:
    """Return the staged landing rows of a table by batch, in sequence order; fail on a gap in the sequences."""
    batches: list[list[dict[str, Any]]] = []
    blocks = sql.rows(
        engine,
        "SELECT first_sequence, schema_version, batch_rows, payload FROM mirrorgate.staged_blocks"
        " JOIN mirrorgate.block_payloads USING (table_id, generation, first_sequence)"
        " WHERE table_id = :table_id AND generation = :generation ORDER BY first_sequence",
        table_id=table.table_id,
        generation=table.generation,
    )
    for first_sequence, version, sizes, payload in blocks:
        assert first_sequence == len(batches) + 1
        schema = sql.call(engine, schema_of_version, table.table_id, table.generation, version)
        rows = decode_payload(payload, schema.landing.arrow).to_pylist()
        assert len(rows) == sum(sizes)
        for size in sizes:
            batches.append(rows[:size])
            del rows[:size]
    return batches


def staged_rows(engine: sa.Engine, name: str) -> list[dict[str, Any]]:
    """Return the staged landing rows of a table in order; rows of older schema versions lack newer columns."""
    return [row for batch in staged_batches(engine, current(engine, name)) for row in batch]


def stored_images(engine: sa.Engine, table: Table) -> dict[bytes, dict[str, SourceValue]]:
    """Return the content of a table's stored images, by row key and column name."""
    names, found = table.schema.names, _images(engine, table)
    return {key: {names[place]: value for place, value in decode_image(image).items()} for key, image in found}


def rows_of_images(engine: sa.Engine, table: Table) -> dict[bytes, tuple[Any, ...]]:
    """Return the rows that the images of a table stand for, by row key."""
    found = _images(engine, table)
    columns = typed_images([image for _, image in found], table.schema, table.options, table.schema.names)
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return dict(zip((key for key, _ in found), rows, strict=True))


def _images(engine: sa.Engine, table: Table) -> list[Any]:
    query = "SELECT row_key, image FROM mirrorgate.row_images WHERE table_id = :table_id AND generation = :generation"
    return sql.rows(engine, query, table_id=table.table_id, generation=table.generation)


def count_row_images(connection: sa.Connection, table_id: TableId, generation: Generation) -> int:
    """Return the number of row images of a generation."""
    query = "SELECT count(*) FROM mirrorgate.row_images WHERE table_id = :table_id AND generation = :generation"
    count: int = connection.execute(sa.text(query), {"table_id": table_id, "generation": generation}).scalar_one()
    return count
