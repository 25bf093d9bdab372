"""The number and size of tables' row images, at a cost that does not grow with them.

Up to MAX_COUNTED images of a table are counted. Larger numbers are estimates from the statistics of Postgres, which
autovacuum renews after each twentieth of the images has changed.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import sqlalchemy as sa

from app.domain.model.table import TableId

MAX_COUNTED: Final = 1_000
"""Images of a table that are counted exactly, in half a millisecond."""

SELECT_SIZES = sa.text("""
    WITH stored AS (
        SELECT greatest(reltuples, 0) AS rows FROM pg_class WHERE oid = 'mirrorgate.row_images'::regclass
    ), columns AS (
        SELECT most_common_vals::text::bigint[] AS ids, most_common_freqs AS shares
        FROM pg_stats WHERE schemaname = 'mirrorgate' AND tablename = 'row_images' AND attname = 'table_id'
    ), common AS (
        SELECT each.table_id, each.share FROM columns, unnest(ids, shares) AS each (table_id, share)
    )
    SELECT t.table_id, t.images_complete, few.rows AS counted, sampled.bytes AS sampled_bytes,
        coalesce(common.share, 0) * stored.rows AS estimated
    FROM mirrorgate.tables t CROSS JOIN stored
    LEFT JOIN common USING (table_id)
    CROSS JOIN LATERAL (
        SELECT count(*) AS rows FROM (
            SELECT FROM mirrorgate.row_images i
            WHERE i.table_id = t.table_id AND i.generation = t.generation LIMIT :most + 1) AS first) AS few
    CROSS JOIN LATERAL (
        SELECT coalesce(avg(octet_length(image) + 2 * octet_length(row_key)), 0)::float8 AS bytes FROM (
            SELECT image, row_key FROM mirrorgate.row_images i
            WHERE i.table_id = t.table_id AND i.generation = t.generation LIMIT 20) AS first) AS sampled
    WHERE t.table_id = ANY(:table_ids)""")
"""Count the first row images of tables, and estimate how many there are and how long they are."""

SELECT_TOTAL = sa.text("""
    SELECT greatest(reltuples, 0)::bigint AS rows, pg_total_relation_size(oid) AS bytes
    FROM pg_class WHERE oid = 'mirrorgate.row_images'::regclass""")
"""Estimate the number of all row images, and read the room that they take."""

ROW_BYTES: Final = 150
"""Bytes that Postgres adds to an image and its key: headers, index, and room for updates in place."""


@dataclass(frozen=True, slots=True)
class ImagesSize:
    """The row images of one table's current generation."""

    is_complete: bool
    """True if they were kept from the generation's first batch, so that no row lacks one."""
    rows: int
    is_exact: bool
    """False if `rows` is an estimate."""
    bytes: int
    """An estimate of the room on disk, with indexes."""


@dataclass(frozen=True, slots=True)
class AllImages:
    """The row images of all tables together."""

    rows: int
    """An estimate."""
    bytes: int


def image_sizes(connection: sa.Connection, table_ids: Collection[TableId]) -> dict[TableId, ImagesSize]:
    """Return the sizes of the row images of these tables, in one query."""
    if not table_ids:
        return {}
    found = connection.execute(SELECT_SIZES, {"table_ids": list(table_ids), "most": MAX_COUNTED})
    return {TableId(row.table_id): _size(row) for row in found}


def all_images(connection: sa.Connection) -> AllImages:
    """Return the number of all row images, with those of ended generations, and the room that they take."""
    row = connection.execute(SELECT_TOTAL).one()
    return AllImages(row.rows, row.bytes)


def _size(row: sa.Row[tuple[object, ...]]) -> ImagesSize:
    is_exact = row.counted <= MAX_COUNTED
    rows = row.counted if is_exact else max(row.counted, round(row.estimated))
    return ImagesSize(row.images_complete, rows, is_exact, round(rows * (row.sampled_bytes + ROW_BYTES)) if rows else 0)
