"""The Delta mirror's state in Postgres: the reports of mirror processes, and how far tables are mirrored.

The mirror works without a database. With one, it stores its reports after each round, and the API compares them with
the landing ledger at the moment of reading. A mirror that has stopped falls behind visibly: its file number remains,
and the ledger grows.

Only reports about a live table's current generation are kept, of folders whose marker names this database's
installation; so a mirror of another publisher's zone changes nothing here. Invariant: an older report never replaces a
newer one that the mirror still confirms. Older is a lower generation, or a lower version of the same generation.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from app.domain.mirror_report import FolderOwner, MirrorState, TableReport
from app.domain.model.table import TableId
from app.staging.connection.database import translated_errors

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
    """The progress of the mirror of a table's current generation."""

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


CONFIRM_SECONDS: Final = 10
"""A mirror reports every table at least this often, as a sign of life."""

_REPEATED_SECONDS: Final = CONFIRM_SECONDS / 2
"""A report that repeats the stored one is written only if that is older, so a mirror may report each round."""

UNCONFIRMED_SECONDS: Final = 60
"""A stored report that the mirror has not confirmed for this long yields to an older one.

The mirror's target was then emptied or restored: its versions begin again.
"""

_MAX_TEXT_CHARACTERS: Final = 1_000

STORE_REPORTS = sa.text("""
    WITH reported AS (
        SELECT DISTINCT ON (t.table_id) t.table_id, t.generation, r.state, r.delta_generation, r.version,
            r.file_number, r.last_file, r.pending_files, r.code, r.detail, r.remedy, r.committed_at, r.oldest_pending_at
        FROM jsonb_to_recordset(CAST(:reports AS jsonb)) AS r (installation_id text, folded_name text,
            generation numeric, state text, delta_generation integer, version bigint, file_number bigint,
            last_file bigint, pending_files bigint, code text, detail text, remedy text, committed_at timestamptz,
            oldest_pending_at timestamptz)
        JOIN mirrorgate.installation i ON i.installation_id::text = r.installation_id
        JOIN mirrorgate.tables t
            ON t.folded_name = r.folded_name AND t.generation = r.generation AND t.state <> 'dropped'
        ORDER BY t.table_id, r.delta_generation DESC, r.version DESC NULLS LAST),
    changed AS (
        SELECT r.* FROM reported r LEFT JOIN mirrorgate.mirror_reports m USING (table_id)
        WHERE m.updated_at IS NULL
            OR m.updated_at NOT BETWEEN clock_timestamp() - make_interval(secs => :repeated) AND clock_timestamp()
            OR (m.generation, m.state, m.delta_generation, m.version, m.file_number, m.last_file, m.pending_files,
                m.code, m.detail, m.remedy, m.committed_at, m.oldest_pending_at)
            IS DISTINCT FROM (r.generation, r.state, r.delta_generation, r.version, r.file_number, r.last_file,
                r.pending_files, r.code, r.detail, r.remedy, r.committed_at, r.oldest_pending_at))
    INSERT INTO mirrorgate.mirror_reports AS m (table_id, generation, state, delta_generation, version, file_number,
        last_file, pending_files, code, detail, remedy, committed_at, oldest_pending_at)
    SELECT * FROM changed ORDER BY table_id
    ON CONFLICT (table_id) DO UPDATE SET
        generation = excluded.generation, state = excluded.state, delta_generation = excluded.delta_generation,
        version = excluded.version, file_number = excluded.file_number, last_file = excluded.last_file,
        pending_files = excluded.pending_files, code = excluded.code, detail = excluded.detail,
        remedy = excluded.remedy, committed_at = excluded.committed_at,
        oldest_pending_at = excluded.oldest_pending_at, updated_at = excluded.updated_at
    WHERE (excluded.generation, excluded.delta_generation, coalesce(excluded.version, -1))
            >= (m.generation, m.delta_generation, coalesce(m.version, -1))
        OR (excluded.generation = m.generation AND m.updated_at
            NOT BETWEEN clock_timestamp() - make_interval(secs => :unconfirmed) AND clock_timestamp())""")
"""Store the reports of live tables that differ from the stored ones, or that confirm them after some seconds."""

DELETE_SILENT = sa.text("""
    DELETE FROM mirrorgate.mirror_reports WHERE updated_at <= clock_timestamp() - make_interval(secs => :seconds)""")
"""Delete the reports that no mirror has confirmed for some time; a mirror that runs again reports again."""


def store_reports(engine: sa.Engine, reports: Iterable[TableReport]) -> int:
    """Store the reports of this database's tables in one statement, and return how many rows were written.

    Ignores reports without an owner, of another installation, of unknown or dropped tables, and of other generations.
    Safe to repeat; a process that dies inside has stored nothing. Raises TemporarilyUnavailable.
    """
    rows = [_row(report, report.owner) for report in reports if report.owner is not None]
    if not rows:
        return 0
    parameters = {
        "reports": json.dumps(rows),
        "repeated": _REPEATED_SECONDS,
        "unconfirmed": UNCONFIRMED_SECONDS,
    }
    with translated_errors(), engine.begin() as connection:
        return connection.execute(STORE_REPORTS, parameters).rowcount


def _row(report: TableReport, owner: FolderOwner) -> dict[str, Any]:
    return {
        "installation_id": _text(owner.installation_id),
        "folded_name": _text(report.table.casefold()),
        "generation": owner.generation,
        "state": report.state,
        "delta_generation": report.generation,
        "version": report.version,
        "file_number": report.file_number,
        "last_file": report.last_file,
        "pending_files": report.pending_files,
        "code": report.code,
        "detail": _text(report.detail),
        "remedy": _text(report.remedy),
        "committed_at": _moment(report.committed_at),
        "oldest_pending_at": _moment(report.oldest_pending_at),
    }


def _text(text: str | None) -> str | None:
    """Return the beginning of a string, without what Postgres cannot store."""
    return None if text is None else text.replace("\0", "").encode(errors="replace").decode()[:_MAX_TEXT_CHARACTERS]


def _moment(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
