"""Deleting what nobody needs any more below `_scratchPad`; never anything outside it.

Only the owner of a table sweeps its scratch, under its own epoch; that of a dropped table, which has no owner, anyone.
A process that dies inside leaves the rest to the next sweep.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.domain.model.table import Epoch, FileNumber, TableId
from app.landing.publish import SCRATCH, Scratch
from app.landing.zone import LandingZone

KEEP_TEMPS: Final = timedelta(hours=1)
"""Older than any attempt to build or repair a file that still runs."""

KEEP_PREPARED: Final = timedelta(days=1)

KEEP_MARKERS: Final = timedelta(days=30)
"""No process lives so long after its epoch has ended; until then its marker keeps it from acting."""

_TEMP: Final = re.compile(r"(\d{20})-[0-9a-f]{32}\.parquet", re.ASCII)
_REVOKED: Final = re.compile(r"revoked-\d+-[0-9a-f]{32}", re.ASCII)
_EPOCH: Final = re.compile(r"\d{1,18}", re.ASCII)
_PREPARED: Final = re.compile(r"(partner|probe|gateway)-[0-9a-f-]{32,36}(-removed)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class RevocationMarkers:
    """The revocation markers of a table: how many there are, and through which epoch they are too old to be needed."""

    count: int
    old_through: Epoch


def newest_epoch(zone: LandingZone, table_id: TableId) -> Epoch:
    """The highest epoch that left anything in the table's scratch; 0 when none did."""
    return Epoch(max(_epochs(zone, table_id), default=0))


def sweep_scratch(zone: LandingZone, scratch: Scratch, *, recorded: FileNumber, now: datetime) -> int:
    """Delete old temps of files that are published, and folders that a revocation left; how many.

    A temp of a later file stays: it may be the registered build.
    """
    home = f"{SCRATCH}/{scratch.table_id}"
    revoked = [f"{home}/{name}" for name in zone.names(home) if _REVOKED.fullmatch(name)]
    temps = [
        scratch.path(name)
        for name in zone.names(scratch.folder)
        if (match := _TEMP.fullmatch(name)) and int(match[1]) <= recorded
    ]
    doomed = revoked + [path for path in temps if _is_older(zone, path, KEEP_TEMPS, now)]
    for path in doomed:
        zone.remove(path)
    return len(doomed)


def sweep_prepared(zone: LandingZone, *, now: datetime) -> int:
    """Delete old files at the root of the scratch that their maker did not come to use; how many."""
    names = [name for name in zone.names(SCRATCH) if _PREPARED.fullmatch(name)]
    doomed = [path for name in names if _is_older(zone, path := f"{SCRATCH}/{name}", KEEP_PREPARED, now)]
    for path in doomed:
        zone.remove(path)
    return len(doomed)


def sweep_dropped(zone: LandingZone, dropped: Collection[TableId], *, now: datetime) -> int:
    """Delete the scratch of tables that are dropped, once all of it is as old as markers become; of how many.

    The ids are those that the database knows as dropped: any other folder may be another installation's.
    """
    homes = [f"{SCRATCH}/{name}" for name in zone.names(SCRATCH) if _EPOCH.fullmatch(name) and int(name) in dropped]
    doomed = [
        home for home in homes if all(_is_older(zone, f"{home}/{name}", KEEP_MARKERS, now) for name in zone.names(home))
    ]
    for home in doomed:
        zone.remove(home)
    return len(doomed)


def find_markers(zone: LandingZone, scratch: Scratch, *, now: datetime) -> RevocationMarkers:
    """The markers of epochs before this one; none is old while an older one is not."""
    epochs = [epoch for epoch in _epochs(zone, scratch.table_id) if epoch < scratch.epoch]
    old_through = Epoch(0)
    for epoch in epochs:
        if not _is_older(zone, Scratch(scratch.table_id, epoch).folder, KEEP_MARKERS, now):
            break
        old_through = epoch
    return RevocationMarkers(len(epochs), old_through)


def remove_markers(zone: LandingZone, table_id: TableId, through: Epoch) -> int:
    """Delete the markers of epochs that are recorded as over, so that nobody makes them again; how many."""
    doomed = [epoch for epoch in _epochs(zone, table_id) if epoch <= through]
    for epoch in doomed:
        zone.remove(Scratch(table_id, epoch).folder)
    return len(doomed)


def _epochs(zone: LandingZone, table_id: TableId) -> list[Epoch]:
    names = zone.names(f"{SCRATCH}/{table_id}")
    return sorted(Epoch(int(name)) for name in names if _EPOCH.fullmatch(name))


def _is_older(zone: LandingZone, path: str, keep: timedelta, now: datetime) -> bool:
    modified = zone.modified_at(path)
    return modified is not None and now - modified > keep
