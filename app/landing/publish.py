"""The steps that make a table's files visible in order, and remove a table's folder (W2, W6, W7, R3 to R5).

Every visible file is renamed out of the scratch folder of one owner epoch, `_scratchPad/<table id>/<epoch>/`. Replacing
older epochs' folders with plain files therefore ends what any older owner can still do.

A sweep deletes what is no longer needed in `_scratchPad`, and nothing outside of it. Only the owner of a table sweeps
the table's scratch, under its own epoch. A dropped table has no owner, so any drain sweeps its scratch. A process that
dies inside leaves the rest to the next sweep.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

import msgspec

from app.domain.model.landing_file import BuiltFile, file_name
from app.domain.model.names import TableName
from app.domain.model.table import Epoch, FileNumber, Generation, Table, TableId
from app.landing.landed_state import (
    MARKER,
    FolderMarker,
    find_file,
    is_landed,
    marker_mismatch,
    read_marker,
    require_marker,
)
from app.landing.zone import FolderRenameUnsupported, LandingZone, PathKind, RenameOutcome
from mirrorgate.errors import Code, InvariantBroken

SCRATCH: Final = "_scratchPad"
METADATA: Final = "_metadata.json"
PARTNER_EVENTS: Final = "_partnerEvents.json"
_NO_EPOCH: Final = Epoch(0)


@dataclass(frozen=True, slots=True)
class Scratch:
    """The private folder of one owner epoch of one table."""

    table_id: TableId
    epoch: Epoch

    @property
    def folder(self) -> str:
        """The folder's path in the landing zone."""
        return f"{SCRATCH}/{self.table_id}/{self.epoch}"

    def path(self, name: str) -> str:
        """Return the path of a file in this folder."""
        return f"{self.folder}/{name}"


def revoke_older_epochs(zone: LandingZone, scratch: Scratch, *, after: Epoch = _NO_EPOCH) -> None:
    """Revoke the scratch of every older epoch, so that no older owner can make anything visible (W2).

    Safe to repeat after a crash. What a listing shows as a plain file remains one, however old the listing is; anything
    else is revoked again. Owners of epochs up to `after` no longer live, and their markers were swept.
    """
    shown = zone.kinds(f"{SCRATCH}/{scratch.table_id}")
    for older in range(after + 1, scratch.epoch):
        if shown.get(str(older)) is not PathKind.FILE:
            zone.revoke_folder(Scratch(scratch.table_id, Epoch(older)).folder)


def prepare_folder(
    zone: LandingZone, table: Table, installation_id: UUID, scratch: Scratch, *, published_before: bool
) -> None:
    """Prepare the table folder with its metadata and marker, and rename it into place as a whole (W6).

    A process that dies inside leaves no folder or a complete one. A store that cannot rename folders may be left with
    one without its marker, which the next owner rejects. Raise InvariantBroken `landing_folder_lost` if the folder is
    another's, or gone although files were published into it; FileNotFoundError if the scratch is lost, which the next
    epoch prepares again.
    """
    folder = table.name.folder
    if zone.kind(folder) is PathKind.ABSENT:
        if published_before:
            raise InvariantBroken(Code.LANDING_FOLDER_LOST, f"folder {folder} is gone although it held published files")
        if zone.kind(scratch.folder) is PathKind.ABSENT:  # lost with its mount: create no folder beside the zone
            raise FileNotFoundError(scratch.folder)
        prepared = scratch.path(f"folder-{uuid4().hex}")  # an earlier attempt may have left half of one
        zone.create_folder(prepared)
        zone.create_file(f"{prepared}/{METADATA}", _metadata(table))
        zone.create_file(f"{prepared}/{MARKER}", FolderMarker.of(table, installation_id).content())
        if "/" in folder:
            zone.create_folder(folder.rpartition("/")[0])
        _rename_folder(zone, prepared, folder)
    require_marker(zone, table, installation_id)
    if _read(zone, f"{folder}/{METADATA}") != _metadata(table):
        # Keys can be added once to a keyless table; Fabric accepts them in the file later.
        renewed = scratch.path(f"{METADATA}-{uuid4().hex}")
        zone.create_file(renewed, _metadata(table))
        zone.replace_file(renewed, f"{folder}/{METADATA}")


def remove_table_folder(
    zone: LandingZone, table: Table, installation_id: UUID, scratch: Scratch, check_epoch: Callable[[], None]
) -> None:
    """Delete exactly the folder of this table, and make its absence durable (R3 to R5).

    After a restore of the database or of the zone, it can be of another generation. `check_epoch` then keeps a stale
    owner from the folder of its successor: the ETag, or the path in scratch, is from before the check.

    Safe to repeat: a process that dies inside leaves the folder whole, or hidden. Raise InvariantBroken
    `landing_folder_lost` if the folder is another's, OSError while it cannot be deleted, and what `check_epoch` raises.
    """
    folder = table.name.folder
    if zone.kind(folder) is PathKind.ABSENT:
        zone.make_durable(folder)
        return
    etag = zone.etag(folder)
    marker = read_marker(zone, folder)
    generation = table.generation if isinstance(marker, str) else Generation(marker.generation)
    mismatch = marker_mismatch(zone, replace(table, generation=generation), installation_id)
    if mismatch is not None:
        remedy = "Move the folder out of the landing zone, or delete it. The drain then completes the drop."
        raise InvariantBroken(Code.LANDING_FOLDER_LOST, mismatch, remedy=remedy)
    check_epoch()
    zone.remove_folder(folder, scratch.path("dropped"), etag)
    if zone.kind(folder) is not PathKind.ABSENT:
        raise OSError(f"folder {folder} still exists")


def repair_file(zone: LandingZone, table: Table, installation_id: UUID, built: BuiltFile) -> None:
    """Replace what is under a file's number, visible or consumed, with the file built again. Safe to repeat.

    Raise InvariantBroken `landing_folder_lost` if the folder is gone or another's.
    """
    require_marker(zone, table, installation_id)
    number, source = built.planned.identity.number, Scratch(built.planned.table_id, built.epoch).path(built.temp_name)
    found = find_file(zone, table.name, number)
    zone.replace_file(source, f"{table.name.folder}/{file_name(number)}" if found is None else found[0])


def make_visible(zone: LandingZone, name: TableName, built: BuiltFile) -> None:
    """Rename the registered build to its number, never replacing a file (W7).

    After an unclear answer, the file under the number decides: the planned file there is success, and durable when
    this returns. A process that dies after the rename leaves one visible, unrecorded file, which W3 of the next owner
    records. Raise InvariantBroken `foreign_file` for another file, `ledger_behind_zone` for another one of this table,
    FileNotFoundError if the build is lost, which the next epoch builds again.
    """
    source = Scratch(built.planned.table_id, built.epoch).path(built.temp_name)
    outcome = zone.rename(source, f"{name.folder}/{file_name(built.planned.identity.number)}")
    if outcome is RenameOutcome.RENAMED:
        return
    if not is_landed(zone, name, built.planned):
        raise FileNotFoundError(source)


def announce_partner(zone: LandingZone, worker_id: UUID, content: Mapping[str, Any]) -> None:
    """Write `_partnerEvents.json` at the zone's root, whole and once; keep an existing one."""
    if zone.kind(PARTNER_EVENTS) is PathKind.ABSENT:
        prepared = f"{SCRATCH}/partner-{worker_id}"
        zone.create_folder(SCRATCH)
        zone.create_file(prepared, msgspec.json.format(msgspec.json.encode(content)))
        zone.rename(prepared, PARTNER_EVENTS)


def _rename_folder(zone: LandingZone, prepared: str, folder: str) -> None:
    """Rename a prepared folder in one step, or file by file, the marker first, if the store has no such step."""
    try:
        outcome = zone.rename(prepared, folder)
    except FolderRenameUnsupported:
        zone.create_folder(folder)
        outcomes = [zone.rename(f"{prepared}/{file}", f"{folder}/{file}") for file in (MARKER, METADATA)]
        outcome = max(outcomes, key=lambda outcome: outcome is RenameOutcome.SOURCE_MISSING)
    if outcome is RenameOutcome.SOURCE_MISSING:
        raise FileNotFoundError(prepared)


def _metadata(table: Table) -> bytes:
    """Return the content of `_metadata.json`; `{}` for a keyless table."""
    keys = list(table.schema.landing.key_columns)
    content: dict[str, object] = {"keyColumns": keys} if keys else {}
    if table.options.upserts_only:
        content["isUpsertDefaultRowMarker"] = True
    return msgspec.json.format(msgspec.json.encode(content))


def _read(zone: LandingZone, path: str) -> bytes | None:
    if zone.kind(path) is not PathKind.FILE:
        return None
    with zone.read_file(path) as file:
        return file.read()


KEEP_TEMPS: Final = timedelta(hours=1)
"""Longer than any attempt to build or repair a file runs."""

KEEP_PREPARED: Final = timedelta(days=1)

KEEP_MARKERS: Final = timedelta(days=30)
"""Longer than any process lives after its epoch has ended; until then the marker stops it."""

_TEMP: Final = re.compile(r"(\d{20})-[0-9a-f]{32}\.parquet", re.ASCII)
_REVOKED: Final = re.compile(r"revoked-\d+-[0-9a-f]{32}", re.ASCII)
_EPOCH: Final = re.compile(r"\d{1,18}", re.ASCII)
_PREPARED: Final = re.compile(r"(partner|probe|gateway)-[0-9a-f-]{32,36}(-removed)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class RevocationMarkers:
    """The revocation markers of a table: their count, and the epoch through which they are too old to be needed."""

    count: int
    old_through: Epoch


def newest_epoch(zone: LandingZone, table_id: TableId) -> Epoch:
    """Return the highest epoch that left anything in the table's scratch, 0 if none did."""
    return Epoch(max(_epochs(zone, table_id), default=0))


def sweep_scratch(zone: LandingZone, scratch: Scratch, *, recorded: FileNumber, now: datetime) -> int:
    """Delete old builds of published files, and folders that a revocation left; return the count.

    A build of a later file remains, because it may be the registered one.
    """
    home = f"{SCRATCH}/{scratch.table_id}"
    revoked = [f"{home}/{name}" for name in zone.names(home) if _REVOKED.fullmatch(name)]
    temps = [
        scratch.path(name)
        for name in zone.names(scratch.folder)
        if (match := _TEMP.fullmatch(name)) and int(match[1]) <= recorded
    ]
    expired = revoked + [path for path in temps if _is_older(zone, path, KEEP_TEMPS, now)]
    for path in expired:
        zone.remove(path)
    return len(expired)


def sweep_prepared(zone: LandingZone, *, now: datetime) -> int:
    """Delete old files at the root of the scratch that their process did not use; return the count."""
    names = [name for name in zone.names(SCRATCH) if _PREPARED.fullmatch(name)]
    expired = [path for name in names if _is_older(zone, path := f"{SCRATCH}/{name}", KEEP_PREPARED, now)]
    for path in expired:
        zone.remove(path)
    return len(expired)


def sweep_dropped(zone: LandingZone, dropped: Collection[TableId], *, now: datetime) -> int:
    """Delete the scratch of dropped tables once all of it is as old as markers get; return the number of tables.

    `dropped` has the ids that the database knows as dropped: any other folder may be another installation's.
    """
    homes = [f"{SCRATCH}/{name}" for name in zone.names(SCRATCH) if _EPOCH.fullmatch(name) and int(name) in dropped]
    expired = [
        home for home in homes if all(_is_older(zone, f"{home}/{name}", KEEP_MARKERS, now) for name in zone.names(home))
    ]
    for home in expired:
        zone.remove(home)
    return len(expired)


def find_markers(zone: LandingZone, scratch: Scratch, *, now: datetime) -> RevocationMarkers:
    """Return the markers of epochs before this one; a marker counts as old only if all older ones are."""
    epochs = [epoch for epoch in _epochs(zone, scratch.table_id) if epoch < scratch.epoch]
    old_through = Epoch(0)
    for epoch in epochs:
        if not _is_older(zone, Scratch(scratch.table_id, epoch).folder, KEEP_MARKERS, now):
            break
        old_through = epoch
    return RevocationMarkers(len(epochs), old_through)


def remove_markers(zone: LandingZone, table_id: TableId, through: Epoch) -> int:
    """Delete the markers of epochs that Postgres records as over; return the count."""
    expired = [epoch for epoch in _epochs(zone, table_id) if epoch <= through]
    for epoch in expired:
        zone.remove(Scratch(table_id, epoch).folder)
    return len(expired)


def _epochs(zone: LandingZone, table_id: TableId) -> list[Epoch]:
    names = zone.names(f"{SCRATCH}/{table_id}")
    return sorted(Epoch(int(name)) for name in names if _EPOCH.fullmatch(name))


def _is_older(zone: LandingZone, path: str, keep: timedelta, now: datetime) -> bool:
    modified = zone.modified_at(path)
    return modified is not None and now - modified > keep
