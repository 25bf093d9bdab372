"""The bond between a database and its landing zone: claim the zone, check both, move to another zone.

The zone names its gateway and itself in `_scratchPad/_gateway.json`, and the database remembers the zone's id. The row
lock of the installation keeps two drains of one database from claiming different zones at the same moment.
"""

from app.domain.preflight import Seen
from app.domain.publication import KnownZone
from app.landing.adls.retries import TransientStorageError
from app.landing.open_zone import ZoneAddress
from app.landing.zone import ScratchRevoked
from app.landing.zone_owner import check_owner, claim_zone
from app.staging.connection.database import Engine, installation_id, translated_errors
from app.staging.connection.schema_revision import present_installation
from app.staging.ledger.leases import end_all_epochs, known_zone, lock_known_zone, present_zone, remember_zone
from app.staging.ledger.reports import forget_former_zone
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, StorageError, TemporarilyUnavailable


def claim_landing_zone(engine: Engine, address: ZoneAddress) -> KnownZone:
    """Claim the zone for this database and remember its id and address; return them.

    A process that dies inside leaves a zone that names this gateway, which the next start remembers. Raise
    Misconfigured `landing_zone_taken`, `landing_zone_changed`, or `landing_zone_unusable` if it cannot be written.
    """
    with translated_errors(), engine.begin() as connection:
        owner, known = installation_id(connection), known_zone(connection)
    try:
        if known is not None:  # checked without the lock, so that drains that start together do not wait for each other
            zone = claim_zone(address, owner, known)
            if zone != known:
                with translated_errors(), engine.begin() as connection:
                    remember_zone(connection, zone)
            return zone
        with translated_errors(), engine.begin() as connection:
            zone = claim_zone(address, owner, lock_known_zone(connection))
            remember_zone(connection, zone)
    except (OSError, ScratchRevoked) as error:
        raise _unusable(address, error) from error
    return zone


def move_landing_zone(engine: Engine, address: ZoneAddress) -> tuple[KnownZone | None, KnownZone]:
    """Publish into another zone from now on; return the former and the new one. Safe to repeat.

    Every epoch ends, so a drain that still runs on the former zone records nothing more. What Fabric said of the former
    zone's database and tables is forgotten. A process that dies inside
    leaves a zone that names this gateway, and everything else as it was. Raise as `claim_landing_zone` does.
    """
    try:
        with translated_errors(), engine.begin() as connection:
            former = lock_known_zone(connection)
            zone = claim_zone(address, installation_id(connection))
            remember_zone(connection, zone)
            if former is not None and former.zone_id != zone.zone_id:
                end_all_epochs(connection)
                forget_former_zone(connection)
    except (OSError, ScratchRevoked) as error:
        raise _unusable(address, error) from error
    return former, zone


def check_zone_owner(engine: Engine, address: ZoneAddress) -> list[Seen]:
    """Check whether database and landing zone belong together. Raise Misconfigured, TemporarilyUnavailable, OSError."""
    return check_owner(address, present_installation(engine), present_zone(engine))


def _unusable(address: ZoneAddress, error: Exception) -> MirrorgateError:
    detail = f"landing zone {address.location}: {error}"
    meaning = error.meaning if isinstance(error, StorageError) else Code.STORAGE_FAILED
    remedy = meaning.remedy if meaning is not Code.STORAGE_FAILED else None
    if isinstance(error, TransientStorageError):  # its service is unreachable, and may be back at the next start
        return TemporarilyUnavailable(Code.NOT_READY, detail, remedy=remedy)
    return Misconfigured(Code.LANDING_ZONE_UNUSABLE, detail, remedy=remedy)
