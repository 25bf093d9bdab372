"""The sweep of `_scratchPad`: delete what is no longer needed there, and nothing outside of it.

Only the owner of a table sweeps the table's scratch, under its own epoch. A dropped table has no owner, so any drain
sweeps its scratch. A process that dies inside leaves the rest to the next sweep.
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
