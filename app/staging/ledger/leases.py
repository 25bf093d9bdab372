"""Leases: which drain may publish which table, by the database's clock, and into which landing zone.

A worker (a running drain) keeps one heartbeat row. A table's lease names the worker that claimed it last and counts its
claims: the epoch. When a worker's heartbeat has run out, another worker can claim its tables; each durable step that
the former owner still tries then fails, because its epoch is no longer the table's.

A lease also names the database run in which it was claimed (`mirrorgate.database_run()`). A promoted standby, a
restored database and a restarted server are other runs, whose ledger may have gone back. So a lease from another run is
over, for its worker too: the next claim takes a new epoch and compares the ledger with the landing zone (decision
0024).

`known_zone` returns the landing zone, which is stored at the first start of a drain and changed only on request.
Without it, a drain that is given another zone would find no table's folder there and stop every table (decision 0024).

`newest_statement_at` tells whether build tasks still work, which the driver of a stuck Spark cannot know.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import sqlalchemy as sa

from app.domain.model.table import Epoch, FileNumber, Table, TableId
from app.domain.publication import FileLimits, KnownZone
from app.staging.connection.database import translated_errors
from mirrorgate.errors import Code, InvariantBroken

SELECT_NEWEST_STATEMENT = sa.text("""
    SELECT max(query_start) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = :application""")
"""Find when any connection with this application name last sent a statement."""


def newest_statement_at(engine: sa.Engine, application: str) -> datetime | None:
    """Return when a connection with this name last sent a statement, None if there is no such connection.

    The driver of a stuck Spark cannot ask its executors whether they still work (decision 0025). But each build task
    reads its payloads from Postgres, which tells when it last sent a statement.
    """
    with translated_errors(), engine.begin() as connection:
        found: datetime | None = connection.execute(SELECT_NEWEST_STATEMENT, {"application": application}).scalar()
    return found


UPSERT_HEARTBEAT = sa.text("""
    INSERT INTO mirrorgate.workers AS w (worker_id, lease_until, lease_seconds, clock_behind_seconds, waits_for)
    VALUES (:worker_id, clock_timestamp() + make_interval(secs => :seconds), :seconds,
        extract(epoch FROM clock_timestamp()) - CAST(:clock AS float8), :waits_for)
    ON CONFLICT (worker_id) DO UPDATE SET heartbeat_at = clock_timestamp(),
        lease_until = clock_timestamp() + make_interval(secs => :seconds), lease_seconds = :seconds,
        clock_behind_seconds = excluded.clock_behind_seconds, waits_for = excluded.waits_for""")
"""Store that a worker lives, until when its lease lasts, and how it is."""

IS_ALIVE = """(w.lease_until > clock_timestamp() AND w.heartbeat_at <= clock_timestamp() + interval '1 second'
    AND w.lease_until <= clock_timestamp() + interval '1 second' + coalesce(
        make_interval(secs => w.lease_seconds), w.lease_until - w.heartbeat_at))"""
"""Condition on a worker `w`: its lease has not run out.

A lease is honored for its own length from now at most. One that reaches further was written before the database's clock
was set back, and would otherwise keep its tables from all drains for as long as the clock step.
"""

DELETE_WORKER = sa.text("DELETE FROM mirrorgate.workers WHERE worker_id = :worker_id")
"""Delete a worker's heartbeat."""

DELETE_DEAD_WORKERS = sa.text("""
    DELETE FROM mirrorgate.workers WHERE lease_until < clock_timestamp() - interval '1 day'""")
"""Delete the heartbeats of workers that died more than a day ago; their tables are already free."""

COUNT_LIVE_WORKERS = sa.text(f"SELECT count(*) FROM mirrorgate.workers w WHERE {IS_ALIVE}")  # noqa: S608  # constant text
"""Count the workers whose lease has not run out."""

SELECT_OWN_EPOCH = sa.text("""
    SELECT epoch FROM mirrorgate.table_leases
    WHERE table_id = :table_id AND worker_id = :worker_id AND database_run = mirrorgate.database_run()""")
"""Read the epoch of a table that a worker claimed last, in the present run of the database."""

SELECT_DATABASE_RUN = sa.text("SELECT mirrorgate.database_run()")
"""Read the present run of the database."""

INSERT_LEASE = sa.text("""
    INSERT INTO mirrorgate.table_leases (table_id, epoch, worker_id) VALUES (:table_id, 1, :worker_id)
    ON CONFLICT (table_id) DO NOTHING RETURNING epoch""")
"""Claim a table that was never claimed."""

LOCK_LEASE = sa.text("SELECT FROM mirrorgate.table_leases WHERE table_id = :table_id FOR UPDATE")
"""Lock the lease of a table."""

TAKE_LEASE = sa.text(f"""
    UPDATE mirrorgate.table_leases l
    SET epoch = l.epoch + 1, worker_id = :worker_id, database_run = mirrorgate.database_run()
    WHERE l.table_id = :table_id AND (l.worker_id = :worker_id OR NOT EXISTS (
        SELECT FROM mirrorgate.workers w WHERE w.worker_id = l.worker_id AND {IS_ALIVE}))
    RETURNING epoch""")  # noqa: S608  # constant text
"""Claim a table unless another worker that lives has it.

Run it after LOCK_LEASE: a statement that also waits for the lock does not see the heartbeat of the worker that held it.
"""

LOCK_LEASES = sa.text("""
    SELECT table_id, epoch, database_run = mirrorgate.database_run() AS is_of_this_run FROM mirrorgate.table_leases
    WHERE table_id = ANY(:table_ids) ORDER BY table_id FOR UPDATE""")
"""Lock the leases of tables in the order of their ids, and read their epochs and whether the database still runs."""

IS_BACKFILL_DUE: Final = """(t.state NOT IN ('dropping', 'rebuilding', 'dropped') AND EXISTS (
        SELECT FROM mirrorgate.image_backfills i
        WHERE i.table_id = t.table_id AND i.generation = t.generation AND i.state = 'running'))"""
"""Condition on a table `t`: its owner has to carry out a backfill of row images.

A drop ends the need for one without ending the backfill: a drop does not wait for the step that is under way.
"""

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
      AND (t.state IN ('dropping', 'rebuilding') OR t.rebuild_due OR {IS_BACKFILL_DUE}
        OR t.state = 'active' AND (
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
                HAVING sum(b.row_count) >= :rows OR sum(b.payload_bytes) >= :payload_bytes
                    OR sum(b.landed_bytes) >= :landed_bytes))))
    ORDER BY t.rebuild_due OR {IS_BACKFILL_DUE}, abs(oldest.age) DESC NULLS FIRST""")  # noqa: S608  # constant text
"""List the tables that this worker can work on now, oldest batches first, and long work in the background last.

A negative age is due at once, see `is_due` in app.domain.publication.
"""

RELEASE_TABLE = sa.text("""
    UPDATE mirrorgate.table_leases SET worker_id = gen_random_uuid()
    WHERE table_id = :table_id AND worker_id = :worker_id""")
"""Release a table to the next drain that claims it: no drain has the new id."""

RAISE_EPOCH = sa.text("UPDATE mirrorgate.table_leases SET epoch = :epoch WHERE table_id = :table_id")
"""Set the epoch of a table."""

SELECT_REVOKED_THROUGH = sa.text("SELECT revoked_through FROM mirrorgate.table_leases WHERE table_id = :table_id")
"""Read through which epoch the revocation markers of a table are deleted."""

FORGET_EPOCHS = sa.text("""
    UPDATE mirrorgate.table_leases SET revoked_through = greatest(revoked_through, :through)
    WHERE table_id = :table_id""")
"""Store through which epoch the revocation markers of a table are deleted."""

SELECT_HELD = sa.text("""
    SELECT l.table_id, l.epoch, c.recorded_file_number FROM mirrorgate.table_leases l
    JOIN mirrorgate.table_counters c ON c.table_id = l.table_id
    WHERE l.worker_id = :worker_id AND l.database_run = mirrorgate.database_run()""")
"""List the tables that a worker claimed last, in the present run of the database, with their last recorded file."""

SELECT_OWNERS = sa.text(f"""
    SELECT l.table_id, l.worker_id::text FROM mirrorgate.table_leases l
    JOIN mirrorgate.workers w ON w.worker_id = l.worker_id AND {IS_ALIVE}
    WHERE l.table_id = ANY(:table_ids)""")  # noqa: S608  # constant text
"""List the tables that a live worker has a lease on, with the worker."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A table that a worker owns, and the epoch of its claim."""

    table: Table
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class HeldTable:
    """A table that a worker owns, the epoch of its claim, and the last file that is recorded as published."""

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
    """Extend the lease of this worker's tables to `seconds` from now, and store how the worker is.

    `clock` is the worker's own time in seconds since 1970. `waits_for` is the code of what keeps it from publishing
    anything, None while it publishes. A process that dies after this keeps its tables until the lease runs out.
    """
    keys = {"worker_id": worker_id, "seconds": seconds, "clock": clock, "waits_for": waits_for}
    connection.execute(UPSERT_HEARTBEAT, keys)


def give_up_lease(connection: sa.Connection, worker_id: UUID) -> None:
    """Release all tables of this worker to the others at once, and forget workers that died long ago."""
    connection.execute(DELETE_WORKER, {"worker_id": worker_id})
    connection.execute(DELETE_DEAD_WORKERS)


def live_workers(connection: sa.Connection) -> int:
    """Return the number of drains whose lease has not run out."""
    return int(connection.execute(COUNT_LIVE_WORKERS).scalar_one())


def due_tables(connection: sa.Connection, worker_id: UUID, limits: FileLimits) -> list[TableId]:
    """Return the tables that have work and no other live owner.

    Work is a file's worth of pending rows or an old enough row, a flush, a planned file, a marker to rewrite, a seed
    file to create, a file to repair, a folder to drop, row images to rebuild the table from, or rows to give row
    images to.
    """
    keys = {
        "worker_id": worker_id,
        "max_delay": limits.max_delay_seconds,
        "rows": limits.rows,
        "payload_bytes": limits.payload_bytes,
        "landed_bytes": limits.landed_bytes,
    }
    return [TableId(table_id) for table_id in connection.execute(SELECT_DUE, keys).scalars()]


def claim_table(connection: sa.Connection, table_id: TableId, worker_id: UUID, *, held: Epoch | None) -> Epoch | None:
    """Claim a table (W1): return the epoch under which this worker owns it, None while another owner lives.

    The epoch `held` is kept while it is still the table's, in the same run of the database. Otherwise a new epoch
    begins, and the older ones must be revoked (W2) before anything else. A process that dies after the commit has only
    used an epoch number.
    """
    keys = {"table_id": table_id, "worker_id": worker_id}
    if held is not None and connection.execute(SELECT_OWN_EPOCH, keys).scalar() == held:
        return held
    epoch = connection.execute(INSERT_LEASE, keys).scalar()
    if epoch is None:
        connection.execute(LOCK_LEASE, keys)
        epoch = connection.execute(TAKE_LEASE, keys).scalar()
    return None if epoch is None else Epoch(epoch)


def release_table(connection: sa.Connection, table_id: TableId, worker_id: UUID) -> None:
    """Release one table of this worker to the others; the epoch remains until another worker claims it."""
    connection.execute(RELEASE_TABLE, {"table_id": table_id, "worker_id": worker_id})


def is_leased_by(connection: sa.Connection, table_id: TableId, worker_id: UUID) -> bool:
    """Return True if a worker claimed the table last."""
    keys = {"table_id": table_id, "worker_id": worker_id}
    return connection.execute(SELECT_OWN_EPOCH, keys).scalar() is not None


def raise_epoch(connection: sa.Connection, table_id: TableId, epoch: Epoch, *, beyond: Epoch) -> Epoch:
    """Raise the epoch just claimed above `beyond`, the highest one in scratch, and return it (W1 after a restore).

    A process that dies after the commit has only used epoch numbers. Raises InvariantBroken `stale_epoch`.
    """
    check_epoch(connection, table_id, epoch)
    connection.execute(RAISE_EPOCH, {"table_id": table_id, "epoch": beyond + 1})
    return Epoch(beyond + 1)


def revoked_through(connection: sa.Connection, table_id: TableId) -> Epoch:
    """Return the last epoch of which no process lives any more, so that it needs no revocation marker."""
    return Epoch(connection.execute(SELECT_REVOKED_THROUGH, {"table_id": table_id}).scalar_one())


def forget_epochs(connection: sa.Connection, table_id: TableId, epoch: Epoch, *, through: Epoch) -> None:
    """Record that the revocation markers through an epoch are not needed, before they are deleted.

    A process that dies after the commit leaves markers, which the next sweep deletes. Raises InvariantBroken
    `stale_epoch`.
    """
    check_epoch(connection, table_id, epoch)
    connection.execute(FORGET_EPOCHS, {"table_id": table_id, "through": through})


def held_tables(connection: sa.Connection, worker_id: UUID) -> list[HeldTable]:
    """Return the tables whose lease names this worker."""
    rows = connection.execute(SELECT_HELD, {"worker_id": worker_id})
    return [HeldTable(TableId(table_id), Epoch(epoch), FileNumber(recorded)) for table_id, epoch, recorded in rows]


def lease_owners(connection: sa.Connection, table_ids: list[TableId]) -> dict[TableId, str]:
    """Return the id of the drain that has the lease of each of these tables, without tables that no live drain has."""
    rows = connection.execute(SELECT_OWNERS, {"table_ids": table_ids})
    return {TableId(table_id): worker for table_id, worker in rows}


def database_run(connection: sa.Connection) -> str:
    """Return what names the present run of the database; it differs after each event that can set the database back.

    It consists of the database's and a table's place in the server, and the time at which the server started.
    """
    return str(connection.execute(SELECT_DATABASE_RUN).scalar_one())


def check_epoch(connection: sa.Connection, table_id: TableId, epoch: Epoch) -> None:
    """Check that an epoch is the table's, and lock the lease until the transaction ends.

    Raises InvariantBroken `stale_epoch`.
    """
    check_epochs(connection, {table_id: epoch})


def check_epochs(connection: sa.Connection, epochs: Mapping[TableId, Epoch]) -> None:
    """Check the epochs of several tables as `check_epoch` does: all of them, or none."""
    leases = {row.table_id: row for row in connection.execute(LOCK_LEASES, {"table_ids": list(epochs)})}
    for table_id, epoch in epochs.items():
        lease = leases.get(table_id)
        if lease is None or lease.epoch != epoch:
            raise InvariantBroken(Code.STALE_EPOCH, f"epoch {epoch} of table {table_id} is over")
        if not lease.is_of_this_run:
            detail = f"epoch {epoch} of table {table_id} is over: the database was restarted, restored or failed over"
            raise InvariantBroken(Code.STALE_EPOCH, detail)


NO_IDLE_LIMIT = sa.text("SET LOCAL idle_in_transaction_session_timeout = 0")
"""Let this transaction wait for a storage service, or keep its snapshot while others read it."""

LOCK_INSTALLATION = sa.text("SELECT FROM mirrorgate.installation FOR NO KEY UPDATE")
"""Lock the installation, which serializes claims and moves of the zone."""

SELECT_ZONE = sa.text("SELECT zone_id, location FROM mirrorgate.landing_zone")
"""Read the zone."""

SELECT_ZONE_TABLE_EXISTS = sa.text("SELECT to_regclass('mirrorgate.landing_zone') IS NOT NULL")
"""Return True if the database has our schema."""

STORE_ZONE = sa.text("""
    INSERT INTO mirrorgate.landing_zone AS z (zone_id, location) VALUES (:zone_id, :location)
    ON CONFLICT (only_one) DO UPDATE SET zone_id = EXCLUDED.zone_id, location = EXCLUDED.location,
        since = CASE WHEN z.zone_id = EXCLUDED.zone_id THEN z.since ELSE clock_timestamp() END
    WHERE (z.zone_id, z.location) <> (EXCLUDED.zone_id, EXCLUDED.location)""")
"""Store the zone; `since` changes only with the zone's id."""

END_ALL_EPOCHS = sa.text("UPDATE mirrorgate.table_leases SET epoch = epoch + 1")
"""End the epochs of all tables."""


def lock_known_zone(connection: sa.Connection) -> KnownZone | None:
    """Return the stored zone, None before the first drain, and keep others from changing it in this transaction.

    The transaction may then wait for the storage service for as long as that takes.
    """
    connection.execute(NO_IDLE_LIMIT)
    connection.execute(LOCK_INSTALLATION)
    return known_zone(connection)


def known_zone(connection: sa.Connection) -> KnownZone | None:
    """Return the stored zone, None before the first drain."""
    row = connection.execute(SELECT_ZONE).one_or_none()
    return KnownZone(row.zone_id, row.location) if row is not None else None


def present_zone(engine: sa.Engine) -> KnownZone | None:
    """Return the stored zone of any database, including one that is not migrated. Raises TemporarilyUnavailable."""
    with translated_errors(), engine.connect() as connection:
        return known_zone(connection) if connection.execute(SELECT_ZONE_TABLE_EXISTS).scalar_one() else None


def remember_zone(connection: sa.Connection, zone: KnownZone) -> None:
    """Store the zone that drains publish into from now on.

    A process that dies before the commit leaves the former zone.
    """
    connection.execute(STORE_ZONE, {"zone_id": zone.zone_id, "location": zone.location})


def end_all_epochs(connection: sa.Connection) -> None:
    """Make every drain's next durable step fail with `stale_epoch`; each table is then claimed again."""
    connection.execute(END_ALL_EPOCHS)
