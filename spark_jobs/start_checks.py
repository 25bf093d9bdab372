"""What must be right before a drain starts Spark: the database's revision, the landing zone, and their safety."""

import os

from app.checks.preflight import examine, require_safe
from app.errors import Code, Misconfigured, TemporarilyUnavailable
from app.landing.adls.retries import TransientStorageError
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.zone import PathKind
from app.settings import Settings
from app.staging.connection.database import open_engine, pin_marker_position
from app.staging.connection.schema_revision import require_migrated
from app.zone_settings import zone_address


def check_start(settings: Settings) -> None:
    """Check everything that would make publication unsafe or impossible.

    Raise Misconfigured for a database of another revision, a landing zone that cannot be one, and an unsafe setup;
    TemporarilyUnavailable while Postgres or the zone's service is away, which another start may outlive.
    """
    address, database_url = zone_address(settings), settings.require_database_url()
    engine = open_engine(database_url)
    try:
        require_migrated(engine)
        pin_marker_position(engine, marker_first=settings.marker_first)
        _check_landing_zone(address)
    finally:
        engine.dispose()
    require_safe(examine(address, database_url, os.environ), allow_unsafe=settings.allow_unsafe)


def _check_landing_zone(address: ZoneAddress) -> None:
    """Raise Misconfigured `landing_zone_unusable` for a zone that cannot be read or is not a folder."""
    try:
        usable = open_zone(address).kind("") in (PathKind.ABSENT, PathKind.FOLDER)
    except TransientStorageError as error:
        raise TemporarilyUnavailable(Code.NOT_READY, f"landing zone {address.location}: {error}") from error
    except OSError as error:
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"landing zone {address.location}: {error}") from error
    if not usable:
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"landing zone {address.location} is not a folder")
