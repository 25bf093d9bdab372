"""One round of retention: open and drop payload partitions, then purge the history that has lost its payloads.

`run_retention` runs a round; without it, Postgres would grow with every batch that was ever accepted (decision 0002).
Every step is a separate transaction and can be repeated, so a process that dies between two steps leaves the rest to
the next round of any process.

`purge_blocks` and `purge_files` delete blocks without a payload and old landing files, and `purge` other history such
as row images that are not used, all in chunks. A chunk of blocks or files is always the oldest part of a generation,
and the same transaction adds it up in `purged_totals`. So accepted = staged = published remains true, and every
sequence up to a total's last one is known to have been accepted. The metadata chain, the last published file of a
generation, and events are kept; of a dropped table also its row and schemas.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import sqlalchemy as sa
import structlog

from app.domain.access.sign_in import MAX_IDLE_SECONDS
from app.domain.model.table import Generation, TableId, TableLife
from app.staging.access.api_keys import PURGE_FORMER_SECRETS
from app.staging.access.audit_events import PURGE_AUDIT
from app.staging.access.console_sessions import PURGE_SESSIONS
from app.staging.batches.dead_letters import DISCARD_ENDED, PURGE_LETTERS
from app.staging.batches.idempotency import PURGE_RECEIPTS
from app.staging.batches.staged_blocks import PURGE_TRACES
from app.staging.connection.database import AdvisoryLock, session_lock, translated_errors
from app.staging.ledger.leases import DELETE_DEAD_WORKERS
from app.staging.loads import PURGE_LOADS, end_stale_loads
from app.staging.mirror import DELETE_SILENT
from app.staging.retention.history import PURGE_HISTORY
from app.staging.retention.payload_partitions import (
    Attachment,
    PayloadPartition,
    attach_next_partition,
    detach,
    drop_detached,
    find_partitions,
    is_empty,
    move_needed,
    needed_bytes,
    open_next_partition,
)

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
        DELETE FROM mirrorgate.staged_blocks
        WHERE table_id = :table_id AND generation = :generation
          AND first_sequence <= (SELECT max(first_sequence) FROM head WHERE purged)
        RETURNING last_sequence, change_count, row_count),
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
        DELETE FROM mirrorgate.landing_files WHERE table_id = :table_id AND generation = :generation
          AND number <= (SELECT max(number) FROM head WHERE purged)
        RETURNING number, last_sequence, change_count, row_count),
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
"""Delete some row images of ended generations, and of tables that have ceased to keep them.

A registration that lets a table keep images again is safe beside it: it waits for the images that are being deleted,
and rejects if others are left.
"""

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
"""Delete the counters and leases of dropped tables without blocks, whose purge reads the counters.

A drain that wakes late finds no epoch, which is a stale one to it; a batch finds no counters, as of no table.
"""

_PURGED_AT_ONCE: Final = (DISCARD_ENDED, PURGE_POSITIONS, PURGE_FORMER_SECRETS, DELETE_DEAD_WORKERS)
"""Statements that have little to do in a round."""


def purge(connection: sa.Connection, statement: sa.TextClause, *, older_than_seconds: float, limit: int) -> int:
    """Delete up to `limit` rows by one of the statements; return how many.

    Repeat it until it deletes none. A process that dies before the commit deletes none.
    """
    return connection.execute(statement, {"seconds": older_than_seconds, "limit": limit}).rowcount


def generations_of(connection: sa.Connection, statement: sa.TextClause, **parameters: float) -> list[TableLife]:
    """Return the generations that a statement lists."""
    rows = connection.execute(statement, parameters)
    return [(TableId(row.table_id), Generation(row.generation)) for row in rows]


def purge_blocks(connection: sa.Connection, table_id: TableId, generation: Generation, *, limit: int) -> int:
    """Delete at most `limit` of the oldest blocks whose partition is gone, and return how many.

    Unpublished blocks of a live generation are kept. A process that dies before the commit leaves blocks and totals as
    they were.
    """
    keys = {"table_id": table_id, "generation": generation, "limit": limit}
    return int(connection.execute(PURGE_BLOCKS, keys).scalar_one())


def purge_files(
    connection: sa.Connection, table_id: TableId, generation: Generation, *, keep_seconds: float, limit: int
) -> int:
    """Delete at most `limit` of the ledger's oldest files, never its last published one, and return how many.

    A process that dies before the commit leaves the ledger and its totals as they were.
    """
    keys = {"table_id": table_id, "generation": generation, "keep_seconds": keep_seconds, "limit": limit}
    return int(connection.execute(PURGE_FILES, keys).scalar_one())


log = structlog.get_logger()

_TRACE_SECONDS: Final = 86_400.0
"""Seconds for which the trace of a block waits for a drain that is stopped."""

PARTITIONS_PER_PERIOD: Final = 7
"""Partitions opened by age in `keep_seconds`: a payload is kept at most one such part longer than it must be."""

PARTITIONS_PER_CAP: Final = 8
"""Partitions opened by size until `keep_bytes` is reached."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """The amounts to keep, and the size of the steps."""

    keep_seconds: float
    """Payloads, and files of the ledger, are kept this long."""
    keep_bytes: int
    """Payloads are dropped earlier, oldest first, if they take more room than this."""
    audit_seconds: float = 90 * 86_400.0
    """Audit events are kept this long."""
    history_seconds: float = 2 * 86_400.0
    """Samples for the plots of the console are kept this long."""
    quiet_seconds: float = 60.0
    """A partition closed so recently is left alone: a transaction that began before can still write into it."""
    detach_seconds: float = 30.0
    """Seconds for which the detaching of a partition waits for older transactions."""
    chunk_rows: int = 5_000
    """Rows that one transaction deletes at most."""
    chunk_bytes: int = 64 * 2**20
    """Payload bytes that one transaction moves, about."""


@dataclass(slots=True)
class RetentionReport:
    """The result of one round."""

    opened_partitions: int = 0
    dropped_partitions: int = 0
    freed_bytes: int = 0
    moved_payloads: int = 0
    purged_blocks: int = 0
    purged_files: int = 0
    purged_images: int = 0
    purged_receipts: int = 0
    purged_audit_events: int = 0
    purged_letters: int = 0
    ended_loads: int = 0


def run_retention(engine: sa.Engine, limits: RetentionLimits) -> RetentionReport | None:
    """Do what is due now; return None if another process is doing it.

    Raises TemporarilyUnavailable if the database does not answer or another session holds a lock for long.
    """
    with translated_errors(), session_lock(engine, AdvisoryLock.RETENTION) as autocommit:
        return None if autocommit is None else _Round(engine, autocommit, limits).run()


class _Round:
    """The state of one round: its connections, limits and report."""

    def __init__(self, engine: sa.Engine, autocommit: sa.Connection, limits: RetentionLimits) -> None:
        self._engine = engine
        self._autocommit = autocommit
        self._limits = limits
        self._report = RetentionReport()

    def run(self) -> RetentionReport:
        """Do every step that is due."""
        self._open_partitions()
        if self._finish_detached():
            self._expire_partitions()
        self._purge_history()
        return self._report

    def _open_partitions(self) -> None:
        partitions = self._partitions()
        open_partition = next(partition for partition in partitions if partition.state == "open")
        ahead = [partition for partition in partitions if partition.state == "ahead"]
        if ahead and self._is_full(open_partition):
            with self._engine.begin() as connection:
                open_next_partition(connection)
            self._report.opened_partitions += 1
            ahead.pop()
        if not ahead:
            with self._engine.begin() as connection:
                attach_next_partition(connection)

    def _is_full(self, partition: PayloadPartition) -> bool:
        if partition.total_bytes >= self._limits.keep_bytes / PARTITIONS_PER_CAP:
            return True
        if partition.open_seconds < self._limits.keep_seconds / PARTITIONS_PER_PERIOD:
            return False
        with self._engine.begin() as connection:
            return not is_empty(connection, partition)

    def _finish_detached(self) -> bool:
        """Drop what an interrupted round has left detached; return False while older transactions delay that."""
        return all(
            self._drop(partition) for partition in self._partitions() if partition.attachment is not Attachment.ATTACHED
        )

    def _expire_partitions(self) -> None:
        partitions = self._partitions()
        total = sum(partition.total_bytes for partition in partitions)
        for partition in partitions:
            if partition.state != "closed" or partition.closed_seconds < self._limits.quiet_seconds:
                continue
            too_old = partition.closed_seconds >= self._limits.keep_seconds
            if too_old or (total > self._limits.keep_bytes and self._frees_more_than_it_moves(partition)):
                self._empty(partition)
                if not self._drop(partition):
                    return
                total -= partition.total_bytes
        if total > self._limits.keep_bytes:
            log.warning("payload_cap_exceeded", total_bytes=total, keep_bytes=self._limits.keep_bytes)

    def _frees_more_than_it_moves(self, partition: PayloadPartition) -> bool:
        """Return True if dropping a partition for its size is worth it: moving needed payloads frees nothing."""
        with self._engine.begin() as connection:
            return 2 * needed_bytes(connection, partition) <= partition.total_bytes

    def _empty(self, partition: PayloadPartition) -> None:
        """Move needed payloads away, so that a paused or slow table does not keep the whole partition."""
        move = partial(move_needed, partition=partition, chunk_bytes=self._limits.chunk_bytes)
        self._report.moved_payloads += self._repeat(move)

    def _drop(self, partition: PayloadPartition) -> bool:
        waits = partition.attachment is not Attachment.DETACHED
        if waits and not detach(self._autocommit, partition, seconds=self._limits.detach_seconds):
            log.info("partition_detach_delayed", partition=partition.number)
            return False
        with self._engine.begin() as connection:
            self._report.moved_payloads += drop_detached(connection, partition)
        self._report.dropped_partitions += 1
        self._report.freed_bytes += partition.total_bytes
        return True

    def _purge_history(self) -> None:
        keep, limit = self._limits.keep_seconds, self._limits.chunk_rows
        with self._engine.begin() as connection:
            with_blocks = generations_of(connection, SELECT_WITH_BLOCKS)
        for table_id, generation in with_blocks:
            blocks = partial(purge_blocks, table_id=table_id, generation=generation, limit=limit)
            self._report.purged_blocks += self._repeat(blocks)
        with self._engine.begin() as connection:
            with_files = generations_of(connection, SELECT_WITH_FILES, keep_seconds=keep)
        for table_id, generation in with_files:
            files = partial(purge_files, table_id=table_id, generation=generation, keep_seconds=keep, limit=limit)
            self._report.purged_files += self._repeat(files)
        self._report.purged_images += self._purge(PURGE_IMAGES)
        self._purge(PURGE_DROPPED)
        self._report.purged_receipts += self._purge(PURGE_RECEIPTS)
        self._report.purged_audit_events += self._purge(PURGE_AUDIT, self._limits.audit_seconds)
        self._report.purged_letters += self._purge(PURGE_LETTERS)
        self._report.ended_loads += self._repeat(end_stale_loads)
        self._purge(PURGE_LOADS)
        self._purge(PURGE_TRACES, _TRACE_SECONDS)
        with self._engine.begin() as connection:
            for statement in _PURGED_AT_ONCE:
                connection.execute(statement)
            connection.execute(PURGE_SESSIONS, {"idle": MAX_IDLE_SECONDS})
            connection.execute(PURGE_HISTORY, {"seconds": self._limits.history_seconds})
            connection.execute(DELETE_SILENT, {"seconds": keep})

    def _purge(self, statement: sa.TextClause, keep_seconds: float | None = None) -> int:
        seconds = self._limits.keep_seconds if keep_seconds is None else keep_seconds
        return self._repeat(
            partial(purge, statement=statement, older_than_seconds=seconds, limit=self._limits.chunk_rows)
        )

    def _repeat(self, step: Callable[[sa.Connection], int]) -> int:
        """Do a step, each time in its own transaction, until it finds nothing; return the sum of what it did."""
        total = 0
        while True:
            with self._engine.begin() as connection:
                done = step(connection)
            if not done:
                return total
            total += done

    def _partitions(self) -> list[PayloadPartition]:
        with self._engine.begin() as connection:
            return find_partitions(connection)
