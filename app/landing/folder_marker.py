"""`_gateway.json` in a table folder: which generation of which table of which gateway the folder belongs to.

Invariant: nothing is published into, repaired in or deleted with a folder whose marker names anybody else.
"""

from typing import Final
from uuid import UUID

import msgspec

from app.domain.model.table import Table
from app.errors import Code, InvariantBroken
from app.landing.zone import LandingZone, PathKind

MARKER: Final = "_gateway.json"


class FolderMarker(msgspec.Struct, frozen=True):
    """The file's content."""

    table: str
    generation: int
    installation_id: str

    @classmethod
    def of(cls, table: Table, installation_id: UUID) -> "FolderMarker":
        return cls(str(table.name), table.generation, str(installation_id))

    def content(self) -> bytes:
        return msgspec.json.encode(self)


def require_marker(zone: LandingZone, table: Table, installation_id: UUID) -> None:
    """Raise InvariantBroken `landing_folder_lost`, saying how it differs, unless the folder is this generation's."""
    instead = marker_mismatch(zone, table, installation_id)
    if instead is not None:
        raise InvariantBroken(Code.LANDING_FOLDER_LOST, instead)


def marker_mismatch(zone: LandingZone, table: Table, installation_id: UUID) -> str | None:
    """Return what is wrong with the marker of the table's folder; None when it is right."""
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
    """Return the marker of a folder, or why there is none that can be read."""
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
    """Whether a table folder exists whose marker is missing or names nobody."""
    return zone.kind(folder) is PathKind.FOLDER and isinstance(read_marker(zone, folder), str)
