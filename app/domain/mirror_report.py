"""The report on a mirrored table: how far the Delta mirror has applied its landing files, and what stops it.

The rules here need no Delta table. The mirror process makes a `TableReport` of each table in each round, and needs no
database for it. With a database, the reports are stored, and the API shows the last one. Invariant: a report never
contains a row value.
"""

from dataclasses import dataclass, replace
from datetime import datetime, time
from enum import StrEnum
from typing import Final, Self

from mirrorgate.errors import MirrorgateError


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Conditions under which the mirror itself compacts and vacuums a table. Can be pickled."""

    small_files: int
    """Files below 128 MiB from which a table is compacted; 0: never."""
    retention_hours: int
    """Hours that readers of old versions have before a daily vacuum; 0: no vacuum."""
    window: tuple[time, time] | None = None
    """The time of day, in UTC, in which it does so; over midnight if the end is before the beginning."""

    def is_open(self, now: datetime) -> bool:
        """Return True if a time, in UTC, is in the window."""
        if self.window is None:
            return True
        start, end = self.window
        moment = now.time()
        return start <= moment < end if start <= end else moment >= start or moment < end


NO_UPKEEP: Final = Upkeep(0, 0)
"""A mirror that neither compacts nor vacuums."""


class MirrorState(StrEnum):
    """The state of a table's mirror."""

    IN_STEP = "in_step"
    """All landing files are applied."""
    BEHIND = "behind"
    """Files wait, and the next commit applies some of them."""
    WAITING = "waiting"
    """A file number is missing: the files behind the gap wait for it."""
    STOPPED = "stopped"
    """A file or the metadata cannot be applied; `code`, `detail` and `remedy` of the report say why."""
    DROPPED = "dropped"
    """The table's folder is gone; the Delta table remains."""


@dataclass(frozen=True, slots=True)
class FolderOwner:
    """The gateway's table to which a landing folder belongs, as the folder's marker names it."""

    installation_id: str
    generation: int
    """The table's generation in the gateway, which differs from the mirror's count if the mirror missed one."""


@dataclass(frozen=True, slots=True)
class TableReport:
    """The mirror's report about one table at its last check. Pickles.

    `code`, `detail` and `remedy` are None unless the table waits, is stopped, or has files in a doubtful order. Times
    have an offset. The defaults are of a table of which nothing else is known.
    """

    table: str
    """`schema.name` or `name`."""
    state: MirrorState
    version: int | None = None
    """The Delta version; None before the first commit."""
    generation: int = 1
    """The generation of the Delta table, counted by the mirror from 1."""
    file_number: int = 0
    """The last file applied, 0 before the first."""
    last_file: int = 0
    """The last numbered file in the landing zone, 0 without files."""
    pending_files: int = 0
    """The files in the landing zone that are not applied."""
    code: str | None = None
    detail: str | None = None
    remedy: str | None = None
    committed_at: datetime | None = None
    """The time of the Delta version; None before the first commit."""
    oldest_pending_at: datetime | None = None
    """The time of the oldest file that is not applied; None without such files."""
    owner: FolderOwner | None = None
    """Owner of the folder whose files the Delta table has; None for a folder without a marker, and while the Delta
    table still has the files of an earlier folder. The gateway's database keeps only reports with an owner."""
    is_partitioned: bool = False
    """True if files are in folders of partitions, so that no change of the table folder shows new ones."""

    def because(self, reason: MirrorgateError) -> Self:
        """Return the report with the reason of its state."""
        return replace(self, code=str(reason.code), detail=reason.detail, remedy=reason.remedy)
