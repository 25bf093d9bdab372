"""Comparison of one table's files in the landing zone with the ledger. It only reads.

The drain does not do this by itself: a published file belongs to Fabric, and reading all files repeatedly costs
too much.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.model.landing_file import file_name, parse_file_name
from app.domain.model.names import TableName
from app.domain.model.table import FileNumber
from app.landing.landed_state import MARKER, difference, file_folders, find_file
from app.landing.publish import METADATA
from app.landing.zone import LandingZone, PathKind

KEPT_BY_MIRRORING: Final = timedelta(days=7)
"""Time for which Fabric keeps a consumed file; it always keeps the last one."""


class DifferenceKind(StrEnum):
    """The kinds of difference between landing zone and ledger."""

    MISSING = "missing"
    CHANGED = "changed"
    UNEXPECTED = "unexpected"
    MARKER = "marker"


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between zone and ledger."""

    problem: DifferenceKind
    path: str
    detail: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """The ledger's entry of a published file."""

    number: FileNumber
    file_bytes: int | None
    sha256: str | None
    published_at: datetime | None


@dataclass
class Report:
    """The result: the numbers of compared files and of files that Fabric has removed, and the differences."""

    compared: int = 0
    removed: int = 0
    beyond_history: int = 0
    """Files that still exist although retention has deleted their ledger entries."""
    differences: list[Difference] = field(default_factory=list)

    def add(self, problem: DifferenceKind, path: str, detail: str) -> None:
        """Add a difference."""
        self.differences.append(Difference(problem, path, detail))


class Listing:
    """The contents of a table folder and of the folders where Fabric moves files, at one moment."""

    def __init__(self, zone: LandingZone, name: TableName) -> None:
        """List the folders. Raise OSError if the store fails."""
        self.name = name
        self.kinds: Mapping[str, Mapping[str, PathKind]] = {
            folder: zone.kinds(folder) for folder in file_folders(zone, name)
        }

    def paths(self, number: FileNumber) -> list[str]:
        """Return every path that has this number."""
        file = file_name(number)
        return [f"{folder}/{file}" for folder, kinds in self.kinds.items() if file in kinds]

    def numbered(self) -> Iterator[tuple[FileNumber, str]]:
        """Yield the number and path of each file whose name is a number."""
        for folder, kinds in self.kinds.items():
            for entry in kinds:
                number = parse_file_name(entry)
                if number is not None:
                    yield number, f"{folder}/{entry}"


def compare_files(
    zone: LandingZone,
    listing: Listing,
    recorded: Iterable[Recorded],
    report: Report,
    *,
    last: FileNumber,
    now: datetime,
) -> Iterator[FileNumber]:
    """Compare each recorded file with what is under its number; yield the number when that is done.

    `last` is the last recorded number at the time of the listing. Raise OSError if the store fails.
    """
    oldest = min((number for number, _ in listing.numbered()), default=None)
    for entry in recorded:
        paths = listing.paths(entry.number)
        for path in paths:
            _compare(zone, listing.name, path, entry, report)
        if not paths:
            _absent(listing.name, entry, report, oldest=oldest, last=last, now=now)
        for path in paths[1:]:
            report.add(DifferenceKind.UNEXPECTED, path, "the number has a second file: Fabric may have consumed both")
        yield entry.number


def note_unexpected(listing: Listing, report: Report, *, known_from: FileNumber, planned_through: FileNumber) -> None:
    """Report entries of the folders that are not files of the ledger, which has numbers in the given range."""
    for number, path in listing.numbered():
        if number > planned_through:
            report.add(DifferenceKind.UNEXPECTED, path, "the ledger does not know the number")
        elif number < known_from:
            report.beyond_history += 1
    for folder, kinds in listing.kinds.items():
        for entry, kind in kinds.items():
            if kind is PathKind.SPECIAL:
                report.add(DifferenceKind.UNEXPECTED, f"{folder}/{entry}", "neither a file nor a folder")
            elif not entry.startswith("_") and parse_file_name(entry) is None:
                report.add(DifferenceKind.UNEXPECTED, f"{folder}/{entry}", "not a file of a gateway")
    own = listing.kinds[listing.name.folder]
    if own and METADATA not in own:
        report.add(
            DifferenceKind.MARKER, f"{listing.name.folder}/{METADATA}", "missing; the next publication writes it again"
        )


def note_marker(listing: Listing, report: Report, mismatch: str | None) -> None:
    """Report a wrong marker of the table folder."""
    if mismatch is not None:
        report.add(DifferenceKind.MARKER, f"{listing.name.folder}/{MARKER}", mismatch)


def _compare(zone: LandingZone, name: TableName, path: str, entry: Recorded, report: Report) -> None:
    try:
        differs = difference(zone, path, entry.file_bytes, entry.sha256)
    except FileNotFoundError:
        differs = "gone"
    if differs is not None and zone.kind(path) is PathKind.ABSENT:
        moved = find_file(zone, name, entry.number)  # Fabric has moved or removed it meanwhile
        if moved is None:
            report.removed += 1
            return
        path, differs = moved[0], difference(zone, moved[0], entry.file_bytes, entry.sha256)
    report.compared += 1
    if differs is not None:
        report.add(DifferenceKind.CHANGED, path, differs)


def _absent(
    name: TableName,
    entry: Recorded,
    report: Report,
    *,
    oldest: FileNumber | None,
    last: FileNumber,
    now: datetime,
) -> None:
    """Report a missing file unless Fabric may have removed it.

    Fabric removes consumed files, the oldest first, a week after it moved them, and never the last one.
    """
    why = None
    if entry.number == last:
        why = "the last file is missing; Fabric keeps it"
    elif oldest is not None and entry.number > oldest:
        why = f"missing, although file {oldest} still exists"
    elif entry.published_at is not None and now - entry.published_at < KEPT_BY_MIRRORING:
        why = "missing, although Fabric keeps a consumed file for seven days"
    if why is None:
        report.removed += 1
    else:
        report.add(DifferenceKind.MISSING, f"{name.folder}/{file_name(entry.number)}", why)
