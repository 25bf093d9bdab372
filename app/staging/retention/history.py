"""A history of rates and lag, one sample a minute, for the plots of the console. It survives restarts.

Read it with `history(connection, minutes)` for the whole gateway, `history(connection, minutes, table_id=…)` for one
table, and `history(connection, minutes, table_ids=…)` for the tables that a caller may see together. Each returns one
`Sample` for each stored minute, oldest first; a minute without a sample is missing, because no API process ran.

Every API process tries to take each minute's sample, and the database lets one of them do it. Invariant: what is
accepted or published is counted once, in the sample after it; the marks move in the transaction of the sample. The rows
of all tables are arrays of one database row, without idle tables: 1,000 active tables take 10 to 40 KB a minute.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from app.domain.model.table import TableId

CLAIM_MINUTE = sa.text("""
    INSERT INTO mirrorgate.history (minute, seconds)
    SELECT date_trunc('minute', now.at),
        greatest(least(coalesce(extract(epoch FROM now.at - (SELECT max(sampled_at) FROM mirrorgate.history)), 60),
            86400), 1)
    FROM (SELECT clock_timestamp() AS at) now
    ON CONFLICT (minute) DO NOTHING
    RETURNING minute""")
"""Claim the present minute for one sample, with the seconds since the sample before."""

TAKE_SAMPLE = sa.text("""
    WITH present AS MATERIALIZED (
        SELECT t.table_id, t.generation, c.accepted_rows, c.recorded_file_number, c.published_through, c.last_sequence,
            CASE WHEN m.generation = t.generation AND m.accepted_rows <= c.accepted_rows
                THEN m.accepted_rows ELSE 0 END AS marked_rows,
            CASE WHEN m.generation = t.generation THEN m.file_number ELSE 0 END AS marked_file,
            (m.generation, m.accepted_rows, m.file_number) IS DISTINCT FROM
                (t.generation, c.accepted_rows, c.recorded_file_number) AS has_moved
        FROM mirrorgate.tables t
        JOIN mirrorgate.table_counters c USING (table_id)
        LEFT JOIN mirrorgate.history_marks m USING (table_id)
        WHERE t.state <> 'dropped'),
    busy AS MATERIALIZED (
        SELECT p.table_id, p.accepted_rows - p.marked_rows AS accepted, coalesce(f.rows, 0)::bigint AS published,
            coalesce(l.pending_rows, 0) AS pending,
            greatest(extract(epoch FROM clock_timestamp() - l.oldest_at), 0)::float8 AS oldest
        FROM present p
        LEFT JOIN LATERAL (
            SELECT sum(row_count) AS rows FROM mirrorgate.landing_files
            WHERE table_id = p.table_id AND generation = p.generation AND number > p.marked_file
              AND number <= p.recorded_file_number AND state = 'published') f ON p.has_moved
        -- One look-up a table, also without statistics.
        LEFT JOIN LATERAL (SELECT * FROM mirrorgate.lag WHERE table_id = p.table_id OFFSET 0) l ON true
        WHERE p.has_moved OR p.last_sequence > p.published_through),
    marked AS (
        INSERT INTO mirrorgate.history_marks AS m (table_id, generation, accepted_rows, file_number)
        SELECT table_id, generation, accepted_rows, recorded_file_number FROM present WHERE has_moved
        ON CONFLICT (table_id) DO UPDATE SET generation = excluded.generation,
            accepted_rows = excluded.accepted_rows, file_number = excluded.file_number)
    UPDATE mirrorgate.history SET
        accepted_rows = s.accepted, published_rows = s.published, pending_rows = s.pending, oldest_seconds = s.oldest,
        table_ids = s.ids, table_accepted_rows = s.each_accepted, table_published_rows = s.each_published,
        table_pending_rows = s.each_pending, table_oldest_seconds = s.each_oldest
    FROM (
        SELECT coalesce(sum(accepted), 0) AS accepted, coalesce(sum(published), 0) AS published,
            coalesce(sum(pending), 0) AS pending, coalesce(max(oldest), 0) AS oldest,
            coalesce(array_agg(table_id ORDER BY table_id), '{}') AS ids,
            coalesce(array_agg(accepted ORDER BY table_id), '{}') AS each_accepted,
            coalesce(array_agg(published ORDER BY table_id), '{}') AS each_published,
            coalesce(array_agg(pending ORDER BY table_id), '{}') AS each_pending,
            coalesce(array_agg(oldest::real ORDER BY table_id), '{}') AS each_oldest
        FROM busy WHERE accepted <> 0 OR published <> 0 OR pending <> 0) s
    WHERE minute = :minute""")
"""Count what each table did since its mark and how far it lags, move the marks, and store the sample."""

SELECT_GATEWAY = sa.text("""
    SELECT minute, seconds, accepted_rows, published_rows, pending_rows, oldest_seconds
    FROM mirrorgate.history
    WHERE minute > clock_timestamp() - make_interval(mins => :minutes) ORDER BY minute""")
"""Read the samples of all tables together."""

SELECT_TABLE = sa.text("""
    SELECT h.minute, h.seconds, coalesce(h.table_accepted_rows[h.at], 0), coalesce(h.table_published_rows[h.at], 0),
        coalesce(h.table_pending_rows[h.at], 0), coalesce(h.table_oldest_seconds[h.at], 0)::float8
    FROM (
        SELECT *, array_position(table_ids, CAST(:table_id AS bigint)) AS at FROM mirrorgate.history
        WHERE minute > clock_timestamp() - make_interval(mins => :minutes)) h
    ORDER BY h.minute""")
"""Read the samples of one table; 0 where it was idle."""

SELECT_TABLES = sa.text("""
    SELECT h.minute, h.seconds, coalesce(sum(e.accepted), 0)::bigint, coalesce(sum(e.published), 0)::bigint,
        coalesce(sum(e.pending), 0)::bigint, coalesce(max(e.oldest), 0)::float8
    FROM mirrorgate.history h
    LEFT JOIN LATERAL unnest(h.table_ids, h.table_accepted_rows, h.table_published_rows, h.table_pending_rows,
        h.table_oldest_seconds) AS e (table_id, accepted, published, pending, oldest) ON e.table_id = ANY(:table_ids)
    WHERE h.minute > clock_timestamp() - make_interval(mins => :minutes)
    GROUP BY h.minute, h.seconds ORDER BY h.minute""")
"""Read the samples of some tables together."""

PURGE_HISTORY = sa.text("""
    DELETE FROM mirrorgate.history WHERE minute < clock_timestamp() - make_interval(secs => :seconds)""")
"""Delete the samples that are past their retention."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample: the events of the seconds before it, and the lag at it."""

    minute: datetime
    seconds: float
    """Seconds since the sample before; the rates are rows divided by them."""
    accepted_rows: int
    published_rows: int
    pending_rows: int
    oldest_seconds: float

    @property
    def accepted_rate(self) -> float:
        """Return the accepted rows per second."""
        return self.accepted_rows / self.seconds

    @property
    def published_rate(self) -> float:
        """Return the published rows per second."""
        return self.published_rows / self.seconds


def take_sample(connection: sa.Connection) -> bool:
    """Store the sample of the present minute; return False if another process has claimed it.

    A process that dies before COMMIT leaves the minute to others, and the counts to the next sample.
    """
    minute = connection.execute(CLAIM_MINUTE).scalar_one_or_none()
    if minute is None:
        return False
    connection.execute(TAKE_SAMPLE, {"minute": minute})
    return True


def history(
    connection: sa.Connection,
    minutes: int,
    table_id: TableId | None = None,
    *,
    table_ids: Collection[TableId] | None = None,
) -> list[Sample]:
    """Return the samples of the last minutes, oldest first: of one table, of some together, or of all."""
    keys = {"minutes": minutes}
    if table_id is not None:
        rows = connection.execute(SELECT_TABLE, {**keys, "table_id": table_id})
    elif table_ids is not None:
        rows = connection.execute(SELECT_TABLES, {**keys, "table_ids": list(table_ids)})
    else:
        rows = connection.execute(SELECT_GATEWAY, keys)
    return [Sample(*row) for row in rows]
