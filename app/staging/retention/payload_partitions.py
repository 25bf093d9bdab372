"""Payload buckets: the partitions of `block_payloads`, opened one after the other and dropped whole.

One bucket is open, the next one is attached ahead, all before are closed. Staging writes into whichever is open, so
while nobody opens another the open one only grows. A closed bucket is emptied of what is still needed, detached
without blocking anybody, and dropped. The caller is the only process that does any of this.
"""

from dataclasses import dataclass
from enum import StrEnum

import psycopg.errors
import sqlalchemy as sa

SELECT_BUCKETS = sa.text("""
    SELECT b.bucket, b.state,
        coalesce(extract(epoch FROM clock_timestamp() - b.opened_at), 0)::float8 AS open_seconds,
        coalesce(extract(epoch FROM clock_timestamp() - b.closed_at), 0)::float8 AS closed_seconds,
        coalesce(pg_total_relation_size(c.oid), 0)::bigint AS total_bytes,
        CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'detaching'
             ELSE 'attached' END AS place
    FROM mirrorgate.payload_buckets b
    LEFT JOIN pg_class c ON c.oid = to_regclass('mirrorgate.block_payloads_' || b.bucket)
    LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
    ORDER BY b.bucket""")

INSERT_NEXT_BUCKET = sa.text("""
    INSERT INTO mirrorgate.payload_buckets (bucket, state)
    SELECT max(bucket) + 1, 'ahead' FROM mirrorgate.payload_buckets RETURNING bucket""")

CREATE_PARTITION = """
    CREATE TABLE {partition} (
        LIKE mirrorgate.block_payloads INCLUDING DEFAULTS INCLUDING STORAGE,
        CONSTRAINT block_payloads_{bucket}_bucket CHECK (bucket = {bucket}),
        PRIMARY KEY (table_id, generation, first_sequence));
    ALTER TABLE mirrorgate.block_payloads ATTACH PARTITION {partition} FOR VALUES FROM ({bucket}) TO ({bucket} + 1)"""
"""The check says what the partition's bounds will, so that attaching it reads nothing and blocks nobody."""

CLOSE_BUCKET = sa.text("""
    UPDATE mirrorgate.payload_buckets SET state = 'closed', closed_at = clock_timestamp() WHERE state = 'open'""")

OPEN_BUCKET = sa.text("""
    UPDATE mirrorgate.payload_buckets SET state = 'open', opened_at = clock_timestamp()
    WHERE bucket = (SELECT min(bucket) FROM mirrorgate.payload_buckets WHERE state = 'ahead')""")

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
    WHERE t.state <> 'dropped'"""
"""What files are still to be built from: not published, or to be repaired. Ended generations need nothing."""

SUM_NEEDED = f"""
    SELECT coalesce(sum(b.payload_bytes), 0)::bigint FROM ({_NEEDED}) needed
    JOIN mirrorgate.staged_blocks b USING (table_id, generation, first_sequence)"""  # noqa: S608  # constant text

MOVE_NEEDED = f"""
    WITH needed AS (
        SELECT n.*, sum(b.payload_bytes) OVER (ORDER BY n.table_id, n.first_sequence) - b.payload_bytes AS before
        FROM ({_NEEDED} LIMIT :most) n
        JOIN mirrorgate.staged_blocks b USING (table_id, generation, first_sequence)),
    moved AS (
        UPDATE mirrorgate.block_payloads p SET bucket = mirrorgate.current_bucket() FROM needed n
        WHERE p.bucket = :bucket AND p.table_id = n.table_id AND p.generation = n.generation
          AND p.first_sequence = n.first_sequence AND n.before < :chunk_bytes
        RETURNING p.table_id, p.generation, p.first_sequence, p.bucket)
    UPDATE mirrorgate.staged_blocks b SET bucket = m.bucket FROM moved m
    WHERE b.table_id = m.table_id AND b.generation = m.generation AND b.first_sequence = m.first_sequence"""  # noqa: S608  # constant text

RESCUE_NEEDED = f"""
    WITH rescued AS (
        INSERT INTO mirrorgate.block_payloads (table_id, generation, first_sequence, payload)
        SELECT p.table_id, p.generation, p.first_sequence, p.payload
        FROM {{partition}} p JOIN ({_NEEDED}) n USING (table_id, generation, first_sequence)
        RETURNING table_id, generation, first_sequence, bucket)
    UPDATE mirrorgate.staged_blocks b SET bucket = r.bucket FROM rescued r
    WHERE b.table_id = r.table_id AND b.generation = r.generation AND b.first_sequence = r.first_sequence"""  # noqa: S608  # constant text

DELETE_BUCKET = sa.text("DELETE FROM mirrorgate.payload_buckets WHERE bucket = :bucket AND state = 'closed'")

_MOST_MOVED = 1_000
"""Payloads that one statement looks at to move."""


class Place(StrEnum):
    """How far the detaching of a bucket's partition has come."""

    ATTACHED = "attached"
    DETACHING = "detaching"
    DETACHED = "detached"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket as the database has it; `state` is `ahead`, `open` or `closed`."""

    number: int
    state: str
    open_seconds: float
    closed_seconds: float
    total_bytes: int
    place: Place

    @property
    def partition(self) -> str:
        return _partition(self.number)


def find_buckets(connection: sa.Connection) -> list[Bucket]:
    """All buckets, oldest first."""
    rows = connection.execute(SELECT_BUCKETS)
    return [
        Bucket(bucket, state, open_seconds, closed_seconds, total_bytes, Place(place))
        for bucket, state, open_seconds, closed_seconds, total_bytes, place in rows
    ]


def attach_next_bucket(connection: sa.Connection) -> int:
    """Add a bucket that is not written to yet. Dies with the transaction, leaving nothing."""
    bucket: int = connection.execute(INSERT_NEXT_BUCKET).scalar_one()
    connection.execute(sa.text(CREATE_PARTITION.format(partition=_partition(bucket), bucket=bucket)))
    return bucket


def open_next_bucket(connection: sa.Connection) -> None:
    """Let staging write into the bucket that was attached ahead, and into the present one no more.

    It was attached by an earlier transaction: a statement that sees it open must know its partition already.
    """
    connection.execute(CLOSE_BUCKET)
    connection.execute(OPEN_BUCKET)


def is_empty(connection: sa.Connection, bucket: Bucket) -> bool:
    """Whether no payload is in the bucket."""
    return connection.execute(sa.text(f"SELECT FROM {bucket.partition} LIMIT 1")).first() is None


def needed_bytes(connection: sa.Connection, bucket: Bucket) -> int:
    """Payload bytes of the bucket from which files are still to be built."""
    query = sa.text(SUM_NEEDED.format(partition=bucket.partition))
    size: int = connection.execute(query).scalar_one()
    return size


def move_needed(connection: sa.Connection, bucket: Bucket, *, chunk_bytes: int) -> int:
    """Move payloads that are still needed into the open bucket, about `chunk_bytes`; how many were moved.

    A process that dies before the commit leaves them where they were; the next one moves them.
    """
    statement = sa.text(MOVE_NEEDED.format(partition=bucket.partition))
    keys = {"bucket": bucket.number, "chunk_bytes": chunk_bytes, "most": _MOST_MOVED}
    return connection.execute(statement, keys).rowcount


def detach(alone: sa.Connection, bucket: Bucket, *, seconds: float) -> bool:
    """Detach a closed bucket's partition; False when transactions that began before last longer than `seconds`.

    `alone` is in autocommit. Nobody waits for this. A process that dies inside, or False, leaves a partition that new
    transactions do not see any more, and that the next call finishes with.
    """
    manner = "FINALIZE" if bucket.place is Place.DETACHING else "CONCURRENTLY"
    alone.execute(sa.text("SET lock_timeout = 0"))
    alone.execute(sa.text(f"SET statement_timeout = {round(seconds * 1000)}"))
    try:
        alone.execute(sa.text(f"ALTER TABLE mirrorgate.block_payloads DETACH PARTITION {bucket.partition} {manner}"))
    except sa.exc.OperationalError as error:
        if not isinstance(error.orig, psycopg.errors.QueryCanceled):
            raise
        return False
    finally:
        if not alone.invalidated:
            alone.execute(sa.text("RESET statement_timeout"))
            alone.execute(sa.text("RESET lock_timeout"))
    return True


def drop_detached(connection: sa.Connection, bucket: Bucket) -> int:
    """Drop a detached bucket; how many payloads had still come to be needed and went into the open one.

    One transaction: a process that dies inside leaves the detached table to the next one.
    """
    rescued = 0
    if connection.execute(sa.text("SELECT to_regclass(:name)"), {"name": bucket.partition}).scalar() is not None:
        rescued = connection.execute(sa.text(RESCUE_NEEDED.format(partition=bucket.partition))).rowcount
        connection.execute(sa.text(f"DROP TABLE {bucket.partition}"))
    connection.execute(DELETE_BUCKET, {"bucket": bucket.number})
    return rescued


def _partition(bucket: int) -> str:
    return f"mirrorgate.block_payloads_{bucket}"
