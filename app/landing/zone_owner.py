"""The owner of a landing zone: `_scratchPad/_gateway.json` names the zone and its installation.

`claim_zone` claims a zone for one installation. Gateways with different databases each count their tables from 1. In
one landing zone they would take each other's scratch for a former owner's and revoke it repeatedly, and neither would
publish anything. The zone's id tells it from an empty folder in its place, such as a mount point without its mount.

`ClaimedZone` checks at run time that the landing zone is present and still the claimed one.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

import msgspec

from app.domain.preflight import Seen, ZoneCheck
from app.domain.publication import KnownZone
from app.landing.landed_state import MARKER
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.publish import SCRATCH
from app.landing.zone import LandingZone, PathKind, RenameOutcome
from mirrorgate.errors import Code, Kind, MirrorgateError, Misconfigured, StorageError, TemporarilyUnavailable

ZONE_MARKER: Final = f"{SCRATCH}/{MARKER}"


class ZoneMarker(msgspec.Struct, frozen=True):
    """The content of a zone's marker; one from before zones had ids has no zone id."""

    installation_id: UUID
    zone_id: UUID | None = None


_MARKER_DECODER: Final = msgspec.json.Decoder(ZoneMarker)


def check_owner(address: ZoneAddress, installation_id: UUID | None, known: KnownZone | None = None) -> list[Seen]:
    """Check whether the zone is this installation's, or free, and whether it is the one that its database remembers.

    An installation id of None is a database without one. Raise Misconfigured `landing_zone_taken` for a marker that
    cannot be read, and OSError.
    """
    marker = read_zone_marker(open_zone(address), address.location)
    foreign = marker is not None and marker.installation_id != installation_id
    owner = Seen(ZoneCheck.OWNER, _whose(address, marker, installation_id) if foreign else None)
    other = known is not None and not foreign and _is_other(marker, known)
    return [owner, Seen(ZoneCheck.KNOWN, _differs(address, marker, known) if known is not None and other else None)]


def claim_zone(
    address: ZoneAddress, installation_id: UUID, known: KnownZone | None = None, *, former: KnownZone | None = None
) -> KnownZone:
    """Claim the zone for this installation; safe to repeat, by one process of an installation at a time.

    A copy of the `former` zone, or that zone at another address, gets a new id, by which a drain on the former zone
    notices the move. Invariant: a database never publishes into two zones with one id.

    The marker appears whole, and never replaces another one if the store obeys rename conditions; if it does not, two
    gateways that claim at the same moment may both continue until the next start. A process that dies inside leaves at
    most a file in scratch, which a sweep deletes. Raise Misconfigured `landing_zone_taken` for another's zone,
    `landing_zone_changed` for one that is not the known one, OSError, ScratchRevoked.
    """
    zone = open_zone(address)
    marker = read_zone_marker(zone, address.location)
    if marker is not None and marker.installation_id != installation_id:
        raise _taken(_whose(address, marker, installation_id))
    if known is not None and _is_other(marker, known):
        raise Misconfigured(Code.LANDING_ZONE_CHANGED, _differs(address, marker, known))
    is_copy = former is not None and not _is_other(marker, former) and address.location != former.location
    if marker is None or marker.zone_id is None or is_copy:
        marker = _write(zone, ZoneMarker(installation_id, uuid4()), new=marker is None, location=address.location)
    if marker.installation_id != installation_id or marker.zone_id is None:
        raise _taken(_whose(address, marker, installation_id))
    return KnownZone(marker.zone_id, address.location)


def read_zone_marker(zone: LandingZone, location: str) -> ZoneMarker | None:
    """Return the zone's marker, None if there is none. Raise Misconfigured `landing_zone_taken`, OSError."""
    kind = zone.kind(ZONE_MARKER)
    if kind is PathKind.ABSENT:
        return None
    content = b""
    if kind is PathKind.FILE:
        with zone.read_file(ZONE_MARKER) as file:
            content = file.read()
    try:
        return _MARKER_DECODER.decode(content)
    except msgspec.DecodeError:
        raise _taken(f"{ZONE_MARKER} in landing zone {location} names no installation") from None


def _write(zone: LandingZone, marker: ZoneMarker, *, new: bool, location: str) -> ZoneMarker:
    """Write a new marker, or replace the one that is there; return the marker that is there afterwards."""
    prepared = f"{SCRATCH}/gateway-{uuid4()}"
    zone.create_folder(SCRATCH)
    zone.create_file(prepared, msgspec.json.encode(marker))
    if not new:
        zone.replace_file(prepared, ZONE_MARKER)
    elif zone.rename(prepared, ZONE_MARKER) is RenameOutcome.SOURCE_MISSING:
        raise FileNotFoundError(prepared)
    written = read_zone_marker(zone, location)
    if written is None:
        raise FileNotFoundError(ZONE_MARKER)
    return written


def _is_other(marker: ZoneMarker | None, known: KnownZone) -> bool:
    return marker is None or marker.zone_id != known.zone_id


def _differs(address: ZoneAddress, marker: ZoneMarker | None, known: KnownZone) -> str:
    found = f"it has no {ZONE_MARKER}" if marker is None else f"its {ZONE_MARKER} names zone {marker.zone_id}"
    return f"landing zone {address.location} is not the one that this database publishes into, {known}: {found}"


def _whose(address: ZoneAddress, marker: ZoneMarker | None, installation_id: UUID | None) -> str:
    owner = None if marker is None else marker.installation_id
    own = "this database is none" if installation_id is None else f"this database is installation {installation_id}"
    return (
        f"landing zone {address.location} belongs to another gateway: {ZONE_MARKER} names installation {owner}, {own}"
    )


def _taken(detail: str) -> Misconfigured:
    return Misconfigured(Code.LANDING_ZONE_TAKEN, detail)


@dataclass
class ClaimedZone:
    """The landing zone that this process has claimed. Threads share it.

    A lost mount leaves an empty folder in the place of the zone. A drain that took it for the zone would publish files
    that Fabric never sees, and would quarantine every table whose folder seems to be gone.
    """

    zone: LandingZone
    known: KnownZone
    installation_id: UUID
    clock: Callable[[], float] = time.monotonic
    _seen_at: float | None = None

    def require(self, *, within: float = 0.0) -> None:
        """Raise TemporarilyUnavailable `landing_zone_away` unless the zone is present, or was `within` these seconds.

        Raises a storage code, such as `storage_credential`, if the storage service denies access.
        Call it before a step that shows or deletes something, and again before a conclusion from something missing.
        """
        now = self.clock()
        if self._seen_at is not None and now - self._seen_at < within:
            return
        self._seen_at = None
        try:
            problem = self._problem()
        except StorageError as error:  # the service says whose fault it is; nothing has to be mounted
            raise unavailable_zone(error, self.known.location) from error
        if problem is not None:
            raise TemporarilyUnavailable(Code.LANDING_ZONE_AWAY, f"landing zone {self.known.location}: {problem}")
        self._seen_at = now

    def _problem(self) -> str | None:
        try:
            marker = read_zone_marker(self.zone, self.known.location)
        except MirrorgateError as error:
            return error.detail
        except StorageError:
            raise
        except OSError as error:
            return f"it cannot be read: {error}"
        if marker is None:
            return f"{ZONE_MARKER} is missing: the zone is gone, or not mounted"
        if (marker.installation_id, marker.zone_id) != (self.installation_id, self.known.zone_id):
            found = f"zone {marker.zone_id} of installation {marker.installation_id}"
            return f"{ZONE_MARKER} names {found}: it is another zone"
        return None


def unavailable_zone(error: OSError, location: str) -> TemporarilyUnavailable:
    """Return the error for a zone that cannot be read, with the code of the storage service's answer if it has one."""
    meaning = error.meaning if isinstance(error, StorageError) else Code.LANDING_ZONE_AWAY
    code = meaning if meaning.kind is Kind.UNAVAILABLE else Code.LANDING_ZONE_AWAY
    return TemporarilyUnavailable(code, f"landing zone {location}: it cannot be read: {error}")
