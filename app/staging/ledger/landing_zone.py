"""The landing zone that this database publishes into: stored at the first start of a drain, changed only on request.

Without it, a drain that is given another zone would find no table's folder there and stop every table (decision 0024).
"""

import sqlalchemy as sa

from app.domain.publication import KnownZone
from app.staging.connection.database import translated_errors

NO_IDLE_LIMIT = sa.text("SET LOCAL idle_in_transaction_session_timeout = 0")
"""Let this transaction wait for a storage service."""

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
