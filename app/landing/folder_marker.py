"""`_gateway.json` in a table folder: the table, generation and gateway that the folder belongs to.

Invariant: the drain publishes into, repairs in and deletes only a folder whose marker names its own table.
"""

from typing import Final
from uuid import UUID

import msgspec

from app.domain.model.table import Table
from app.errors import Code, InvariantBroken
from app.landing.zone import LandingZone, PathKind

MARKER: Final = "_gateway.json"


class FolderMarker(msgspec.Struct, frozen=True):
    """The content of a folder marker."""

    table: str
    generation: int
    installation_id: str

    @classmethod
    def of(cls, table: Table, installation_id: UUID) -> "FolderMarker":
        """Return the marker of the table's present generation."""
        return cls(str(table.name), table.generation, str(installation_id))

    def content(self) -> bytes:
        """Return the file's bytes."""
        return msgspec.json.encode(self)


def require_marker(zone: LandingZone, table: Table, installation_id: UUID) -> None:
    """Raise InvariantBroken `landing_folder_lost`, with the difference, unless the folder is this generation's."""
    mismatch = marker_mismatch(zone, table, installation_id)
    if mismatch is not None:
        raise InvariantBroken(Code.LANDING_FOLDER_LOST, mismatch)


def marker_mismatch(zone: LandingZone, table: Table, installation_id: UUID) -> str | None:
    """Return what is wrong with the marker of the table's folder, None if it is right."""
    expected = FolderMarker.of(table, installation_id)
    folder = table.name.folder
    found = read_marker(zone, folder)
    if found == expected:
        return None
    if isinstance(found, str):
        return found
    return (
        f"folder {folder} belongs to generation {found.generation} of table {found.table} of installation"
        f" {found.installation_id}, not to generation {expected.generation} of table {expected.table} of installation"
        f" {expected.installation_id}"
    )


def read_marker(zone: LandingZone, folder: str) -> FolderMarker | str:
    """Return the marker of a folder, or the reason why none can be read."""
    path = f"{folder}/{MARKER}"
    kind = zone.kind(path)
    if kind is PathKind.ABSENT:
        if zone.kind(folder) is not PathKind.FOLDER:
            return f"folder {folder} is gone"
        return f"folder {folder} has no {MARKER}"
    if kind is not PathKind.FILE:
        return f"{path} is not a file"
    with zone.read_file(path) as file:
        content = file.read()
    try:
        return msgspec.json.decode(content, type=FolderMarker)
    except msgspec.DecodeError:
        return f"{path} is damaged: it cannot be read as JSON that names a table, its generation and its gateway"


def is_marker_damaged(zone: LandingZone, folder: str) -> bool:
    """Return whether the folder exists and its marker is missing or unreadable."""
    return zone.kind(folder) is PathKind.FOLDER and isinstance(read_marker(zone, folder), str)
