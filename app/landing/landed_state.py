"""The state of a table folder: whose it is, which numbers have a file, visible or consumed, and which file that is.

`verify_landed` and `recover_visible_file` give W3 its view of the folder. Fabric moves consumed files into two folders
below the table folder, so a number counts as used in all three.

`FolderMarker` is the content of `_gateway.json` in a table folder: the table, generation and gateway that the folder
belongs to. Invariant: the drain publishes into, repairs in and deletes only a folder whose marker names its own table.
"""

import hashlib
import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Final
from uuid import UUID

import msgspec

from app.domain.model.landing_file import FileIdentity, PlannedFile, file_name, parse_file_name
from app.domain.model.names import TableName
from app.domain.model.table import FileNumber, Generation, Table
from app.landing.parquet_file import read_identity
from app.landing.zone import LandingZone, PathKind
from mirrorgate.errors import Code, InvariantBroken

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


_MARKER_DECODER: Final = msgspec.json.Decoder(FolderMarker)


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
        return _MARKER_DECODER.decode(content)
    except msgspec.DecodeError:
        return f"{path} is damaged: it cannot be read as JSON that names a table, its generation and its gateway"


def is_marker_damaged(zone: LandingZone, folder: str) -> bool:
    """Return whether the folder exists and its marker is missing or unreadable."""
    return zone.kind(folder) is PathKind.FOLDER and isinstance(read_marker(zone, folder), str)


CONSUMED_FOLDERS: Final = ("_ProcessedFiles", "_FilesReadyToDelete")
"""Folders to which Fabric moves files that it has consumed, in the order of the moves."""

_BLOCK_BYTES: Final = 1 << 20
_MAX_NUMBERS_SHOWN: Final = 10


class LandedState(StrEnum):
    """File under a planned file's number, or the one that was there until Fabric consumed it."""

    ABSENT = "absent"
    OURS = "ours"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """Size and SHA-256 (hex) of a file as it is in the landing zone."""

    file_bytes: int
    sha256: str


def verify_landed(zone: LandingZone, name: TableName, planned: PlannedFile) -> LandedState:
    """Return whether the planned file is or was visible under its number, by the identity in its footer (W3).

    Raise OSError if the store fails or Fabric moves the file meanwhile: then the caller must verify again.
    """
    found = find_file(zone, name, planned.identity.number)
    if found is None:
        return LandedState.ABSENT
    return LandedState.OURS if _identity(zone, *found) == planned.identity else LandedState.FOREIGN


def is_landed(zone: LandingZone, name: TableName, planned: PlannedFile) -> bool:
    """Return whether the planned file is or was visible, and make it durable.

    Raise InvariantBroken `foreign_file`, or `ledger_behind_zone` for another file of this table.
    """
    return _is_ours(zone, name, planned, verify_landed(zone, name, planned))


def _is_ours(zone: LandingZone, name: TableName, planned: PlannedFile, state: LandedState) -> bool:
    if state is LandedState.FOREIGN:
        recorded = FileNumber(planned.identity.number - 1)
        raise unknown_files(zone, name, planned.identity.generation, recorded, numbers_beyond(zone, name, recorded))
    if state is LandedState.ABSENT:
        return False
    zone.make_durable(f"{name.folder}/{file_name(planned.identity.number)}")
    return True


def recover_visible_file(
    zone: LandingZone, table: Table, installation_id: UUID, unrecorded: PlannedFile | None
) -> bool:
    """Return whether the last owner made the first unrecorded file visible, so that only W8 is left (W3).

    A visible file is durable when this returns. Safe to repeat after a crash. Raise InvariantBroken
    `landing_folder_lost` for a file in another gateway's folder; for another file under the number `foreign_file`, or
    `ledger_behind_zone` if it is this table's.
    """
    folder = table.name.folder
    if zone.kind(folder) is PathKind.FOLDER:
        zone.make_durable(folder)
    state = LandedState.ABSENT if unrecorded is None else verify_landed(zone, table.name, unrecorded)
    if unrecorded is None or state is LandedState.ABSENT:
        return False
    require_marker(zone, table, installation_id)
    return _is_ours(zone, table.name, unrecorded, state)


def numbers_beyond(zone: LandingZone, name: TableName, recorded: FileNumber) -> list[FileNumber]:
    """Return the numbers after the last recorded one that have a file, visible or consumed, in order.

    This costs one listing of each of the three folders. Raise InvariantBroken `foreign_file` for an entry that is
    neither a file nor a folder: it must never be opened.
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


def require_last_files(zone: LandingZone, name: TableName, last: FileNumber, repaired: Collection[FileNumber]) -> None:
    """Raise InvariantBroken `last_file_missing` if the last recorded files are gone, unless all are being repaired.

    Fabric moves files in their order and leaves the last one (docs/contribute/publication-protocol.md), so someone else
    has deleted what is missing behind the newest file that is there.
    """
    there = max((number for number in numbers_beyond(zone, name, FileNumber(0)) if number <= last), default=last - 1)
    gone = [FileNumber(number) for number in range(there + 1, last + 1) if number not in repaired]
    if gone:
        raise InvariantBroken(Code.LAST_FILE_MISSING, f"gone from {name.folder}, not moved by Fabric: {_shown(gone)}")


def unknown_files(
    zone: LandingZone, name: TableName, generation: Generation, recorded: FileNumber, ahead: list[FileNumber]
) -> InvariantBroken:
    """Return the error for files after the last recorded one that the ledger does not know, in a folder of this table.

    The first of them decides: `ledger_behind_zone` if its footer names this table, generation and number, else
    `foreign_file`. Only the gateway writes such a footer, so the ledger lost the file, and operators must not move it.
    """
    found = find_file(zone, name, ahead[0]) if ahead else None
    first = None if found is None else _identity(zone, *found)
    if first is None or (first.table, first.generation, first.number) != (str(name), generation, ahead[0]):
        number = ahead[0] if ahead else recorded + 1
        path = f"{name.folder}/{file_name(FileNumber(number))}" if found is None else found[0]
        return InvariantBroken(Code.FOREIGN_FILE, f"another file has number {number}: {path}")
    return InvariantBroken(
        Code.LEDGER_BEHIND_ZONE,
        f"the ledger ends at file {recorded}, but folder {name.folder} has, or Fabric has consumed, files of this table"
        f" that the database does not know: {_shown(ahead)}; the database is in an earlier state: it was"
        " restored, or a standby took over that did not have the last transactions",
    )


def _shown(numbers: list[FileNumber]) -> str:
    """Return the numbers as people read them: a few, then the last one and the count."""
    if len(numbers) <= _MAX_NUMBERS_SHOWN:
        return ", ".join(map(str, numbers))
    return f"{', '.join(map(str, numbers[:_MAX_NUMBERS_SHOWN]))}, … {numbers[-1]} ({len(numbers)} in all)"


def file_folders(zone: LandingZone, name: TableName) -> Iterator[str]:
    """Yield the table folder, then where Fabric moves files, so that a file that moves meanwhile is seen."""
    yield name.folder
    for processed in CONSUMED_FOLDERS:
        yield f"{name.folder}/{processed}"


def find_file(zone: LandingZone, name: TableName, number: FileNumber) -> tuple[str, PathKind] | None:
    """Return the path and kind of what is under a number, visible or consumed; None if nothing is."""
    for folder in file_folders(zone, name):
        path = f"{folder}/{file_name(number)}"
        kind = zone.kind(path)
        if kind is not PathKind.ABSENT:
            return path, kind
    return None


def identity_at_number(zone: LandingZone, name: TableName, number: FileNumber) -> FileIdentity | None:
    """Return the identity of the file under a number; None if there is no file, or none that a gateway made."""
    found = find_file(zone, name, number)
    return None if found is None else _identity(zone, *found)


def facts_at_number(zone: LandingZone, name: TableName, number: FileNumber) -> FileFacts:
    """Return size and digest of the file under a number. Raise FileNotFoundError if there is none, or none now."""
    found = find_file(zone, name, number)
    if found is None:
        raise FileNotFoundError(f"{name.folder}/{file_name(number)}")
    return facts_at(zone, found[0])


def difference(zone: LandingZone, path: str, file_bytes: int | None, sha256: str | None) -> str | None:
    """Return how a file differs from the ledger's size and digest, None if it does not. The size is compared first."""
    if zone.kind(path) is not PathKind.FILE:
        return "it is not a file"
    with zone.read_file(path) as file:
        size = file.seek(0, io.SEEK_END)
        if size != file_bytes:
            return f"it has {size} bytes instead of {file_bytes}"
        file.seek(0)
        return None if _facts(file).sha256 == sha256 else "its SHA-256 differs"


def facts_at(zone: LandingZone, path: str) -> FileFacts:
    """Return size and digest of a file by reading all of it. Raise OSError; FileNotFoundError if it moves meanwhile."""
    with zone.read_file(path) as file:
        return _facts(file)


def _identity(zone: LandingZone, path: str, kind: PathKind) -> FileIdentity | None:
    if kind is not PathKind.FILE:
        return None
    with zone.read_file(path) as file:
        return read_identity(file)


def _facts(file: BinaryIO) -> FileFacts:
    digest, size = hashlib.sha256(), 0
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
        size += len(block)
    return FileFacts(size, digest.hexdigest())
