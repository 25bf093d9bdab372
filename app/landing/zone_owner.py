"""Which gateway a landing zone belongs to: `_scratchPad/_gateway.json` names its installation.

Gateways with databases of their own count their tables from 1 each. In one landing zone they would take each other's
scratch for that of a former owner and revoke it again and again, and neither would publish anything.
"""

from typing import Final
from uuid import UUID, uuid4

import msgspec

from app.domain.zone_findings import Seen, ZoneCheck
from app.errors import Code, Misconfigured
from app.landing.folder_marker import MARKER
from app.landing.open_zone import ZonePlace, open_zone
from app.landing.publish import SCRATCH
from app.landing.zone import LandingZone, PathKind, RenameOutcome

OWNER: Final = f"{SCRATCH}/{MARKER}"


class ZoneMarker(msgspec.Struct, frozen=True):
    """The file's content."""

    installation_id: UUID


def look_at_owner(place: ZonePlace, installation_id: UUID | None) -> Seen:
    """Whether the landing zone is this installation's, or nobody's yet; None is a database without one.

    Raises Misconfigured `landing_zone_taken` for a marker that cannot be read, and OSError.
    """
    owner = _owner(open_zone(place), place)
    return Seen(ZoneCheck.OWNER, None if owner in (None, installation_id) else _whose(place, owner, installation_id))


def claim_zone(place: ZonePlace, installation_id: UUID) -> None:
    """Make the landing zone this installation's; safe to repeat, and by several drains of it at once.

    The marker appears whole, and never takes the place of another where the store keeps to rename conditions; where it
    does not, two that come at the same moment may both go on until the next start. A process that dies inside leaves
    at most a file in scratch that is swept. Raises Misconfigured `landing_zone_taken` for another's zone, OSError,
    ScratchRevoked.
    """
    zone = open_zone(place)
    if _owner(zone, place) is None:
        prepared = f"{SCRATCH}/gateway-{uuid4()}"
        zone.create_folder(SCRATCH)
        zone.create_file(prepared, msgspec.json.encode(ZoneMarker(installation_id)))
        if zone.rename(prepared, OWNER) is RenameOutcome.SOURCE_MISSING:
            raise FileNotFoundError(prepared)
    owner = _owner(zone, place)
    if owner != installation_id:
        raise _taken(_whose(place, owner, installation_id))


def _owner(zone: LandingZone, place: ZonePlace) -> UUID | None:
    if zone.kind(OWNER) is PathKind.ABSENT:
        return None
    with zone.read_file(OWNER) as file:
        content = file.read()
    try:
        return msgspec.json.decode(content, type=ZoneMarker).installation_id
    except msgspec.DecodeError:
        raise _taken(f"{OWNER} in landing zone {place.location} names no installation") from None


def _whose(place: ZonePlace, owner: UUID | None, installation_id: UUID | None) -> str:
    own = "this database is none" if installation_id is None else f"this database is installation {installation_id}"
    return f"landing zone {place.location} belongs to another gateway: {OWNER} names installation {owner}, {own}"


def _taken(detail: str) -> Misconfigured:
    return Misconfigured(Code.LANDING_ZONE_TAKEN, detail)
