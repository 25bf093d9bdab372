"""The landing zone that this database publishes into: remembered at the first start of a drain, moved only on request.

Without it a drain that is given another zone would find no folder of any table there, and stop them all.
"""

import sqlalchemy as sa

from app.domain.publication.landing_zone import KnownZone
from app.staging.connection.database import translated_errors

LOCK_INSTALLATION = sa.text("SELECT FROM mirrorgate.installation FOR NO KEY UPDATE")

SELECT_ZONE = sa.text("SELECT zone_id, location FROM mirrorgate.landing_zone")

SELECT_HAS_ZONES = sa.text("SELECT to_regclass('mirrorgate.landing_zone') IS NOT NULL")

REMEMBER_ZONE = sa.text("""
    INSERT INTO mirrorgate.landing_zone AS z (zone_id, location) VALUES (:zone_id, :location)
    ON CONFLICT (only_one) DO UPDATE SET zone_id = EXCLUDED.zone_id, location = EXCLUDED.location,
        since = CASE WHEN z.zone_id = EXCLUDED.zone_id THEN z.since ELSE clock_timestamp() END
    WHERE (z.zone_id, z.location) <> (EXCLUDED.zone_id, EXCLUDED.location)""")

END_ALL_EPOCHS = sa.text("UPDATE mirrorgate.table_leases SET epoch = epoch + 1")


def lock_known_zone(connection: sa.Connection) -> KnownZone | None:
    """The remembered zone, None before the first drain; nobody else claims or moves it until the transaction ends."""
    connection.execute(LOCK_INSTALLATION)
    return known_zone(connection)


def known_zone(connection: sa.Connection) -> KnownZone | None:
    """The remembered zone, None before the first drain."""
    row = connection.execute(SELECT_ZONE).one_or_none()
    return KnownZone(row.zone_id, row.location) if row is not None else None


def present_zone(engine: sa.Engine) -> KnownZone | None:
    """The remembered zone of any database, also of one that is not migrated. Raises TemporarilyUnavailable."""
    with translated_errors(), engine.connect() as connection:
        return known_zone(connection) if connection.execute(SELECT_HAS_ZONES).scalar_one() else None


def remember_zone(connection: sa.Connection, zone: KnownZone) -> None:
    """Publish into this zone from now on."""
    connection.execute(REMEMBER_ZONE, {"zone_id": zone.zone_id, "location": zone.location})


def end_all_epochs(connection: sa.Connection) -> None:
    """Stop every drain at its next durable step; each table is then taken over anew."""
    connection.execute(END_ALL_EPOCHS)
