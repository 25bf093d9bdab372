"""Checks at run time that the landing zone is present and still the claimed one.

A lost mount leaves an empty folder in its place. A drain that took it for the zone would publish files that Fabric
never sees, and would quarantine every table whose folder seems to be gone.
"""

import time
from collections.abc import Callable
from uuid import UUID

from app.domain.publication.landing_zone import KnownZone
from app.errors import Code, Kind, MirrorgateError, StorageError, TemporarilyUnavailable
from app.landing.zone import LandingZone
from app.landing.zone_owner import ZONE_MARKER, read_zone_marker


class ClaimedZone:
    """The landing zone that this process has claimed. Threads share it."""

    def __init__(
        self,
        zone: LandingZone,
        known: KnownZone,
        installation_id: UUID,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.known = known
        self._zone = zone
        self._installation_id = installation_id
        self._clock = clock
        self._seen_at: float | None = None

    def require(self, *, within: float = 0.0) -> None:
        """Raise TemporarilyUnavailable `landing_zone_away` unless the zone is present, or was `within` these seconds.

        A storage service that does not give access has codes of its own, such as `storage_credential`.
        Call it before a step that shows or deletes something, and again before a conclusion from something missing.
        """
        now = self._clock()
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
            marker = read_zone_marker(self._zone, self.known.location)
        except MirrorgateError as error:
            return error.detail
        except StorageError:
            raise
        except OSError as error:
            return f"it cannot be read: {error}"
        if marker is None:
            return f"{ZONE_MARKER} is missing: the zone is gone, or not mounted"
        if (marker.installation_id, marker.zone_id) != (self._installation_id, self.known.zone_id):
            found = f"zone {marker.zone_id} of installation {marker.installation_id}"
            return f"{ZONE_MARKER} names {found}: it is another zone"
        return None


def unavailable_zone(error: OSError, location: str) -> TemporarilyUnavailable:
    """Return the error for a zone that cannot be read, with the code of the storage service's answer if it has one."""
    meaning = error.meaning if isinstance(error, StorageError) else Code.LANDING_ZONE_AWAY
    code = meaning if meaning.kind is Kind.UNAVAILABLE else Code.LANDING_ZONE_AWAY
    return TemporarilyUnavailable(code, f"landing zone {location}: it cannot be read: {error}")
