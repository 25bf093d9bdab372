"""The identity of the landing zone that a database publishes into."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class KnownZone:
    """A landing zone as Postgres records it: its own id, and the address under which it was last used."""

    zone_id: UUID
    location: str

    def __str__(self) -> str:
        return f"zone {self.zone_id} at {self.location}"
