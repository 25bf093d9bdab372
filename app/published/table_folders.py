"""The tables of a landing zone: each folder of its root, and each folder of a `<name>.schema` folder."""

from dataclasses import dataclass
from typing import Final

from app.landing.zone import LandingZone, PathKind

SCHEMA_SUFFIX: Final = ".schema"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table folder. Names are as the publisher wrote them, so they can have blanks, dots or be very long."""

    schema: str | None
    name: str
    folder: str
    """Path below the zone's root."""

    def __str__(self) -> str:
        """Return `schema.name`, or `name` for a table without a schema."""
        return f"{self.schema}.{self.name}" if self.schema else self.name

    @classmethod
    def at(cls, folder: str) -> "PublishedTable":
        """Return the table of a folder, given as its path below the zone's root."""
        parent, _, name = folder.rpartition("/")
        return cls(parent.removesuffix(SCHEMA_SUFFIX) if parent else None, name, folder)


def list_tables(zone: LandingZone) -> list[PublishedTable]:
    """Return the tables of a zone, sorted by folder. Raise OSError if the store fails.

    Names that start with `_` or `.` are not tables: mirroring ignores the first, and the others are hidden.
    """
    found: list[PublishedTable] = []
    for folder in _folders(zone, ""):
        if folder.lower().endswith(SCHEMA_SUFFIX) and len(folder) > len(SCHEMA_SUFFIX):
            schema = folder[: -len(SCHEMA_SUFFIX)]
            found += [PublishedTable(schema, name, f"{folder}/{name}") for name in _folders(zone, folder)]
        else:
            found.append(PublishedTable(None, folder, folder))
    return sorted(found, key=lambda table: table.folder)


def _folders(zone: LandingZone, parent: str) -> list[str]:
    kinds = zone.kinds(parent)
    return sorted(name for name, kind in kinds.items() if kind is PathKind.FOLDER and not name.startswith(("_", ".")))
