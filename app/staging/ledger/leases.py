"""Leases: which drain may publish which table, by the database's clock.

A worker keeps one heartbeat row; a table's lease names the worker and counts its claims (the epoch). A worker
whose heartbeat has run out may lose its tables to another, and each durable step it still tries is rejected
because its epoch is no longer the table's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from app.domain.model.table import Epoch, FileNumber, Table, TableId
from app.domain.publication.drain_plan import FileLimits
from app.errors import Code, InvariantBroken

HEARTBEAT = sa.text("""
    INSERT INTO mirrorgate.workers AS w (worker_id, lease_until, lease_seconds, clock_behind_seconds, waits_for)
    VALUES (:worker_id, clock_timestamp() + make_interval(secs => :seconds), :seconds,
        extract(epoch FROM clock_timestamp()) - CAST(:clock AS float8), :waits_for)
    ON CONFLICT (worker_id) DO UPDATE SET heartbeat_at = clock_timestamp(),
        lease_until = clock_timestamp() + make_interval(secs => :seconds), lease_seconds = :seconds,
        clock_behind_seconds = excluded.clock_behind_seconds, waits_for = excluded.waits_for""")

IS_ALIVE = """(w.lease_until > clock_timestamp() AND w.heartbeat_at <= clock_timestamp() + interval '1 second'
    AND w.lease_until <= clock_timestamp() + interval '1 second' + coalesce(
        make_interval(secs => w.lease_seconds), w.lease_until - w.heartbeat_at))"""
"""A lease is honored for its own length from now at the most: one that reaches further was written before the
database's clock was set back, and would keep its tables from everybody for as long as the step."""

DELETE_WORKER = sa.text("DELETE FROM mirrorgate.workers WHERE worker_id = :worker_id")

DELETE_DEAD_WORKERS = sa.text("""
    DELETE FROM mirrorgate.workers WHERE lease_until < clock_timestamp() - interval '1 day'""")

COUNT_LIVE_WORKERS = sa.text(f"SELECT count(*) FROM mirrorgate.workers w WHERE {IS_ALIVE}")  # noqa: S608  # constant text

SELECT_OWN_EPOCH = sa.text("""
    SELECT epoch FROM mirrorgate.table_leases WHERE table_id = :table_id AND worker_id = :worker_id""")

INSERT_LEASE = sa.text("""
    INSERT INTO mirrorgate.table_leases (table_id, epoch, worker_id) VALUES (:table_id, 1, :worker_id)
    ON CONFLICT (table_id) DO NOTHING RETURNING epoch""")

LOCK_LEASE = sa.text("SELECT FROM mirrorgate.table_leases WHERE table_id = :table_id FOR UPDATE")

TAKE_LEASE = sa.text(f"""
    UPDATE mirrorgate.table_leases l SET epoch = l.epoch + 1, worker_id = :worker_id
    WHERE l.table_id = :table_id AND (l.worker_id = :worker_id OR NOT EXISTS (
        SELECT FROM mirrorgate.workers w WHERE w.worker_id = l.worker_id AND {IS_ALIVE}))
    RETURNING epoch""")  # noqa: S608  # constant text
"""After LOCK_LEASE, as a statement of its own: one that also waits for the lock does not see the heartbeat of the
worker that held it."""

LOCK_LEASES = sa.text("""
    SELECT table_id, epoch FROM mirrorgate.table_leases
    WHERE table_id = ANY(:table_ids) ORDER BY table_id FOR UPDATE""")

SELECT_DUE = sa.text(f"""
    SELECT t.table_id
    FROM mirrorgate.tables t
    JOIN mirrorgate.table_counters c ON c.table_id = t.table_id
    LEFT JOIN LATERAL (
        SELECT extract(epoch FROM clock_timestamp() - b.staged_at) AS age
        FROM mirrorgate.staged_blocks b
        WHERE b.table_id = t.table_id AND b.generation = t.generation AND b.first_sequence > c.published_through
        ORDER BY b.first_sequence LIMIT 1) oldest ON true
    LEFT JOIN mirrorgate.table_leases l ON l.table_id = t.table_id
    LEFT JOIN mirrorgate.workers w ON w.worker_id = l.worker_id AND {IS_ALIVE}
    WHERE (w.worker_id IS NULL OR w.worker_id = :worker_id)
      AND (t.state = 'dropping' OR t.state = 'active' AND (
        t.rewrite_marker OR c.next_file_number > c.recorded_file_number + 1
        OR c.next_file_number = 1 AND (t.options ->> 'seed_file')::boolean
        OR EXISTS (
            SELECT FROM mirrorgate.landing_files f
            WHERE f.table_id = t.table_id AND f.generation = t.generation AND f.repair_requested)
        OR c.last_sequence > c.published_through AND (
            oldest.age >= :max_delay OR oldest.age < 0 OR c.flush_through > c.published_through OR EXISTS (
                SELECT FROM mirrorgate.staged_blocks b
                WHERE b.table_id = t.table_id AND b.generation = t.generation
                  AND b.first_sequence > c.published_through
                HAVING sum(b.row_count) >= :rows OR sum(b.payload_bytes) >= :payload_bytes))))
    ORDER BY abs(oldest.age) DESC NULLS FIRST LIMIT :most""")  # noqa: S608  # constant text
"""A negative age is due at once: see `is_due` in app.domain.publication.drain_plan."""


RAISE_EPOCH = sa.text("UPDATE mirrorgate.table_leases SET epoch = :epoch WHERE table_id = :table_id")

SELECT_REVOKED_THROUGH = sa.text("SELECT revoked_through FROM mirrorgate.table_leases WHERE table_id = :table_id")

FORGET_EPOCHS = sa.text("""
    UPDATE mirrorgate.table_leases SET revoked_through = greatest(revoked_through, :through)
    WHERE table_id = :table_id""")

SELECT_HELD = sa.text("""
    SELECT l.table_id, l.epoch, c.recorded_file_number FROM mirrorgate.table_leases l
    JOIN mirrorgate.table_counters c ON c.table_id = l.table_id WHERE l.worker_id = :worker_id""")


@dataclass(frozen=True, slots=True)
class Claim:
    """A table that a worker owns under an epoch."""

    table: Table
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class HeldTable:
    """A table of a worker: the epoch of its claim, and the last file recorded as published."""

    table_id: TableId
    epoch: Epoch
    recorded: FileNumber


def renew_lease(
    connection: sa.Connection,
    worker_id: UUID,
    seconds: float,
    *,
    clock: float | None = None,
    waits_for: str | None = None,
) -> None:
    """Keep this worker's tables for another `seconds`, and tell the others how the worker is.

    `clock` is the worker's own time, in seconds since 1970. `waits_for` is the code of what keeps it from publishing
    anything, None while it publishes.
    """
    keys = {"worker_id": worker_id, "seconds": seconds, "clock": clock, "waits_for": waits_for}
    connection.execute(HEARTBEAT, keys)


def give_up_lease(connection: sa.Connection, worker_id: UUID) -> None:
    """Leave all tables to other workers at once, and forget workers that died long ago."""
    connection.execute(DELETE_WORKER, {"worker_id": worker_id})
    forget_dead_workers(connection)


def forget_dead_workers(connection: sa.Connection) -> None:
    """Delete the heartbeats of workers that died long ago; their tables are anybody's already."""
    connection.execute(DELETE_DEAD_WORKERS)


def live_workers(connection: sa.Connection) -> int:
    """How many drains have a lease that has not run out."""
    return int(connection.execute(COUNT_LIVE_WORKERS).scalar_one())


def due_tables(connection: sa.Connection, worker_id: UUID, limits: FileLimits, *, most: int) -> list[TableId]:
    """Tables that have work and no other live owner: a file's worth of pending rows or an old enough one, a flush,
    a file that is planned and not published, a marker to write again, a seed file to come, a file to repair, or a
    folder to drop."""
    keys = {
        "worker_id": worker_id,
        "max_delay": limits.max_delay_seconds,
        "rows": limits.rows,
        "payload_bytes": limits.payload_bytes,
        "most": most,
    }
    return [TableId(table_id) for table_id in connection.execute(SELECT_DUE, keys).scalars()]


def claim_table(connection: sa.Connection, table_id: TableId, worker_id: UUID, *, held: Epoch | None) -> Epoch | None:
    """W1: the epoch under which this worker owns the table; None while another worker lives.

    The epoch `held` is kept while it is still the table's; otherwise a new one begins, and older ones must be
    revoked before anything else. A process that dies after this has only burned an epoch number.
    """
    keys = {"table_id": table_id, "worker_id": worker_id}
    if held is not None and connection.execute(SELECT_OWN_EPOCH, keys).scalar() == held:
        return held
    epoch = connection.execute(INSERT_LEASE, keys).scalar()
    if epoch is None:
        connection.execute(LOCK_LEASE, keys)
        epoch = connection.execute(TAKE_LEASE, keys).scalar()
    return None if epoch is None else Epoch(epoch)


def raise_epoch(connection: sa.Connection, table_id: TableId, epoch: Epoch, *, beyond: Epoch) -> Epoch:
    """After a restore: the first epoch that the scratch has not seen yet, instead of the one just claimed.

    Raises InvariantBroken `stale_epoch`. A process that dies after this has only burned epoch numbers.
    """
    check_epoch(connection, table_id, epoch)
    connection.execute(RAISE_EPOCH, {"table_id": table_id, "epoch": beyond + 1})
    return Epoch(beyond + 1)


def revoked_through(connection: sa.Connection, table_id: TableId) -> Epoch:
    """Through which epoch no process lives any more, so that it needs no marker."""
    return Epoch(connection.execute(SELECT_REVOKED_THROUGH, {"table_id": table_id}).scalar_one())


def forget_epochs(connection: sa.Connection, table_id: TableId, epoch: Epoch, *, through: Epoch) -> None:
    """Record that the markers of these epochs are not needed any more, before they are deleted."""
    check_epoch(connection, table_id, epoch)
    connection.execute(FORGET_EPOCHS, {"table_id": table_id, "through": through})


def held_tables(connection: sa.Connection, worker_id: UUID) -> list[HeldTable]:
    """The tables whose lease names this worker."""
    rows = connection.execute(SELECT_HELD, {"worker_id": worker_id})
    return [HeldTable(TableId(table_id), Epoch(epoch), FileNumber(recorded)) for table_id, epoch, recorded in rows]


def check_epoch(connection: sa.Connection, table_id: TableId, epoch: Epoch) -> None:
    """Hold the table's lease row to the transaction's end. Raises InvariantBroken `stale_epoch` for an older epoch."""
    check_epochs(connection, {table_id: epoch})


def check_epochs(connection: sa.Connection, epochs: Mapping[TableId, Epoch]) -> None:
    """`check_epoch` for several tables: all of them, or none."""
    leases = connection.execute(LOCK_LEASES, {"table_ids": list(epochs)})
    present = {lease.table_id: lease.epoch for lease in leases}
    for table_id, epoch in epochs.items():
        if present.get(table_id) != epoch:
            raise InvariantBroken(Code.STALE_EPOCH, f"epoch {epoch} of table {table_id} is over")
