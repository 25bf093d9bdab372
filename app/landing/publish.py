"""The steps that make a table's files visible in order: revoke, look, folder, rename (W2, W3, W6, W7).

Everything visible is renamed out of the scratch folder of one owner epoch, `_scratchPad/<table id>/<epoch>/`.
Turning older epochs' folders into plain files therefore ends what any older owner can still do.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

import msgspec

from app.domain.landing_file import BuiltFile, PlannedFile, file_name
from app.domain.names import TableName
from app.domain.table import Epoch, Table, TableId
from app.errors import Code, InvariantBroken
from app.landing.parquet_file import read_identity
from app.landing.zone import LandingZone, PathKind, RenameOutcome

SCRATCH: Final = "_scratchPad"
METADATA: Final = "_metadata.json"
MARKER: Final = "_gateway.json"
PARTNER_EVENTS: Final = "_partnerEvents.json"
_NONE: Final = Epoch(0)


class FolderMarker(msgspec.Struct, frozen=True):
    """`_gateway.json`: which generation of which table of which installation a landing folder belongs to."""

    table: str
    generation: int
    installation_id: str

    @classmethod
    def of(cls, table: Table, installation_id: UUID) -> "FolderMarker":
        return cls(str(table.name), table.generation, str(installation_id))


class Sight(StrEnum):
    """What stands under a planned file's number."""

    ABSENT = "absent"
    OURS = "ours"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Scratch:
    """The private folder of one owner epoch of one table."""

    table_id: TableId
    epoch: Epoch

    @property
    def folder(self) -> str:
        return f"{SCRATCH}/{self.table_id}/{self.epoch}"

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"


def revoke_older_epochs(zone: LandingZone, scratch: Scratch, *, after: Epoch = _NONE) -> None:
    """W2: after this no owner of an older epoch can make anything visible. Safe to repeat after a crash.

    Of epochs up to `after` no owner lives any more; their markers were swept.
    """
    for older in range(after + 1, scratch.epoch):
        folder = Scratch(scratch.table_id, Epoch(older)).folder
        if zone.kind(folder) is not PathKind.FILE:
            zone.revoke_folder(folder)


def look(zone: LandingZone, name: TableName, planned: PlannedFile) -> Sight:
    """W3: whether the planned file is visible under its number, by the identity in its footer."""
    path = f"{name.folder}/{file_name(planned.identity.number)}"
    kind = zone.kind(path)
    if kind is not PathKind.FILE:
        return Sight.ABSENT if kind is PathKind.ABSENT else Sight.FOREIGN
    with zone.read_file(path) as file:
        return Sight.OURS if read_identity(file) == planned.identity else Sight.FOREIGN


def prepare_folder(
    zone: LandingZone, table: Table, installation_id: UUID, scratch: Scratch, *, published_before: bool
) -> None:
    """W6: the table folder with its metadata and marker, renamed in as a whole, before any data.

    A process that dies inside leaves either no folder or a complete one. Raises InvariantBroken
    `landing_folder_lost` when the folder is another's, or gone although files were published into it.
    """
    wanted = FolderMarker.of(table, installation_id)
    folder = table.name.folder
    if zone.kind(folder) is PathKind.ABSENT:
        if published_before:
            raise InvariantBroken(Code.LANDING_FOLDER_LOST, f"folder {folder} is gone although it held published files")
        prepared = scratch.path("folder")
        zone.create_folder(prepared)
        for file, content in ((METADATA, _metadata(table)), (MARKER, msgspec.json.encode(wanted))):
            if zone.kind(f"{prepared}/{file}") is PathKind.ABSENT:
                zone.create_file(f"{prepared}/{file}", content)
        if "/" in folder:
            zone.create_folder(folder.rpartition("/")[0])
        zone.rename(prepared, folder)
    if _read(zone, f"{folder}/{MARKER}") != msgspec.json.encode(wanted):
        raise InvariantBroken(
            Code.LANDING_FOLDER_LOST, f"folder {folder} belongs to another table, generation or gateway"
        )
    if _read(zone, f"{folder}/{METADATA}") != _metadata(table):
        # Keys may be added once to a keyless table; the contract allows adding them to the file later.
        renewed = scratch.path(METADATA)
        if zone.kind(renewed) is PathKind.ABSENT:
            zone.create_file(renewed, _metadata(table))
        zone.replace_file(renewed, f"{folder}/{METADATA}")


def remove_table_folder(zone: LandingZone, table: Table, installation_id: UUID, scratch: Scratch) -> None:
    """R3 to R5: delete exactly the folder of this generation; no-op once it is gone.

    Raises InvariantBroken `landing_folder_lost` when the folder is another's, OSError while it cannot be deleted.
    """
    folder = table.name.folder
    if zone.kind(folder) is PathKind.ABSENT:
        return
    if _read(zone, f"{folder}/{MARKER}") != msgspec.json.encode(FolderMarker.of(table, installation_id)):
        raise InvariantBroken(
            Code.LANDING_FOLDER_LOST, f"folder {folder} belongs to another table, generation or gateway"
        )
    zone.remove_folder(folder, scratch.path("dropped"))
    if zone.kind(folder) is not PathKind.ABSENT:
        raise OSError(f"folder {folder} is still there")


def repair_file(zone: LandingZone, name: TableName, built: BuiltFile) -> None:
    """Put a file built again over what stands under its number. Safe to repeat."""
    source = Scratch(built.planned.table_id, built.epoch).path(built.temp_name)
    zone.replace_file(source, f"{name.folder}/{file_name(built.planned.identity.number)}")


def make_visible(zone: LandingZone, name: TableName, built: BuiltFile) -> None:
    """W7: rename the nominated temp to its number, never replacing.

    An unclear outcome is settled by looking: our file there is success. Raises InvariantBroken `foreign_file`
    for another one, FileNotFoundError when the temp is lost (the next epoch builds it again).
    """
    source = Scratch(built.planned.table_id, built.epoch).path(built.temp_name)
    outcome = zone.rename(source, f"{name.folder}/{file_name(built.planned.identity.number)}")
    if outcome is RenameOutcome.RENAMED:
        return
    sight = look(zone, name, built.planned)
    if sight is Sight.FOREIGN:
        raise InvariantBroken(Code.FOREIGN_FILE, f"another file stands under number {built.planned.identity.number}")
    if sight is Sight.ABSENT:
        raise FileNotFoundError(source)


def announce_partner(zone: LandingZone, worker_id: UUID, partner_name: str, source_type: str) -> None:
    """`_partnerEvents.json` at the root, whole and once; an existing one is left alone."""
    if zone.kind(PARTNER_EVENTS) is PathKind.ABSENT:
        content = {"partnerName": partner_name, "sourceInfo": {"sourceType": source_type}}
        prepared = f"{SCRATCH}/partner-{worker_id}"
        zone.create_folder(SCRATCH)
        zone.create_file(prepared, msgspec.json.format(msgspec.json.encode(content)))
        zone.rename(prepared, PARTNER_EVENTS)


def _metadata(table: Table) -> bytes:
    """`_metadata.json`; a keyless table gets `{}`."""
    keys = list(table.schema.key_columns)
    return msgspec.json.format(msgspec.json.encode({"keyColumns": keys} if keys else {}))


def _read(zone: LandingZone, path: str) -> bytes | None:
    if zone.kind(path) is not PathKind.FILE:
        return None
    with zone.read_file(path) as file:
        return file.read()
