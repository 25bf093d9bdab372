"""One row for each live table: its state and trouble, its totals, its lag, its dead letters and what Fabric says.

*Staged* equals *accepted*, because one transaction writes both, and *published* is what is accepted and not pending.
The status of a table counts each of them from its own source (`app.staging.tables.status`).
"""

from dataclasses import dataclass

import sqlalchemy as sa

from app.domain.health.facts import TableSummary
from app.staging.ledger.failures import FAILING_AFTER, IS_FAILING

SELECT_SUMMARIES = sa.text(f"""
    SELECT t.table_id, t.name, t.generation, t.state, t.state_reason,
        c.accepted_rows, coalesce(l.pending_rows, 0) AS pending_rows,
        greatest(extract(epoch FROM clock_timestamp() - l.oldest_at), 0)::float8 AS oldest_seconds,
        coalesce(d.letters, 0) AS waiting_letters, d.oldest AS oldest_letter_at,
        m.processed_rows, CASE WHEN m.has_failed THEN coalesce(m.error, m.state) ELSE m.error END AS fabric_error,
        m.whose AS fabric_whose,
        CASE WHEN {IS_FAILING} THEN f.code END AS failure_code, f.detail AS failure_detail,
        f.remedy AS failure_remedy, f.tries AS failure_tries, f.since AS failing_since,
        CASE WHEN t.state = 'quarantined' THEN (
            SELECT max(e.happened_at) FROM mirrorgate.table_events e
            WHERE e.folded_name = t.folded_name AND e.table_id = t.table_id AND e.action = 'quarantined')
        END AS quarantined_at
    FROM mirrorgate.tables t
    JOIN mirrorgate.table_counters c ON c.table_id = t.table_id
    LEFT JOIN mirrorgate.lag l ON l.table_id = t.table_id
    LEFT JOIN (
        SELECT table_id, generation, count(*) AS letters, min(received_at) AS oldest FROM mirrorgate.dead_letters
        WHERE state = 'waiting' GROUP BY table_id, generation) d
        ON d.table_id = t.table_id AND d.generation = t.generation
    LEFT JOIN mirrorgate.mirror_states m ON m.table_id = t.table_id AND m.generation = t.generation
    LEFT JOIN mirrorgate.table_failures f ON f.table_id = t.table_id AND f.generation = t.generation
    WHERE t.state <> 'dropped' ORDER BY t.folded_name""")  # noqa: S608  # constant text
"""Read a summary of each live table."""

SELECT_DURABILITY = sa.text("""
    SELECT current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes,
        current_setting('synchronous_commit') AS synchronous_commit""")
"""Read the settings of Postgres on which the safety of acknowledged changes depends."""


@dataclass(frozen=True, slots=True)
class Durability:
    """What Postgres does at a crash of its machine, as `SHOW` prints it."""

    fsync: str
    full_page_writes: str
    synchronous_commit: str


def table_summaries(connection: sa.Connection) -> list[TableSummary]:
    """Return all live tables by name, read in one statement."""
    return [TableSummary(*row) for row in connection.execute(SELECT_SUMMARIES, {"tries": FAILING_AFTER})]


def durability(connection: sa.Connection) -> Durability:
    """Return the settings of the server, as this session has them."""
    return Durability(*connection.execute(SELECT_DURABILITY).one())
