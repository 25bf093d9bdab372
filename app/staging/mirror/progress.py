"""How far tables are mirrored: the mirror's last report, compared with the landing ledger at the moment of reading.

A mirror that has stopped reporting therefore falls behind visibly: its file number stays, and the ledger grows.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.domain.mirror.table_report import MirrorState
from app.domain.model.table import TableId

SELECT_PROGRESS = sa.text("""
    SELECT p.table_id, CASE WHEN p.state = 'in_step' AND p.waiting > 0 THEN 'behind' ELSE p.state END AS state,
        p.version, p.delta_generation, p.file_number, p.published_file, p.waiting,
        CASE WHEN p.waiting = 0 THEN 0 ELSE
            greatest(coalesce(extract(epoch FROM clock_timestamp() - coalesce(f.published_at, p.oldest_pending_at)), 0),
                0) END::float8 AS lag_seconds,
        p.code, p.detail, p.remedy, p.committed_at, p.updated_at
    FROM (
        SELECT m.*, c.recorded_file_number AS published_file,
            greatest(c.recorded_file_number - m.file_number, m.pending_files) AS waiting
        FROM mirrorgate.mirror_reports m
        JOIN mirrorgate.tables t USING (table_id, generation)
        JOIN mirrorgate.table_counters c USING (table_id)
        WHERE m.table_id = ANY(:table_ids) AND t.state <> 'dropped') p
    LEFT JOIN LATERAL (
        SELECT published_at FROM mirrorgate.landing_files
        WHERE table_id = p.table_id AND generation = p.generation AND number > p.file_number AND state = 'published'
        ORDER BY number LIMIT 1) f ON p.published_file > p.file_number""")
"""Read the reports about the current generation of tables, with what the landing ledger says of their files."""


@dataclass(frozen=True, slots=True)
class MirrorProgress:
    """How far a table's current generation is mirrored."""

    state: MirrorState
    version: int | None
    delta_generation: int
    file_number: int
    """The last file that is applied, 0 before the first."""
    published_file: int
    """The last file that the gateway has published, 0 before the first."""
    pending_files: int
    lag_seconds: float
    """The age of the oldest published file that is not applied; 0 in step."""
    code: str | None
    detail: str | None
    remedy: str | None
    committed_at: datetime | None
    updated_at: datetime


def mirror_progress(connection: sa.Connection, table_ids: Collection[TableId]) -> dict[TableId, MirrorProgress]:
    """Return the progress of these tables, without those that no mirror has reported in their current generation."""
    rows = connection.execute(SELECT_PROGRESS, {"table_ids": list(table_ids)})
    return {TableId(table_id): MirrorProgress(MirrorState(state), *rest) for table_id, state, *rest in rows}
