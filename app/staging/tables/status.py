"""Counts for operators: of tables, of the whole gateway, of backlogs and of row images.

*Accepted* is the running total kept under the sequence lock, *staged* the sum over staged blocks, *published* the sum
over recorded landing files, each with what retention has purged: three independent sources that must agree.

The backlog is what each table has accepted and not yet published, read every second. A reading looks only at tables
that lag, and of their blocks only at those that were staged or published since the reading before. So a long backlog is
summed once.

Up to MAX_COUNTED row images of a table are counted. Larger numbers are estimates from the statistics of Postgres, which
autovacuum renews after each twentieth of the images has changed.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from app.domain.health.facts import GatewayFacts
from app.domain.model.table import Generation, TableId, TableLife
from app.domain.publication import Amount
from app.staging.connection.database import read_snapshot
from app.staging.ledger.leases import IS_ALIVE
from app.staging.ledger.reports import FAILING_AFTER, IS_FAILING, fabric_facts
from app.staging.mirror import UNCONFIRMED_SECONDS

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


SELECT_FACTS = sa.text(f"""
    SELECT
        (SELECT count(*) FROM mirrorgate.workers w WHERE {IS_ALIVE}) AS drains,
        (SELECT count(w.waits_for) FROM mirrorgate.workers w WHERE {IS_ALIVE}) AS waiting_drains,
        (SELECT min(w.waits_for) FROM mirrorgate.workers w WHERE {IS_ALIVE}) AS waits_for,
        (SELECT count(*) FROM mirrorgate.fabric_states m
         JOIN mirrorgate.tables t ON t.table_id = m.table_id AND t.generation = m.generation
         WHERE (m.has_failed OR m.error IS NOT NULL) AND t.state <> 'dropped') AS fabric_tables,
        (SELECT count(*) FROM mirrorgate.mirror_reports m
         JOIN mirrorgate.tables t USING (table_id, generation)
         WHERE m.state IN ('waiting', 'stopped') AND t.state <> 'dropped'
         AND m.updated_at > clock_timestamp() - make_interval(secs => {UNCONFIRMED_SECONDS})) AS stopped_mirrors,
        (SELECT count(*) FROM mirrorgate.lag
         WHERE state <> 'dropped' AND oldest_at > clock_timestamp() + interval '1 second') AS future_batches,
        (SELECT w.clock_behind_seconds FROM mirrorgate.workers w WHERE {IS_ALIVE} AND w.clock_behind_seconds IS NOT NULL
         ORDER BY abs(w.clock_behind_seconds) DESC LIMIT 1) AS drain_clock_behind,
        extract(epoch FROM clock_timestamp())::float8 AS now""")  # noqa: S608  # constant text
"""Count live and waiting drains, replication errors, tables that a running mirror cannot apply, and clock faults."""

COUNT_STATES = sa.text(f"""
    SELECT CASE WHEN {IS_FAILING} THEN 'failing' ELSE t.state END AS shown, count(*)
    FROM mirrorgate.tables t LEFT JOIN mirrorgate.table_failures f USING (table_id, generation)
    WHERE t.state <> 'dropped' GROUP BY shown ORDER BY shown""")  # noqa: S608  # constant text
"""Count the tables per state; those that fail repeatedly count as failing."""


def gateway_facts(connection: sa.Connection) -> GatewayFacts:
    """Return the counts, and how far this process's clock is behind the database's.

    The clock is compared at the middle of the statement's round trip.
    """
    before = time.time()
    row = connection.execute(SELECT_FACTS).one()
    behind = row.now - (before + time.time()) / 2
    states: dict[str, int] = dict(map(tuple, connection.execute(COUNT_STATES, {"tries": FAILING_AFTER})))
    return GatewayFacts(
        drains=row.drains,
        waiting_drains=row.waiting_drains,
        waits_for=row.waits_for,
        tables=states,
        fabric=fabric_facts(connection),
        fabric_tables=row.fabric_tables,
        stopped_mirrors=row.stopped_mirrors,
        future_batches=row.future_batches,
        clock_behind_seconds=behind,
        drain_clock_behind_seconds=row.drain_clock_behind or 0.0,
    )


SELECT_LAGGING = sa.text("""
    SELECT table_id, generation, published_through, last_sequence,
        greatest(extract(epoch FROM clock_timestamp() - oldest_at), 0)::float8 AS oldest_seconds
    FROM mirrorgate.lag WHERE state NOT IN ('dropping', 'dropped')""")
"""List the tables that lag, with their counters and the age of the oldest pending batch."""

SUM_BLOCKS = sa.text("""
    SELECT part.number, coalesce(b.bytes, 0)::bigint AS bytes, coalesce(b.rows, 0)::bigint AS rows
    FROM unnest(CAST(:table_ids AS bigint[]), CAST(:generations AS integer[]), CAST(:after AS bigint[]),
        CAST(:through AS bigint[])) WITH ORDINALITY AS part (table_id, generation, after, through, number)
    CROSS JOIN LATERAL (
        SELECT sum(payload_bytes) AS bytes, sum(row_count) AS rows FROM mirrorgate.staged_blocks
        WHERE table_id = part.table_id AND generation = part.generation
          AND first_sequence > part.after AND first_sequence <= part.through) b
    ORDER BY part.number""")
"""Sum payload bytes and rows of ranges of blocks."""

_Part: TypeAlias = tuple[TableId, Generation, int, int]
"""Blocks of a table after one sequence and through another."""

_STALE_SECONDS: Final = 60.0
"""After such a pause everything is summed again: blocks that were published meanwhile may be purged."""


@dataclass(frozen=True, slots=True)
class Lagging:
    """The pending batches of a table, the age of its oldest batch, and what was published since the reading before."""

    pending: Amount
    oldest_seconds: float
    published: Amount


@dataclass(frozen=True, slots=True)
class _Known:
    published_through: int
    last_sequence: int
    pending: Amount


@dataclass
class BacklogReader:
    """Reader of the backlog of all tables, which remembers the reading before."""

    _known: dict[TableLife, _Known] = field(default_factory=dict)
    _read_at: float = float("-inf")

    def read(self, engine: sa.Engine, now: float) -> dict[TableLife, Lagging]:
        """Return the tables that lag, or lagged at the reading before, at the monotonic time `now` in seconds.

        Raises the driver's errors.
        """
        if now - self._read_at > _STALE_SECONDS:
            self._known = {}
        with read_snapshot(engine) as connection:
            rows = connection.execute(SELECT_LAGGING).all()
            new, gone = [self._new_part(row) for row in rows], [self._gone_part(row) for row in rows]
            sums = _sums(connection, [*new, *gone])
        found = self._caught_up({(row.table_id, row.generation) for row in rows})
        known = {}
        for row, added, published in zip(rows, sums[: len(rows)], sums[len(rows) :], strict=True):
            life = (TableId(row.table_id), Generation(row.generation))
            before = self._followed(row)
            if before is None and life in self._known:  # all of it, unless an older state was restored
                published = self._known[life].pending
            pending = (before.pending - published if before else Amount()) + added
            known[life] = _Known(row.published_through, row.last_sequence, pending)
            found[life] = Lagging(pending, row.oldest_seconds, published)
        self._known, self._read_at = known, now
        return found

    def _caught_up(self, lagging: set[TableLife]) -> dict[TableLife, Lagging]:
        """Return the tables that lagged at the reading before and do not lag now."""
        return {
            life: Lagging(Amount(), 0.0, known.pending) for life, known in self._known.items() if life not in lagging
        }

    def _new_part(self, row: Any) -> _Part:
        before = self._followed(row)
        after = before.last_sequence if before else row.published_through
        return row.table_id, row.generation, after, row.last_sequence

    def _gone_part(self, row: Any) -> _Part:
        before = self._followed(row)
        after = before.published_through if before else row.published_through
        return row.table_id, row.generation, after, row.published_through

    def _followed(self, row: Any) -> _Known | None:
        """Return the reading before, if this one continues from within its backlog."""
        known = self._known.get((row.table_id, row.generation))
        if known is None or known.last_sequence > row.last_sequence:
            return None
        return known if known.published_through <= row.published_through <= known.last_sequence else None


def _sums(connection: sa.Connection, parts: list[_Part]) -> list[Amount]:
    """Return the sum of the blocks of each part; empty parts cost nothing."""
    filled = {number: part for number, part in enumerate(parts) if part[3] > part[2]}
    sums = [Amount()] * len(parts)
    if filled:
        table_ids, generations, after, through = (list(column) for column in zip(*filled.values(), strict=True))
        keys = {"table_ids": table_ids, "generations": generations, "after": after, "through": through}
        rows = connection.execute(SUM_BLOCKS, keys)
        for number, row in zip(filled, rows, strict=True):
            sums[number] = Amount(row.bytes, row.rows)
    return sums


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
