"""Payload partitions: the partitions of `block_payloads`, opened one after the other and dropped as a whole.

One partition is open, the next one is attached ahead, and all before are closed. Staging writes into whichever is
open, so without retention the open one only grows. A closed partition is emptied of what files still need, detached
without blocking staging or builds, and dropped. The database calls a partition a *bucket*.

Invariant: one process at a time runs these functions (the lock of `rounds`).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import psycopg.errors
import sqlalchemy as sa

SELECT_PARTITIONS = sa.text("""
    SELECT b.bucket, b.state,
        coalesce(abs(extract(epoch FROM clock_timestamp() - b.opened_at)), 0)::float8 AS open_seconds,
        coalesce(abs(extract(epoch FROM clock_timestamp() - b.closed_at)), 0)::float8 AS closed_seconds,
        coalesce(pg_total_relation_size(c.oid), 0)::bigint AS total_bytes,
        CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'detaching'
             ELSE 'attached' END AS attachment
    FROM mirrorgate.payload_buckets b
    LEFT JOIN pg_class c ON c.oid = to_regclass('mirrorgate.block_payloads_' || b.bucket)
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    ORDER BY b.bucket""")
"""List the partitions with their ages, sizes and attachment, oldest first. After a clock step, a time may be ahead."""

INSERT_NEXT_PARTITION = sa.text("""
    INSERT INTO mirrorgate.payload_buckets (bucket, state)
    SELECT max(bucket) + 1, 'ahead' FROM mirrorgate.payload_buckets RETURNING bucket""")
"""Add the partition after the newest one."""

CREATE_PARTITION = """
    CREATE TABLE {partition} (
        LIKE mirrorgate.block_payloads INCLUDING DEFAULTS INCLUDING STORAGE,
        CONSTRAINT block_payloads_{bucket}_bucket CHECK (bucket = {bucket}),
        PRIMARY KEY (table_id, generation, first_sequence));
    ALTER TABLE mirrorgate.block_payloads ATTACH PARTITION {partition} FOR VALUES FROM ({bucket}) TO ({bucket} + 1)"""
"""Create a partition's table and attach it; the check equals the bounds, so attaching reads and blocks nothing."""

CLOSE_OPEN_PARTITION = sa.text("""
    UPDATE mirrorgate.payload_buckets SET state = 'closed', closed_at = clock_timestamp() WHERE state = 'open'""")
"""Close the open partition."""

OPEN_NEXT_PARTITION = sa.text("""
    UPDATE mirrorgate.payload_buckets SET state = 'open', opened_at = clock_timestamp()
    WHERE bucket = (SELECT min(bucket) FROM mirrorgate.payload_buckets WHERE state = 'ahead')""")
"""Open the partition that was attached ahead."""

SELECT_ROW = "SELECT FROM {partition} LIMIT 1"
"""Find any payload of a partition."""

_NEEDED = """
    SELECT t.table_id, t.generation, p.first_sequence
    FROM mirrorgate.tables t
    JOIN mirrorgate.table_counters c ON c.table_id = t.table_id
    JOIN LATERAL (
        SELECT first_sequence FROM {partition}
        WHERE table_id = t.table_id AND generation = t.generation AND first_sequence > c.published_through
        UNION
        SELECT p.first_sequence FROM mirrorgate.landing_files f
        JOIN {partition} p ON p.table_id = f.table_id AND p.generation = f.generation
            AND p.first_sequence BETWEEN f.first_sequence AND f.last_sequence
        WHERE f.table_id = t.table_id AND f.generation = t.generation AND f.repair_requested) p ON true
    WHERE t.state <> 'dropped'
    UNION ALL
    SELECT p.table_id, p.generation, p.first_sequence
    FROM mirrorgate.tables t JOIN {partition} p ON p.table_id = t.table_id AND p.generation > t.generation
    WHERE t.rebuild_due"""
"""List the payloads that files are still built from: unpublished, to be repaired, or of a rebuild that has not ended.

Ended generations need none."""

SUM_NEEDED = f"""
    SELECT coalesce(sum(b.payload_bytes), 0)::bigint FROM ({_NEEDED}) needed
    JOIN mirrorgate.staged_blocks b USING (table_id, generation, first_sequence)"""  # noqa: S608  # constant text
"""Sum the bytes of a partition's needed payloads."""

MOVE_NEEDED = f"""
    WITH needed AS (
        SELECT n.*, sum(b.payload_bytes) OVER (ORDER BY n.table_id, n.first_sequence) - b.payload_bytes AS before
        FROM ({_NEEDED} LIMIT :limit) n
        JOIN mirrorgate.staged_blocks b USING (table_id, generation, first_sequence)),
    moved AS (
        UPDATE mirrorgate.block_payloads p SET bucket = mirrorgate.current_bucket() FROM needed n
        WHERE p.bucket = :bucket AND p.table_id = n.table_id AND p.generation = n.generation
          AND p.first_sequence = n.first_sequence AND n.before < :chunk_bytes
        RETURNING p.table_id, p.generation, p.first_sequence, p.bucket)
    UPDATE mirrorgate.staged_blocks b SET bucket = m.bucket FROM moved m
    WHERE b.table_id = m.table_id AND b.generation = m.generation AND b.first_sequence = m.first_sequence"""  # noqa: S608  # constant text
"""Move about `chunk_bytes` of an attached partition's needed payloads into the open one."""

RESCUE_NEEDED = f"""
    WITH rescued AS (
        INSERT INTO mirrorgate.block_payloads (table_id, generation, first_sequence, payload)
        SELECT p.table_id, p.generation, p.first_sequence, p.payload
        FROM {{partition}} p JOIN ({_NEEDED}) n USING (table_id, generation, first_sequence)
        RETURNING table_id, generation, first_sequence, bucket)
    UPDATE mirrorgate.staged_blocks b SET bucket = r.bucket FROM rescued r
    WHERE b.table_id = r.table_id AND b.generation = r.generation AND b.first_sequence = r.first_sequence"""  # noqa: S608  # constant text
"""Copy a detached partition's needed payloads into the open one."""

DETACH_PARTITION = "ALTER TABLE mirrorgate.block_payloads DETACH PARTITION {partition} {manner}"
"""Detach a partition: CONCURRENTLY, or FINALIZE to complete a detaching that was interrupted."""

WAIT_FOR_LOCKS = sa.text("SET lock_timeout = 0")
"""Let a session wait for locks without limit."""

LIMIT_STATEMENTS = "SET statement_timeout = {milliseconds}"
"""Limit the time of a session's statements."""

RESET_STATEMENT_TIMEOUT = sa.text("RESET statement_timeout")
"""Set a session's `statement_timeout` back to its default."""

RESET_LOCK_TIMEOUT = sa.text("RESET lock_timeout")
"""Set a session's `lock_timeout` back to its default."""

SELECT_TABLE_EXISTS = sa.text("SELECT to_regclass(:name) IS NOT NULL")
"""Return True if a partition's table exists."""

DROP_PARTITION = "DROP TABLE {partition}"
"""Drop a detached partition with its payloads."""

DELETE_PARTITION = sa.text("DELETE FROM mirrorgate.payload_buckets WHERE bucket = :bucket AND state = 'closed'")
"""Forget a closed partition."""

_MAX_MOVED: Final = 1_000
"""Payloads that one statement considers for moving."""


class Attachment(StrEnum):
    """The progress of detaching a partition."""

    ATTACHED = "attached"
    DETACHING = "detaching"
    DETACHED = "detached"


@dataclass(frozen=True, slots=True)
class PayloadPartition:
    """A partition as the database has it; `state` is `ahead`, `open` or `closed`."""

    number: int
    state: str
    open_seconds: float
    """Age since the partition was opened; 0 while it is ahead."""
    closed_seconds: float
    """Age since the partition was closed; 0 before."""
    total_bytes: int
    attachment: Attachment

    @property
    def table(self) -> str:
        """Return the name of the partition's own table, with its schema."""
        return _table(self.number)


def find_partitions(connection: sa.Connection) -> list[PayloadPartition]:
    """Return all partitions, oldest first."""
    rows = connection.execute(SELECT_PARTITIONS)
    return [
        PayloadPartition(number, state, open_seconds, closed_seconds, total_bytes, Attachment(attachment))
        for number, state, open_seconds, closed_seconds, total_bytes, attachment in rows
    ]


def attach_next_partition(connection: sa.Connection) -> int:
    """Add a partition that staging does not write into yet, and return its number.

    A process that dies before the commit leaves nothing.
    """
    number: int = connection.execute(INSERT_NEXT_PARTITION).scalar_one()
    connection.execute(sa.text(CREATE_PARTITION.format(partition=_table(number), bucket=number)))
    return number


def open_next_partition(connection: sa.Connection) -> None:
    """Let staging write into the partition that was attached ahead, and no longer into the present one.

    An earlier transaction must have attached it: a statement that sees it open has to know its table already. A
    process that dies before the commit leaves the present partition open.
    """
    connection.execute(CLOSE_OPEN_PARTITION)
    connection.execute(OPEN_NEXT_PARTITION)


def is_empty(connection: sa.Connection, partition: PayloadPartition) -> bool:
    """Return True if the partition holds no payload."""
    return connection.execute(sa.text(SELECT_ROW.format(partition=partition.table))).first() is None


def needed_bytes(connection: sa.Connection, partition: PayloadPartition) -> int:
    """Return the payload bytes of the partition from which files are still to be built."""
    size: int = connection.execute(sa.text(SUM_NEEDED.format(partition=partition.table))).scalar_one()
    return size


def move_needed(connection: sa.Connection, partition: PayloadPartition, *, chunk_bytes: int) -> int:
    """Move about `chunk_bytes` of still needed payloads into the open partition, and return how many were moved.

    A process that dies before the commit leaves them where they were; the next round moves them.
    """
    statement = sa.text(MOVE_NEEDED.format(partition=partition.table))
    keys = {"bucket": partition.number, "chunk_bytes": chunk_bytes, "limit": _MAX_MOVED}
    return connection.execute(statement, keys).rowcount


def detach(autocommit: sa.Connection, partition: PayloadPartition, *, seconds: float) -> bool:
    """Detach a closed partition; return False if older transactions last longer than `seconds`.

    No other session waits for this. A process that dies inside, or False, leaves a partition that new transactions do
    not see any more; the next call completes the detaching.
    """
    manner = "FINALIZE" if partition.attachment is Attachment.DETACHING else "CONCURRENTLY"
    autocommit.execute(WAIT_FOR_LOCKS)
    autocommit.execute(sa.text(LIMIT_STATEMENTS.format(milliseconds=round(seconds * 1000))))
    try:
        autocommit.execute(sa.text(DETACH_PARTITION.format(partition=partition.table, manner=manner)))
    except sa.exc.OperationalError as error:
        if not isinstance(error.orig, psycopg.errors.QueryCanceled):
            raise
        return False
    finally:
        if not autocommit.invalidated:
            autocommit.execute(RESET_STATEMENT_TIMEOUT)
            autocommit.execute(RESET_LOCK_TIMEOUT)
    return True


def drop_detached(connection: sa.Connection, partition: PayloadPartition) -> int:
    """Drop a detached partition; return how many payloads had become needed meanwhile and were copied first.

    One transaction: a process that dies inside leaves the detached table to the next round.
    """
    rescued = 0
    if connection.execute(SELECT_TABLE_EXISTS, {"name": partition.table}).scalar_one():
        rescued = connection.execute(sa.text(RESCUE_NEEDED.format(partition=partition.table))).rowcount
        connection.execute(sa.text(DROP_PARTITION.format(partition=partition.table)))
    connection.execute(DELETE_PARTITION, {"bucket": partition.number})
    return rescued


def _table(number: int) -> str:
    return f"mirrorgate.block_payloads_{number}"
