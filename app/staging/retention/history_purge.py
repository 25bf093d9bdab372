"""Deletes narrow history in chunks: blocks without a payload, old landing files, row images that are not used.

A chunk is always the oldest part of a generation, and the same transaction adds it up in `purged_totals`. So accepted =
staged = published stays true, and every sequence up to a total's last one is known to have been accepted. The metadata
chain, the last published file of a generation, and events are kept; of a dropped table also its row and schemas.
"""

import sqlalchemy as sa

from app.domain.model.table import Generation, TableId

SELECT_WITH_BLOCKS = sa.text("""
    SELECT v.table_id, v.generation FROM mirrorgate.schema_versions v
    JOIN LATERAL (
        SELECT bucket FROM mirrorgate.staged_blocks
        WHERE table_id = v.table_id AND generation = v.generation ORDER BY first_sequence LIMIT 1) oldest ON true
    WHERE v.version = 1 AND NOT EXISTS (SELECT FROM mirrorgate.payload_buckets k WHERE k.bucket = oldest.bucket)""")
"""List the generations whose oldest block has lost its payload."""

PURGE_BLOCKS = sa.text("""
    WITH ending AS (
        SELECT CASE WHEN t.generation = :generation AND t.state <> 'dropped' THEN c.published_through
               ELSE 9223372036854775807 END AS through
        FROM mirrorgate.tables t JOIN mirrorgate.table_counters c ON c.table_id = t.table_id
        WHERE t.table_id = :table_id),
    head AS (
        SELECT b.first_sequence, bool_and(b.last_sequence <= e.through AND k.bucket IS NULL)
            OVER (ORDER BY b.first_sequence) AS purged
        FROM (
            SELECT first_sequence, last_sequence, bucket FROM mirrorgate.staged_blocks
            WHERE table_id = :table_id AND generation = :generation ORDER BY first_sequence LIMIT :limit) b
        CROSS JOIN ending e
        LEFT JOIN mirrorgate.payload_buckets k ON k.bucket = b.bucket),
    gone AS (
        DELETE FROM mirrorgate.staged_blocks b USING head h
        WHERE h.purged AND b.table_id = :table_id AND b.generation = :generation
          AND b.first_sequence = h.first_sequence
        RETURNING b.last_sequence, b.change_count, b.row_count),
    added AS (
        INSERT INTO mirrorgate.purged_totals AS p (table_id, generation, through_sequence, changes, rows)
        SELECT :table_id, :generation, max(last_sequence), sum(change_count), sum(row_count)
        FROM gone HAVING count(*) > 0
        ON CONFLICT (table_id, generation) DO UPDATE
        SET through_sequence = excluded.through_sequence, changes = p.changes + excluded.changes,
            rows = p.rows + excluded.rows)
    SELECT count(*) FROM gone""")
"""Delete a generation's oldest blocks without payload, unpublished ones only after its end, and total them."""

SELECT_WITH_FILES = sa.text("""
    SELECT p.table_id, p.generation FROM mirrorgate.purged_totals p
    JOIN LATERAL (
        SELECT last_sequence, published_at FROM mirrorgate.landing_files
        WHERE table_id = p.table_id AND generation = p.generation ORDER BY number LIMIT 1) oldest ON true
    WHERE oldest.last_sequence <= p.through_sequence
      AND oldest.published_at < clock_timestamp() - make_interval(secs => :keep_seconds)""")
"""List the generations whose oldest landing file is old and has lost its blocks."""

PURGE_FILES = sa.text("""
    WITH head AS (
        SELECT f.number, bool_and(f.state = 'published' AND NOT f.repair_requested AND f.number < newest.number
            AND f.last_sequence <= p.through_sequence
            AND f.published_at < clock_timestamp() - make_interval(secs => :keep_seconds))
            OVER (ORDER BY f.number) AS purged
        FROM (
            SELECT * FROM mirrorgate.landing_files
            WHERE table_id = :table_id AND generation = :generation ORDER BY number LIMIT :limit) f
        CROSS JOIN (
            SELECT number FROM mirrorgate.landing_files
            WHERE table_id = :table_id AND generation = :generation AND state = 'published'
            ORDER BY number DESC LIMIT 1) newest
        CROSS JOIN (
            SELECT through_sequence FROM mirrorgate.purged_totals
            WHERE table_id = :table_id AND generation = :generation) p),
    gone AS (
        DELETE FROM mirrorgate.landing_files f USING head h
        WHERE h.purged AND f.table_id = :table_id AND f.generation = :generation AND f.number = h.number
        RETURNING f.number, f.last_sequence, f.change_count, f.row_count),
    begun AS (
        UPDATE mirrorgate.landing_files SET begins_ledger = true
        WHERE table_id = :table_id AND generation = :generation AND number = (SELECT max(number) + 1 FROM gone)),
    added AS (
        UPDATE mirrorgate.purged_totals p
        SET files = g.files, file_batches = g.batches,
            file_changes = p.file_changes + g.changes, file_rows = p.file_rows + g.rows
        FROM (
            SELECT max(number) AS files, max(last_sequence) AS batches, sum(change_count) AS changes,
                sum(row_count) AS rows
            FROM gone HAVING count(*) > 0) g
        WHERE p.table_id = :table_id AND p.generation = :generation)
    SELECT count(*) FROM gone""")
"""Delete a generation's oldest files, make the oldest kept file the beginning of the ledger's chain, and total them."""

_ENDED = """
    SELECT v.table_id, v.generation FROM mirrorgate.schema_versions v
    JOIN mirrorgate.tables t ON t.table_id = v.table_id
    WHERE v.version = 1 AND (t.state = 'dropped' OR v.generation < t.generation)"""
"""List the generations that have ended."""

_KEEPING_NO_IMAGES = """
    SELECT table_id, generation FROM mirrorgate.tables
    WHERE state <> 'dropped' AND options ->> 'partial_updates' IS DISTINCT FROM 'complete'
      AND options ->> 'row_images' IS DISTINCT FROM 'on'"""
"""List the current generations of tables that keep no row images."""

PURGE_IMAGES = sa.text(f"""
    DELETE FROM mirrorgate.row_images i USING (
        SELECT e.table_id, e.generation, o.row_key FROM ({_ENDED} UNION ALL {_KEEPING_NO_IMAGES}) e
        JOIN LATERAL (
            SELECT row_key FROM mirrorgate.row_images
            WHERE table_id = e.table_id AND generation = e.generation LIMIT :limit) o ON true
        LIMIT :limit) old
    WHERE i.table_id = old.table_id AND i.generation = old.generation AND i.row_key = old.row_key""")  # noqa: S608  # constant text
"""Delete some row images of ended generations, and of tables that have ceased to keep them."""

PURGE_POSITIONS = sa.text(f"""
    DELETE FROM mirrorgate.source_positions p USING ({_ENDED}) e
    WHERE p.table_id = e.table_id AND p.generation = e.generation""")  # noqa: S608  # constant text
"""Delete the source positions of ended generations."""

PURGE_DROPPED = sa.text("""
    WITH ended AS (
        SELECT c.table_id FROM mirrorgate.table_counters c
        JOIN mirrorgate.tables t ON t.table_id = c.table_id AND t.state = 'dropped'
        WHERE NOT EXISTS (SELECT FROM mirrorgate.staged_blocks b WHERE b.table_id = c.table_id) LIMIT :limit),
    leases AS (DELETE FROM mirrorgate.table_leases l USING ended e WHERE l.table_id = e.table_id)
    DELETE FROM mirrorgate.table_counters c USING ended e WHERE c.table_id = e.table_id""")
"""Delete the counters and leases of dropped tables without blocks, whose purge reads the counters."""


def generations_with_old_blocks(connection: sa.Connection) -> list[tuple[TableId, Generation]]:
    """Return the generations whose oldest block has lost its payload with its partition."""
    return [(TableId(row.table_id), Generation(row.generation)) for row in connection.execute(SELECT_WITH_BLOCKS)]


def purge_blocks(connection: sa.Connection, table_id: TableId, generation: Generation, *, limit: int) -> int:
    """Delete at most `limit` of the oldest blocks whose partition is gone, and return how many.

    Unpublished blocks of a live generation are kept. A process that dies before the commit leaves blocks and totals as
    they were.
    """
    keys = {"table_id": table_id, "generation": generation, "limit": limit}
    return int(connection.execute(PURGE_BLOCKS, keys).scalar_one())


def generations_with_old_files(connection: sa.Connection, keep_seconds: float) -> list[tuple[TableId, Generation]]:
    """Return the generations whose oldest landing file is older than `keep_seconds` and whose blocks are purged."""
    rows = connection.execute(SELECT_WITH_FILES, {"keep_seconds": keep_seconds})
    return [(TableId(row.table_id), Generation(row.generation)) for row in rows]


def purge_files(
    connection: sa.Connection, table_id: TableId, generation: Generation, *, keep_seconds: float, limit: int
) -> int:
    """Delete at most `limit` of the ledger's oldest files, never its last published one, and return how many.

    A process that dies before the commit leaves the ledger and its totals as they were.
    """
    keys = {"table_id": table_id, "generation": generation, "keep_seconds": keep_seconds, "limit": limit}
    return int(connection.execute(PURGE_FILES, keys).scalar_one())


def purge_unused_images(connection: sa.Connection, *, limit: int) -> int:
    """Delete at most `limit` row images that no generation reads any more, and return how many.

    A registration that lets a table keep images again is safe beside it: it waits for the images that are being
    deleted, and rejects if others are left.
    """
    return connection.execute(PURGE_IMAGES, {"limit": limit}).rowcount


def purge_ended_positions(connection: sa.Connection) -> None:
    """Delete the source positions of generations that have ended."""
    connection.execute(PURGE_POSITIONS)


def purge_dropped(connection: sa.Connection, *, limit: int) -> int:
    """Delete the counters and leases of at most `limit` dropped tables, and return of how many.

    A drain that wakes late finds no epoch, which is a stale one to it; a batch finds no counters, as of no table.
    """
    return connection.execute(PURGE_DROPPED, {"limit": limit}).rowcount
