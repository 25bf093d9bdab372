"""The steps that make a table's files visible in order: revoke, look, folder, rename (W2, W3, W6, W7).

Everything visible is renamed out of the scratch folder of one owner epoch, `_scratchPad/<table id>/<epoch>/`.
Turning older epochs' folders into plain files therefore ends what any older owner can still do.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

import msgspec

from app.domain.model.landing_file import BuiltFile, file_name
from app.domain.model.names import TableName
from app.domain.model.table import Epoch, Table, TableId
from app.errors import Code, InvariantBroken
from app.landing.folder_marker import MARKER, FolderMarker, require_marker
from app.landing.landed_state import is_landed
from app.landing.zone import FolderRenameUnsupported, LandingZone, PathKind, RenameOutcome

SCRATCH: Final = "_scratchPad"
METADATA: Final = "_metadata.json"
PARTNER_EVENTS: Final = "_partnerEvents.json"
_NONE: Final = Epoch(0)


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

    What a listing shows as a plain file stays one for good, however old the listing is; anything else is looked at.
    Of epochs up to `after` no owner lives any more; their markers were swept.
    """
    shown = zone.kinds(f"{SCRATCH}/{scratch.table_id}")
    for older in range(after + 1, scratch.epoch):
        if shown.get(str(older)) is not PathKind.FILE:
            zone.revoke_folder(Scratch(scratch.table_id, Epoch(older)).folder)


def prepare_folder(
    zone: LandingZone, table: Table, installation_id: UUID, scratch: Scratch, *, published_before: bool
) -> None:
    """W6: the table folder with its metadata and marker, renamed in as a whole, before any data.

    A process that dies inside leaves either no folder or a complete one; where folders cannot be renamed, perhaps
    one without its marker, which the next owner rejects. Raises InvariantBroken `landing_folder_lost` when the
    folder is another's, or gone although files were published into it, FileNotFoundError when the scratch is lost
    (the next epoch prepares it again).
    """
    folder = table.name.folder
    if zone.kind(folder) is PathKind.ABSENT:
        if published_before:
            raise InvariantBroken(Code.LANDING_FOLDER_LOST, f"folder {folder} is gone although it held published files")
        if zone.kind(scratch.folder) is PathKind.ABSENT:  # lost with its mount: no folder beside the zone
            raise FileNotFoundError(scratch.folder)
        prepared = scratch.path(f"folder-{uuid4().hex}")  # an earlier try may have left half of one
        zone.create_folder(prepared)
        zone.create_file(f"{prepared}/{METADATA}", _metadata(table))
        zone.create_file(f"{prepared}/{MARKER}", FolderMarker.of(table, installation_id).content())
        if "/" in folder:
            zone.create_folder(folder.rpartition("/")[0])
        _rename_folder(zone, prepared, folder)
    require_marker(zone, table, installation_id)
    if _read(zone, f"{folder}/{METADATA}") != _metadata(table):
        # Keys may be added once to a keyless table; the contract allows adding them to the file later.
        renewed = scratch.path(f"{METADATA}-{uuid4().hex}")
        zone.create_file(renewed, _metadata(table))
        zone.replace_file(renewed, f"{folder}/{METADATA}")


def remove_table_folder(zone: LandingZone, table: Table, installation_id: UUID, scratch: Scratch) -> None:
    """R3 to R5: delete exactly the folder of this generation; once it is gone, see to it that it stays so.

    Raises InvariantBroken `landing_folder_lost` when the folder is another's, OSError while it cannot be deleted.
    """
    folder = table.name.folder
    if zone.kind(folder) is PathKind.ABSENT:
        zone.make_durable(folder)
        return
    etag = zone.etag(folder)
    require_marker(zone, table, installation_id)
    zone.remove_folder(folder, scratch.path("dropped"), etag)
    if zone.kind(folder) is not PathKind.ABSENT:
        raise OSError(f"folder {folder} is still there")


def repair_file(zone: LandingZone, table: Table, installation_id: UUID, built: BuiltFile) -> None:
    """Put a file built again over what stands under its number. Safe to repeat.

    Raises InvariantBroken `landing_folder_lost` when the folder is gone or another's.
    """
    require_marker(zone, table, installation_id)
    source = Scratch(built.planned.table_id, built.epoch).path(built.temp_name)
    zone.replace_file(source, f"{table.name.folder}/{file_name(built.planned.identity.number)}")


def make_visible(zone: LandingZone, name: TableName, built: BuiltFile) -> None:
    """W7: rename the registered build to its number, never replacing.

    An unclear outcome is settled by looking: our file there is success, and durable when this returns. Raises
    InvariantBroken `foreign_file` for another one, FileNotFoundError when the temp is lost (the next epoch builds
    it again).
    """
    source = Scratch(built.planned.table_id, built.epoch).path(built.temp_name)
    outcome = zone.rename(source, f"{name.folder}/{file_name(built.planned.identity.number)}")
    if outcome is RenameOutcome.RENAMED:
        return
    if not is_landed(zone, name, built.planned):
        raise FileNotFoundError(source)


def announce_partner(zone: LandingZone, worker_id: UUID, partner_name: str, source_type: str) -> None:
    """`_partnerEvents.json` at the root, whole and once; an existing one is left alone."""
    if zone.kind(PARTNER_EVENTS) is PathKind.ABSENT:
        content = {"partnerName": partner_name, "sourceInfo": {"sourceType": source_type}}
        prepared = f"{SCRATCH}/partner-{worker_id}"
        zone.create_folder(SCRATCH)
        zone.create_file(prepared, msgspec.json.format(msgspec.json.encode(content)))
        zone.rename(prepared, PARTNER_EVENTS)


def _rename_folder(zone: LandingZone, prepared: str, folder: str) -> None:
    """Show a prepared folder in one step, or, where the store has no such step, file by file, the marker first."""
    try:
        outcome = zone.rename(prepared, folder)
    except FolderRenameUnsupported:
        zone.create_folder(folder)
        outcomes = [zone.rename(f"{prepared}/{file}", f"{folder}/{file}") for file in (MARKER, METADATA)]
        outcome = max(outcomes, key=lambda outcome: outcome is RenameOutcome.SOURCE_MISSING)
    if outcome is RenameOutcome.SOURCE_MISSING:
        raise FileNotFoundError(prepared)


def _metadata(table: Table) -> bytes:
    """`_metadata.json`; a keyless table gets `{}`."""
    keys = list(table.schema.key_columns)
    return msgspec.json.format(msgspec.json.encode({"keyColumns": keys} if keys else {}))


def _read(zone: LandingZone, path: str) -> bytes | None:
    if zone.kind(path) is not PathKind.FILE:
        return None
    with zone.read_file(path) as file:
        return file.read()
