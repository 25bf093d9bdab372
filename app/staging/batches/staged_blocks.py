"""Staged blocks: insert-only rows, each with the Arrow payload of one or more consecutive batches.

Most of what a statement costs Postgres does not depend on its rows: each execution parses the check constraints and
finds the payload partition. So the blocks of several tables share one statement, which inserts block, payload and
counters (performance notebook).

Column defaults put block and payload into the open payload partition (*bucket* in the database). Retention moves a
payload that is still needed into a later partition, never into an earlier one; so reads search from the block's
partition on.

The answer of a COMMIT can be lost. `pg_xact_status` alone does not tell then: after a crash Postgres reuses the id of a
transaction of which nothing had reached its log. So the staged block is looked up too, and recognized by the time at
which it was staged.

While tracing is on, the trace that staged a block is stored, so that it continues in the drain.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate
from typing import Final, Literal

import sqlalchemy as sa

from app.domain.arrow import payload_digest
from app.domain.model.change import NO_PROGRESS, NOT_COUNTED, Counted, SourceProgress
from app.domain.model.landing_file import BatchRange, PlannedFile
from app.domain.model.table import BatchSequence, Generation, TableId, TableLife
from app.domain.model.table_schema import SchemaVersion
from app.domain.publication import PendingBlock
from app.domain.rows.source_order import Reached
from app.observability.tracing import MAX_LINKS, TraceParent
from app.staging.batches.batch import BatchKey
from app.staging.batches.sequence_lock import MOVED_POSITIONS, moved_positions
from app.staging.connection.database import BINARY_RESULT, answer_within
from app.staging.connection.raw_sql import driver_rows, int_array_literal, text_array_literal
from mirrorgate.errors import Code, TemporarilyUnavailable

SELECT_TRANSACTION: Final = "SELECT CAST(pg_current_xact_id() AS text)"
"""Read the id of the open transaction."""

SELECT_STATUS = sa.text("SELECT pg_xact_status(CAST(:xid AS xid8))")
"""Read what became of a transaction: `in progress`, `committed`, `aborted`, or NULL if that is forgotten."""

SELECT_STAGED_AT = sa.text("""
    SELECT staged_at FROM mirrorgate.staged_blocks
    WHERE table_id = :table_id AND generation = :generation AND first_sequence = :first_sequence""")
"""Read when a block was staged."""

MAX_SECONDS: Final = 3.0
"""Seconds for which to retry while the transaction is still in progress or the database does not answer."""

_PAUSE_SECONDS: Final = 0.1
"""The pause between two attempts; the database may be starting."""


@dataclass(frozen=True, slots=True)
class TransactionId:
    """The identity of a transaction: its Postgres id, and the block that it staged, if any, with the time."""

    xid: str
    block: BatchKey | None
    staged_at: datetime | None


def current_transaction_id(connection: sa.Connection) -> TransactionId:
    """Return the identity of an open transaction without a block; `stage_blocks` returns that of one with a block."""
    [(xid,)] = driver_rows(connection, SELECT_TRANSACTION, {})
    return TransactionId(xid, None, None)


def is_committed(engine: sa.Engine, transaction: TransactionId, max_seconds: float = MAX_SECONDS) -> bool:
    """Return true if the transaction is durable.

    Raises TemporarilyUnavailable `commit_unknown` if that is still unknown after `max_seconds`. After a restart
    Postgres reports a transaction that was in progress as aborted, or, if its id was reused, the outcome of the later
    one; the block is then missing. The outcome of a committed id without a block therefore remains unknown.
    """
    deadline = time.monotonic() + max_seconds
    while True:
        try:
            with answer_within(max(1.0, max_seconds)), engine.connect() as connection:
                status = connection.execute(SELECT_STATUS, {"xid": transaction.xid}).scalar()
                if status == "committed" and transaction.block is not None:
                    # A separate statement: one that also read the status could have a snapshot from before the COMMIT.
                    table_id, generation, first_sequence = transaction.block
                    keys = {"table_id": table_id, "generation": generation, "first_sequence": first_sequence}
                    staged_at = connection.execute(SELECT_STAGED_AT, keys).scalar()
                    return bool(staged_at == transaction.staged_at)
                if status == "aborted":
                    return False
        except (sa.exc.DBAPIError, sa.exc.TimeoutError):
            pass  # retried until the deadline
        if time.monotonic() >= deadline:
            raise TemporarilyUnavailable(Code.COMMIT_UNKNOWN, "the connection was lost during COMMIT")
        time.sleep(_PAUSE_SECONDS)  # Postgres does not notify of the end of another transaction


_INSERT: Final = """
    payload AS (
        INSERT INTO mirrorgate.block_payloads (table_id, generation, first_sequence, payload)
        VALUES (%(table_id)s, %(generation)s, %(first_sequence)s, %(payload)b))
    INSERT INTO mirrorgate.staged_blocks (table_id, generation, first_sequence, last_sequence, schema_version,
        batch_rows, batch_changes, row_count, change_count, payload_bytes, landed_bytes, payload_digest,
        ends_transaction, source_position)
    VALUES (%(table_id)s, %(generation)s, %(first_sequence)s, %(last_sequence)s, %(schema_version)s,
        %(batch_rows)s, %(batch_changes)s, %(row_count)s, %(change_count)s, %(payload_bytes)s, %(landed_bytes)s,
        %(payload_digest)b, %(ends_transaction)s, %(source_position)s)
    RETURNING CAST(pg_current_xact_id() AS text), staged_at"""

INSERT_BLOCK: Final = f"WITH {_INSERT}"
"""Insert one block and its payload into a generation that is not read yet."""

_STAGE_BLOCK: Final = f"""
    counted AS (
        UPDATE mirrorgate.table_counters
        SET last_sequence = %(last_sequence)s, cdc_started = %(cdc_started)s,
            accepted_changes = accepted_changes + %(change_count)s, accepted_rows = accepted_rows + %(row_count)s,
            source_lag_seconds = coalesce(
                extract(epoch FROM clock_timestamp()) - %(committed)s::float8, source_lag_seconds),
            source_lag_at = CASE WHEN %(committed)s::float8 IS NULL THEN source_lag_at ELSE clock_timestamp() END,
            extraction_lag_seconds = CASE WHEN %(committed)s::float8 IS NULL THEN extraction_lag_seconds
                ELSE %(extraction_seconds)s::float8 END,
            operation_count = %(operation_count)s, counted_changes = %(counted_changes)s,
            missing_changes = %(missing_changes)s
        WHERE table_id = %(table_id)s),
    {_INSERT}"""  # noqa: S608  # constant text

STAGE_BLOCK: Final = f"WITH {_STAGE_BLOCK}"
"""Insert one block and its payload, and advance the table's counters: one round trip instead of three.

For one block this costs Postgres a fifth less than STAGE_BLOCKS.
"""

_STAGE_BLOCKS: Final = """
    new AS (
        SELECT * FROM unnest(%(table_ids)s::bigint[], %(generations)s::integer[], %(first_sequences)s::bigint[],
            %(last_sequences)s::bigint[], %(schema_versions)s::integer[], %(batch_rows)s::text[],
            %(batch_changes)s::text[], %(row_counts)s::bigint[], %(change_counts)s::bigint[],
            %(payload_starts)s::integer[], %(payload_bytes)s::integer[], %(landed_bytes)s::bigint[],
            %(payload_digests)s::text[],
            %(ends_transaction)s::boolean[], %(source_positions)s::text[], %(cdc_started)s::boolean[],
            %(committed)s::float8[], %(extraction_seconds)s::float8[], %(operation_counts)s::bigint[],
            %(counted_changes)s::bigint[], %(missing_changes)s::bigint[])
        AS new (table_id, generation, first_sequence, last_sequence, schema_version, batch_rows, batch_changes,
            row_count, change_count, payload_start, payload_bytes, landed_bytes, payload_digest, ends_transaction,
            source_position, cdc_started, committed, extraction_seconds, operation_count, counted_changes,
            missing_changes)),
    counted AS (
        UPDATE mirrorgate.table_counters c
        SET last_sequence = new.last_sequence, cdc_started = new.cdc_started,
            accepted_changes = c.accepted_changes + new.change_count, accepted_rows = c.accepted_rows + new.row_count,
            source_lag_seconds = coalesce(extract(epoch FROM clock_timestamp()) - new.committed, c.source_lag_seconds),
            source_lag_at = CASE WHEN new.committed IS NULL THEN c.source_lag_at ELSE clock_timestamp() END,
            extraction_lag_seconds = CASE WHEN new.committed IS NULL THEN c.extraction_lag_seconds
                ELSE new.extraction_seconds END,
            operation_count = new.operation_count, counted_changes = new.counted_changes,
            missing_changes = new.missing_changes
        FROM new WHERE c.table_id = new.table_id AND c.table_id = ANY(%(table_ids)s::bigint[])),
    payload AS (
        INSERT INTO mirrorgate.block_payloads (table_id, generation, first_sequence, payload, bucket)
        SELECT table_id, generation, first_sequence,
            substring(%(payloads)b::bytea FROM payload_start FOR payload_bytes),
            (SELECT bucket FROM mirrorgate.payload_buckets WHERE state = 'open')
        FROM new),
    block AS (
        INSERT INTO mirrorgate.staged_blocks (table_id, generation, first_sequence, last_sequence, schema_version,
            batch_rows, batch_changes, row_count, change_count, payload_bytes, landed_bytes, payload_digest,
            ends_transaction, source_position, bucket)
        SELECT table_id, generation, first_sequence, last_sequence, schema_version, CAST(batch_rows AS integer[]),
            CAST(batch_changes AS integer[]), row_count, change_count, payload_bytes, landed_bytes,
            decode(payload_digest, 'hex'), ends_transaction, source_position,
            (SELECT bucket FROM mirrorgate.payload_buckets WHERE state = 'open')
        FROM new
        RETURNING table_id, staged_at)
    SELECT CAST(pg_current_xact_id() AS text), staged_at FROM block WHERE table_id = %(table_id)s"""

STAGE_BLOCKS: Final = f"WITH {_STAGE_BLOCKS}"
"""Insert blocks of different tables with their payloads, and advance the counters of the tables.

The payloads are sent as one value, because an array of them is copied once more on both sides. The list of table ids
makes the planner read the counters by their index, however many tables there are.
"""

IN_SOURCE_ORDER: Final = {
    STAGE_BLOCK: f"WITH {MOVED_POSITIONS}, {_STAGE_BLOCK}",
    STAGE_BLOCKS: f"WITH {MOVED_POSITIONS}, {_STAGE_BLOCKS}",
}
"""The statements that also move positions of sources."""

MAX_BYTES_PER_STATEMENT: Final = 64 * 2**20
"""Bytes of the payloads that one statement inserts, unless its first one alone is longer."""


@dataclass(frozen=True, slots=True)
class NewBlock:
    """A block to insert. Its batches have consecutive sequences from `first_sequence` on."""

    table_id: TableId
    generation: Generation
    schema_version: SchemaVersion
    first_sequence: BatchSequence
    batch_rows: Sequence[int]
    """Landing rows of each batch."""
    batch_changes: Sequence[int]
    """Changes of each batch."""
    payload: bytes
    landed_bytes: int
    """Bytes of the rows once the payload is decoded."""
    cdc_started: bool
    """True if the table has changes other than snapshot rows, in this block or before it."""
    ends_transaction: bool = True
    """False if the source's transaction continues after the last change."""
    source_position: str | None = None
    """The source tool's order mark of the last change that has one."""
    progress: SourceProgress = NO_PROGRESS
    """Position of the source at the last change."""
    counted: Counted = NOT_COUNTED
    """The counts of operations with this block."""
    advanced: Mapping[str, Reached] = field(default_factory=dict)
    """The source positions that this block moves, by the key of their log or task."""

    @property
    def last_sequence(self) -> BatchSequence:
        """Return the sequence of the last batch."""
        return BatchSequence(self.first_sequence + len(self.batch_rows) - 1)


def stage_blocks(connection: sa.Connection, blocks: Sequence[NewBlock]) -> TransactionId:
    """Insert at least one block, at most one per table, under the sequence locks of their tables.

    Advances the tables' last sequences, accepted totals and source positions. Dying before COMMIT leaves nothing. The
    returned identity tells later whether the transaction was committed.
    """
    transaction, *_ = [_stage_part(connection, part) for part in _parts(blocks)]
    return transaction


def insert_block(connection: sa.Connection, block: NewBlock) -> None:
    """Insert a block of a generation that a rebuild prepares; no counter has it before the generation begins."""
    driver_rows(connection, INSERT_BLOCK, _facts(block))


def _stage_part(connection: sa.Connection, blocks: Sequence[NewBlock]) -> TransactionId:
    first = blocks[0]
    statement, facts = (STAGE_BLOCK, _facts(first)) if len(blocks) == 1 else (STAGE_BLOCKS, _all_facts(blocks))
    moved = {
        (block.table_id, block.generation, task): reached
        for block in blocks
        for task, reached in block.advanced.items()
    }
    if moved:
        statement, facts = IN_SOURCE_ORDER[statement], facts | moved_positions(moved)
    [(transaction_id, staged_at)] = driver_rows(connection, statement, facts)
    return TransactionId(transaction_id, (first.table_id, first.generation, first.first_sequence), staged_at)


def _parts(blocks: Sequence[NewBlock]) -> Iterator[Sequence[NewBlock]]:
    """Yield the blocks of one statement after the other."""
    start = size = 0
    for end, block in enumerate(blocks):
        if start < end and size + len(block.payload) > MAX_BYTES_PER_STATEMENT:
            yield blocks[start:end]
            start, size = end, 0
        size += len(block.payload)
    yield blocks[start:]


def _facts(block: NewBlock) -> dict[str, object]:
    return {
        "table_id": block.table_id,
        "generation": block.generation,
        "first_sequence": block.first_sequence,
        "last_sequence": block.last_sequence,
        "schema_version": block.schema_version,
        "batch_rows": int_array_literal(block.batch_rows),
        "batch_changes": int_array_literal(block.batch_changes),
        "row_count": sum(block.batch_rows),
        "change_count": sum(block.batch_changes),
        "payload": block.payload,
        "payload_bytes": len(block.payload),
        "landed_bytes": block.landed_bytes,
        "payload_digest": payload_digest(block.payload),
        "ends_transaction": block.ends_transaction,
        "source_position": block.source_position,
        "cdc_started": block.cdc_started,
        "committed": block.progress.committed,
        "extraction_seconds": block.progress.extraction_seconds,
        "operation_count": block.counted.last,
        "counted_changes": block.counted.run,
        "missing_changes": block.counted.missing,
    }


def _all_facts(blocks: Sequence[NewBlock]) -> dict[str, object]:
    sizes = [len(block.payload) for block in blocks]
    return {
        "table_id": blocks[0].table_id,
        "table_ids": int_array_literal([block.table_id for block in blocks]),
        "generations": int_array_literal([block.generation for block in blocks]),
        "first_sequences": int_array_literal([block.first_sequence for block in blocks]),
        "last_sequences": int_array_literal([block.last_sequence for block in blocks]),
        "schema_versions": int_array_literal([block.schema_version for block in blocks]),
        "batch_rows": _sizes_literal([block.batch_rows for block in blocks]),
        "batch_changes": _sizes_literal([block.batch_changes for block in blocks]),
        "row_counts": int_array_literal([sum(block.batch_rows) for block in blocks]),
        "change_counts": int_array_literal([sum(block.batch_changes) for block in blocks]),
        "payloads": b"".join([block.payload for block in blocks]),
        "payload_starts": int_array_literal(accumulate(sizes[:-1], initial=1)),
        "payload_bytes": int_array_literal(sizes),
        "landed_bytes": int_array_literal([block.landed_bytes for block in blocks]),
        "payload_digests": "{" + ",".join([payload_digest(block.payload).hex() for block in blocks]) + "}",
        "ends_transaction": _flags_literal([block.ends_transaction for block in blocks]),
        "source_positions": text_array_literal([block.source_position for block in blocks]),
        "cdc_started": _flags_literal([block.cdc_started for block in blocks]),
        "committed": _numbers_literal([block.progress.committed for block in blocks]),
        "extraction_seconds": _numbers_literal([block.progress.extraction_seconds for block in blocks]),
        "operation_counts": _numbers_literal([block.counted.last for block in blocks]),
        "counted_changes": int_array_literal([block.counted.run for block in blocks]),
        "missing_changes": int_array_literal([block.counted.missing for block in blocks]),
    }


def _sizes_literal(sizes: Sequence[Sequence[int]]) -> str:
    """Return lists of integers as an array of array literals; an array of arrays must have equally long ones."""
    return "{" + ",".join([f'"{int_array_literal(of_block)}"' for of_block in sizes]) + "}"


def _numbers_literal(numbers: Sequence[float | None]) -> str:
    return "{" + ",".join(["NULL" if number is None else repr(number) for number in numbers]) + "}"


def _flags_literal(flags: Sequence[bool]) -> str:
    return "{" + ",".join(["t" if flag else "f" for flag in flags]) + "}"


INSERT_TRACES = sa.text("""
    INSERT INTO mirrorgate.block_traces (table_id, generation, first_sequence, traceparent)
    VALUES (:table_id, :generation, :first_sequence, :traceparent) ON CONFLICT DO NOTHING""")
"""Store the trace of a block. A trace never makes a transaction fail."""

SELECT_TRACES = sa.text("""
    SELECT f.position, t.traceparent
    FROM unnest(CAST(:table_ids AS bigint[]), CAST(:generations AS integer[]), CAST(:firsts AS bigint[]),
        CAST(:lasts AS bigint[])) WITH ORDINALITY AS f (table_id, generation, first, last, position)
    CROSS JOIN LATERAL (
        SELECT traceparent FROM mirrorgate.block_traces
        WHERE table_id = f.table_id AND generation = f.generation AND first_sequence BETWEEN f.first AND f.last
        ORDER BY first_sequence LIMIT :limit) t""")
"""Read the traces of the blocks in some files, in the order of the blocks. A block is never in two files."""

PURGE_TRACES = sa.text("""
    DELETE FROM mirrorgate.block_traces WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM mirrorgate.block_traces
        WHERE staged_at < clock_timestamp() - make_interval(secs => :seconds) ORDER BY staged_at LIMIT :limit))""")
"""Delete old traces, the oldest first."""


def record_trace(connection: sa.Connection, blocks: Sequence[NewBlock], trace: TraceParent) -> None:
    """Store the trace that stages these blocks, in the transaction that stages them."""
    if not blocks:
        return
    rows = [
        {
            "table_id": block.table_id,
            "generation": block.generation,
            "first_sequence": block.first_sequence,
            "traceparent": trace,
        }
        for block in blocks
    ]
    connection.execute(INSERT_TRACES, rows)


def find_traces(connection: sa.Connection, files: Sequence[PlannedFile]) -> Mapping[PlannedFile, list[TraceParent]]:
    """Return the traces of the batches in each file, at most MAX_LINKS + 1; files without one are left out."""
    parameters = {
        "table_ids": [file.table_id for file in files],
        "generations": [file.identity.generation for file in files],
        "firsts": [file.identity.first_sequence for file in files],
        "lasts": [file.identity.last_sequence for file in files],
        "limit": MAX_LINKS + 1,
    }
    found: dict[PlannedFile, list[TraceParent]] = {}
    for position, trace in connection.execute(SELECT_TRACES, parameters):
        found.setdefault(files[position - 1], []).append(trace)
    return found


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
