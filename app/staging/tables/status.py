"""Counts for operators: the lag, and the reconciliation accepted = staged = published from independent sources.

*Accepted* is the running total kept under the sequence lock, *staged* the sum over staged blocks, *published* the sum
over recorded landing files, each with what retention has purged.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from app.domain.model.table import TableId

SOURCE_LAG: Final = """CASE WHEN c.source_lag_at > clock_timestamp() - interval '15 minutes'
        THEN greatest(c.source_lag_seconds, 0) END AS source_lag_seconds"""
"""Reads the lag of the source, unless the table has had no change for a while: then it says nothing of the source."""

MISSING_CHANGES: Final = """CASE WHEN t.options ->> 'operation_counts' = 'ignore'
        THEN 0 ELSE c.missing_changes END AS missing_changes"""
"""Reads the missing changes, unless the table's option ignores the counts of operations."""

SELECT_COUNTS = sa.text(f"""
    SELECT t.table_id, t.state_reason, c.last_sequence, c.published_through, c.recorded_file_number AS last_file,
        c.accepted_changes, c.accepted_rows,
        (coalesce(b.batches, 0) + coalesce(p.through_sequence, 0))::bigint AS staged_batches,
        (coalesce(b.changes, 0) + coalesce(p.changes, 0))::bigint AS staged_changes,
        (coalesce(b.rows, 0) + coalesce(p.rows, 0))::bigint AS staged_rows,
        coalesce(l.pending_rows, 0) AS pending_rows, coalesce(l.pending_bytes, 0) AS pending_bytes,
        greatest(extract(epoch FROM clock_timestamp() - l.oldest_at), 0)::float8 AS oldest_seconds,
        (coalesce(f.files, 0) + coalesce(p.files, 0))::bigint AS published_files,
        (coalesce(f.batches, 0) + coalesce(p.file_batches, 0))::bigint AS published_batches,
        (coalesce(f.changes, 0) + coalesce(p.file_changes, 0))::bigint AS published_changes,
        (coalesce(f.rows, 0) + coalesce(p.file_rows, 0))::bigint AS published_rows,
        d.letters AS waiting_letters,
        greatest(extract(epoch FROM clock_timestamp() - d.oldest), 0)::float8 AS oldest_letter_seconds,
        d.oldest AS oldest_letter_at,
        CASE WHEN t.state = 'quarantined' THEN (
            SELECT max(e.happened_at) FROM mirrorgate.table_events e
            WHERE e.folded_name = t.folded_name AND e.table_id = t.table_id AND e.action = 'quarantined')
        END AS quarantined_at, {SOURCE_LAG}, {MISSING_CHANGES}, c.extraction_lag_seconds, c.source_lag_at,
        f.published_at
    FROM mirrorgate.tables t
    JOIN mirrorgate.table_counters c ON c.table_id = t.table_id
    -- One look-up a table, also without statistics.
    LEFT JOIN LATERAL (SELECT * FROM mirrorgate.lag WHERE table_id = t.table_id OFFSET 0) l ON true
    LEFT JOIN mirrorgate.purged_totals p ON p.table_id = t.table_id AND p.generation = t.generation
    LEFT JOIN LATERAL (
        SELECT sum(cardinality(batch_rows)) AS batches, sum(change_count) AS changes, sum(row_count) AS rows
        FROM mirrorgate.staged_blocks
        WHERE table_id = t.table_id AND generation = t.generation) b ON true
    LEFT JOIN LATERAL (
        SELECT count(*) AS files, sum(last_sequence - first_sequence + 1) AS batches,
            sum(change_count) AS changes, sum(row_count) AS rows, max(published_at) AS published_at
        FROM mirrorgate.landing_files
        WHERE table_id = t.table_id AND generation = t.generation AND state = 'published') f ON true
    LEFT JOIN LATERAL (
        SELECT count(*) AS letters, min(received_at) AS oldest FROM mirrorgate.dead_letters
        WHERE table_id = t.table_id AND generation = t.generation AND state = 'waiting') d ON true
    WHERE t.table_id = ANY(:table_ids) ORDER BY t.table_id""")  # noqa: S608  # constant text
"""Count what tables have accepted, staged, published and pending, in one snapshot."""


@dataclass(frozen=True, slots=True)
class TableCounts:
    """The counts of one table's current generation, all read in one statement."""

    table_id: TableId
    state_reason: str | None
    last_sequence: int
    published_through: int
    last_file: int
    accepted_changes: int
    accepted_rows: int
    staged_batches: int
    staged_changes: int
    staged_rows: int
    pending_rows: int
    pending_bytes: int
    oldest_seconds: float
    published_files: int
    published_batches: int
    published_changes: int
    published_rows: int
    waiting_letters: int
    oldest_letter_seconds: float
    oldest_letter_at: datetime | None
    quarantined_at: datetime | None
    """Time at which the table was quarantined, None unless it is."""
    source_lag_seconds: float | None
    """From the commit in the source to the acceptance of the last change; None without recent changes."""
    missing_changes: int
    """Changes that are missing by Arcion's counts of operations."""
    extraction_lag_seconds: float | None
    """The part of the lag in which the tool had not read the change, if it tells."""
    source_lag_at: datetime | None
    """Time at which the last change was accepted that tells the time of its source."""
    published_at: datetime | None
    """Time at which the last file became visible, None before the first one."""

    @property
    def pending_batches(self) -> int:
        """Return the number of batches that are accepted and not published."""
        return self.last_sequence - self.published_through


def count_tables(connection: sa.Connection, table_ids: list[TableId]) -> dict[TableId, TableCounts]:
    """Return the counts of these live tables."""
    rows = connection.execute(SELECT_COUNTS, {"table_ids": table_ids})
    return {row.table_id: TableCounts(*row) for row in rows}
