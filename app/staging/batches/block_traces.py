"""Which trace staged which batches, so that the trace continues in the drain. Written only while tracing is on."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from app.domain.model.landing_file import PlannedFile
from app.observability.tracing import MAX_LINKS, TraceParent
from app.staging.batches.block_insert import NewBlock

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


def purge_traces(connection: sa.Connection, *, older_than_seconds: float, limit: int) -> int:
    """Delete up to `limit` old traces; return how many. Repeat until it is less than `limit`."""
    return connection.execute(PURGE_TRACES, {"seconds": older_than_seconds, "limit": limit}).rowcount
