"""Taking stock of a table folder: which numbers have a file, visible or consumed, and which file that is (W3).

Mirroring moves what it has consumed into two folders beside the files, so a number counts as taken in all three.
"""

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Final
from uuid import UUID

from app.domain.model.landing_file import FileIdentity, PlannedFile, file_name, parse_file_name
from app.domain.model.names import TableName
from app.domain.model.table import FileNumber, Table
from app.errors import Code, InvariantBroken
from app.landing.folder_marker import require_marker
from app.landing.parquet_file import read_identity
from app.landing.zone import LandingZone, PathKind

CONSUMED_FOLDERS: Final = ("_ProcessedFiles", "_FilesReadyToDelete")
"""Where mirroring moves files that it has consumed, in the order of the moves."""

_HASHED_AT_ONCE: Final = 1 << 20


class LandedState(StrEnum):
    """What stands, or stood until mirroring consumed it, under a planned file's number."""

    ABSENT = "absent"
    OURS = "ours"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Size and SHA-256 (hex) of a file as it is in the landing zone."""

    file_bytes: int
    sha256: str


def verify_landed(zone: LandingZone, name: TableName, planned: PlannedFile) -> LandedState:
    """W3: whether the planned file is or was visible under its number, by the identity in its footer.

    Raises OSError when the store fails or mirroring moves the file just now: then it must be looked at again.
    """
    found = find_file(zone, name, planned.identity.number)
    if found is None:
        return LandedState.ABSENT
    return LandedState.OURS if _identity(zone, *found) == planned.identity else LandedState.FOREIGN


def is_landed(zone: LandingZone, name: TableName, planned: PlannedFile) -> bool:
    """Whether the planned file is or was visible; durable if so. Raises InvariantBroken `foreign_file`."""
    state = verify_landed(zone, name, planned)
    if state is LandedState.FOREIGN:
        raise InvariantBroken(Code.FOREIGN_FILE, f"another file has number {planned.identity.number}")
    if state is LandedState.ABSENT:
        return False
    zone.make_durable(f"{name.folder}/{file_name(planned.identity.number)}")
    return True


def recover_visible_file(
    zone: LandingZone, table: Table, installation_id: UUID, unrecorded: PlannedFile | None
) -> bool:
    """W3: whether the last owner made the first unrecorded file visible, so that it is only to be recorded.

    What is found standing is durable when this returns. Raises InvariantBroken `foreign_file` for another file
    under the number, `landing_folder_lost` for a file in another gateway's folder.
    """
    folder = table.name.folder
    if zone.kind(folder) is PathKind.FOLDER:
        zone.make_durable(folder)
    if unrecorded is None or not is_landed(zone, table.name, unrecorded):
        return False
    require_marker(zone, table, installation_id)
    return True


def numbers_beyond(zone: LandingZone, name: TableName, recorded: FileNumber) -> list[FileNumber]:
    """Numbers after the last recorded one that have a file, visible or consumed, in order.

    It costs one listing of each of the three folders that exist. Raises InvariantBroken `foreign_file` for something
    in the table folder that is neither a file nor a folder: nobody may ever open it.
    """
    found: set[FileNumber] = set()
    for folder in file_folders(zone, name):
        for entry, kind in zone.kinds(folder).items():
            if kind is PathKind.SPECIAL:
                raise InvariantBroken(Code.FOREIGN_FILE, f"{folder}/{entry} is neither a file nor a folder")
            number = parse_file_name(entry)
            if number is not None and number > recorded:
                found.add(number)
    return sorted(found)


def file_folders(zone: LandingZone, name: TableName) -> Iterator[str]:
    """The table folder, then where mirroring moves files: a file that is moved meanwhile is seen at least once."""
    yield name.folder
    for processed in CONSUMED_FOLDERS:
        yield f"{name.folder}/{processed}"


def find_file(zone: LandingZone, name: TableName, number: FileNumber) -> tuple[str, PathKind] | None:
    """The path of what stands under a number, visible or consumed, and what it is."""
    for folder in file_folders(zone, name):
        path = f"{folder}/{file_name(number)}"
        kind = zone.kind(path)
        if kind is not PathKind.ABSENT:
            return path, kind
    return None


def identity_at_number(zone: LandingZone, name: TableName, number: FileNumber) -> FileIdentity | None:
    """The identity of the file under a number; None where there is none, or none that a gateway made."""
    found = find_file(zone, name, number)
    return None if found is None else _identity(zone, *found)


def facts_at_number(zone: LandingZone, name: TableName, number: FileNumber) -> FileFacts:
    """Size and digest of the file under a number. Raises FileNotFoundError where there is none, or not for now."""
    found = find_file(zone, name, number)
    if found is None:
        raise FileNotFoundError(f"{name.folder}/{file_name(number)}")
    return facts_at(zone, found[0])


def difference(zone: LandingZone, path: str, file_bytes: int | None, sha256: str | None) -> str | None:
    """How a file differs from what the ledger says of it; None when it does not. Its size is looked at first."""
    if zone.kind(path) is not PathKind.FILE:
        return "it is not a file"
    with zone.read_file(path) as file:
        size = file.seek(0, io.SEEK_END)
        if size != file_bytes:
            return f"it has {size} bytes instead of {file_bytes}"
        file.seek(0)
        return None if _facts(file).sha256 == sha256 else "its SHA-256 differs"


def facts_at(zone: LandingZone, path: str) -> FileFacts:
    """Size and digest of a file, by reading all of it. Raises OSError, FileNotFoundError when it is moved just now."""
    with zone.read_file(path) as file:
        return _facts(file)


def _identity(zone: LandingZone, path: str, kind: PathKind) -> FileIdentity | None:
    if kind is not PathKind.FILE:
        return None
    with zone.read_file(path) as file:
        return read_identity(file)


def _facts(file: BinaryIO) -> FileFacts:
    digest, size = hashlib.sha256(), 0
    while block := file.read(_HASHED_AT_ONCE):
        digest.update(block)
        size += len(block)
    return FileFacts(size, digest.hexdigest())
