"""Staged blocks: insert-only rows, each with the Arrow payload of one or more consecutive batches.

Column defaults put block and payload into the open payload partition (*bucket* in the database). Retention moves a
payload that is still needed into a later partition, never into an earlier one; so reads search from the block's
partition on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import sqlalchemy as sa

from app.domain.model.landing_file import BatchRange
from app.domain.model.table import BatchSequence, Generation, TableId, TableLife
from app.domain.model.table_schema import SchemaVersion
from app.domain.publication import PendingBlock
from app.staging.connection.database import BINARY_RESULT

SELECT_PENDING = sa.text("""
    SELECT part.table_id, b.*
    FROM unnest(CAST(:table_ids AS bigint[]), CAST(:generations AS integer[]), CAST(:after AS bigint[]))
        AS part (table_id, generation, after)
    CROSS JOIN LATERAL (
        SELECT first_sequence, last_sequence, schema_version, change_count, row_count, payload_bytes, payload_digest,
            extract(epoch FROM clock_timestamp() - staged_at)::float8 AS age_seconds, ends_transaction, landed_bytes
        FROM mirrorgate.staged_blocks
        WHERE table_id = part.table_id AND generation = part.generation AND first_sequence > part.after
        ORDER BY first_sequence LIMIT :limit) b
    ORDER BY part.table_id, b.first_sequence""")
"""Read the oldest pending blocks of several tables."""

SELECT_RANGE = sa.text("""
    SELECT first_sequence, payload_bytes, payload_digest, bucket FROM mirrorgate.staged_blocks
    WHERE table_id = :table_id AND generation = :generation
      AND first_sequence BETWEEN :first_sequence AND :last_sequence
    ORDER BY first_sequence""")
"""Read the blocks of a range of batches, without payloads."""

SELECT_PAYLOADS = sa.text("""
    SELECT payload FROM mirrorgate.block_payloads
    WHERE table_id = :table_id AND generation = :generation
      AND first_sequence BETWEEN :first_sequence AND :last_sequence AND bucket >= :bucket
    ORDER BY first_sequence""").execution_options(**BINARY_RESULT)
"""Read the payloads of a range of blocks."""

SELECT_BATCH = sa.text("""
    SELECT b.batch_changes[CAST(:sequence AS bigint) - b.first_sequence + 1] AS changes,
           b.batch_rows[CAST(:sequence AS bigint) - b.first_sequence + 1] AS rows,
           f.number, coalesce(f.state, 'pending') AS state
    FROM (
        SELECT first_sequence, batch_changes, batch_rows FROM mirrorgate.staged_blocks
        WHERE table_id = :table_id AND generation = :generation AND last_sequence >= :sequence
        ORDER BY last_sequence LIMIT 1) b
    LEFT JOIN (
        SELECT number, state, first_sequence FROM mirrorgate.landing_files
        WHERE table_id = :table_id AND generation = :generation AND last_sequence >= :sequence
        ORDER BY last_sequence LIMIT 1) f ON f.first_sequence <= :sequence
    WHERE b.first_sequence <= :sequence""")
"""Read the state of a batch; each side reads one index row, even if there is no such batch."""

SELECT_PURGED_BATCH = sa.text("""
    SELECT CASE WHEN f.first_sequence = f.last_sequence THEN f.change_count END AS changes,
           CASE WHEN f.first_sequence = f.last_sequence THEN f.row_count END AS rows,
           f.number, CASE WHEN last.last_sequence >= :sequence THEN 'published' ELSE 'pending' END AS state
    FROM mirrorgate.purged_totals p
    LEFT JOIN (
        SELECT last_sequence FROM mirrorgate.landing_files
        WHERE table_id = :table_id AND generation = :generation AND state = 'published'
        ORDER BY number DESC LIMIT 1) last ON true
    LEFT JOIN (
        SELECT number, first_sequence, last_sequence, change_count, row_count FROM mirrorgate.landing_files
        WHERE table_id = :table_id AND generation = :generation AND last_sequence >= :sequence
        ORDER BY last_sequence LIMIT 1) f ON f.first_sequence <= :sequence
    WHERE p.table_id = :table_id AND p.generation = :generation AND :sequence BETWEEN 1 AND p.through_sequence""")
"""Read the state of a batch whose block is purged.

The last published file of a generation is never purged; batches beyond it were given up with the generation.
"""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The state of one accepted batch, and its file.

    Counts and file may be unknown once the block, and later the file, are purged.
    """

    changes: int | None
    rows: int | None
    state: Literal["pending", "planned", "published"]
    file_number: int | None


def pending_blocks(
    connection: sa.Connection, after: Mapping[TableLife, BatchSequence], *, limit: int
) -> dict[TableId, list[PendingBlock]]:
    """Return up to `limit` of the oldest blocks of each table after the given sequence, in order."""
    keys = {
        "table_ids": [table_id for table_id, _ in after],
        "generations": [generation for _, generation in after],
        "after": list(after.values()),
        "limit": limit,
    }
    blocks: dict[TableId, list[PendingBlock]] = {table_id: [] for table_id, _ in after}
    for table_id, first, last, version, changes, rows, size, digest, age, ends, landed in connection.execute(
        SELECT_PENDING, keys
    ):
        block = PendingBlock(
            BatchSequence(first),
            BatchSequence(last),
            SchemaVersion(version),
            changes,
            rows,
            size,
            bytes(digest),
            age,
            ends,
            landed,
        )
        blocks[TableId(table_id)].append(block)
    return blocks


def read_payloads(
    engine: sa.Engine, table_id: TableId, generation: Generation, batches: BatchRange, *, slice_bytes: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (recorded digest, payload) of the blocks of a range, in order, with about `slice_bytes` in memory.

    The range must begin and end with whole blocks. No transaction is open while the caller has a payload, because what
    it does with it may take long, such as calls to a storage service. Batches never change.
    """
    keys = {"table_id": table_id, "generation": generation}
    ends = {"first_sequence": batches.first, "last_sequence": batches.last}
    with engine.begin() as connection:
        blocks = connection.execute(SELECT_RANGE, keys | ends).all()
    start = 0
    while start < len(blocks):
        end, size = start + 1, blocks[start].payload_bytes
        while end < len(blocks) and size + blocks[end].payload_bytes <= slice_bytes:
            size += blocks[end].payload_bytes
            end += 1
        part = blocks[start:end]
        ends = {"first_sequence": part[0].first_sequence, "last_sequence": part[-1].first_sequence}
        bucket = min(block.bucket for block in part)
        with engine.begin() as connection:
            payloads = connection.execute(SELECT_PAYLOADS, keys | ends | {"bucket": bucket}).scalars().all()
        yield from zip((bytes(block.payload_digest) for block in part), map(bytes, payloads), strict=True)
        start = end


def find_batch(
    connection: sa.Connection, table_id: TableId, generation: Generation, sequence: BatchSequence
) -> BatchStatus | None:
    """Return the state of one batch, or None if it was never accepted."""
    keys = {"table_id": table_id, "generation": generation, "sequence": sequence}
    row = connection.execute(SELECT_BATCH, keys).one_or_none()
    if row is None:
        row = connection.execute(SELECT_PURGED_BATCH, keys).one_or_none()
    return BatchStatus(row.changes, row.rows, row.state, row.number) if row else None
