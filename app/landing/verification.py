"""Compares the files of one table that are still in the landing zone with what the ledger says of them.

It reads and changes nothing. The drain does not do this by itself: a published file is mirroring's, and reading all of
them again and again would cost more than it tells.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from app.domain.model.landing_file import file_name, parse_file_name
from app.domain.model.names import TableName
from app.domain.model.table import FileNumber
from app.landing.folder_marker import MARKER
from app.landing.landed_state import difference, file_folders, find_file
from app.landing.publish import METADATA
from app.landing.zone import LandingZone, PathKind

KEPT_BY_MIRRORING: Final = timedelta(days=7)
"""So long Fabric keeps a file that it has consumed; the last one it keeps always."""


class Problem(StrEnum):
    """How landing zone and ledger differ."""

    MISSING = "missing"
    CHANGED = "changed"
    UNEXPECTED = "unexpected"
    MARKER = "marker"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which the zone differs from the ledger."""

    problem: Problem
    path: str
    detail: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the ledger says of a published file."""

    number: FileNumber
    file_bytes: int | None
    sha256: str | None
    published_at: datetime | None


@dataclass
class Report:
    """What was compared: files with the ledger's content, those that mirroring has removed, and what differs."""

    compared: int = 0
    removed: int = 0
    beyond_history: int = 0
    """Files that still stand and whose lines of the ledger retention has deleted."""
    differences: list[Difference] = field(default_factory=list)

    def add(self, problem: Problem, path: str, detail: str) -> None:
        self.differences.append(Difference(problem, path, detail))


class Listing:
    """What stood in a table folder and where mirroring moves files, at one moment."""

    def __init__(self, zone: LandingZone, name: TableName) -> None:
        self.name = name
        self.kinds: Mapping[str, Mapping[str, PathKind]] = {
            folder: zone.kinds(folder) for folder in file_folders(zone, name)
        }

    def paths(self, number: FileNumber) -> list[str]:
        """Everything that stands under a number."""
        file = file_name(number)
        return [f"{folder}/{file}" for folder, kinds in self.kinds.items() if file in kinds]

    def numbered(self) -> Iterator[tuple[FileNumber, str]]:
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
    """Compare each recorded file with what stands under its number; yields the number once that is done.

    `last` is the last recorded number when the listing was made. Raises OSError when the store fails.
    """
    oldest = min((number for number, _ in listing.numbered()), default=None)
    for entry in recorded:
        paths = listing.paths(entry.number)
        for path in paths:
            _compare(zone, listing.name, path, entry, report)
        if not paths:
            _absent(listing.name, entry, report, oldest=oldest, last=last, now=now)
        for path in paths[1:]:
            report.add(Problem.UNEXPECTED, path, "the number has a second file: mirroring may have taken in both")
        yield entry.number


def note_unexpected(listing: Listing, report: Report, *, known_from: FileNumber, planned_through: FileNumber) -> None:
    """Report what stands in the folders and is no file of the ledger, which begins at one number and is planned
    through another."""
    for number, path in listing.numbered():
        if number > planned_through:
            report.add(Problem.UNEXPECTED, path, "the ledger does not know the number")
        elif number < known_from:
            report.beyond_history += 1
    for folder, kinds in listing.kinds.items():
        for entry, kind in kinds.items():
            if kind is PathKind.SPECIAL:
                report.add(Problem.UNEXPECTED, f"{folder}/{entry}", "neither a file nor a folder")
            elif not entry.startswith("_") and parse_file_name(entry) is None:
                report.add(Problem.UNEXPECTED, f"{folder}/{entry}", "no file of a gateway")
    own = listing.kinds[listing.name.folder]
    if own and METADATA not in own:
        report.add(Problem.MARKER, f"{listing.name.folder}/{METADATA}", "missing; the next publication writes it again")


def note_marker(listing: Listing, report: Report, instead: str | None) -> None:
    """Report a wrong marker of the table folder."""
    if instead is not None:
        report.add(Problem.MARKER, f"{listing.name.folder}/{MARKER}", instead)


def _compare(zone: LandingZone, name: TableName, path: str, entry: Recorded, report: Report) -> None:
    try:
        differs = difference(zone, path, entry.file_bytes, entry.sha256)
    except FileNotFoundError:
        differs = "gone"
    if differs is not None and zone.kind(path) is PathKind.ABSENT:
        moved = find_file(zone, name, entry.number)  # mirroring has moved or removed it just now
        if moved is None:
            report.removed += 1
            return
        path, differs = moved[0], difference(zone, moved[0], entry.file_bytes, entry.sha256)
    report.compared += 1
    if differs is not None:
        report.add(Problem.CHANGED, path, differs)


def _absent(
    name: TableName,
    entry: Recorded,
    report: Report,
    *,
    oldest: FileNumber | None,
    last: FileNumber,
    now: datetime,
) -> None:
    """Mirroring removes consumed files, the oldest first, a week after it moved them, and never the last one."""
    why = None
    if entry.number == last:
        why = "the last file is nowhere; mirroring keeps it"
    elif oldest is not None and entry.number > oldest:
        why = f"nowhere, although file {oldest} is still there"
    elif entry.published_at is not None and now - entry.published_at < KEPT_BY_MIRRORING:
        why = "nowhere, although mirroring keeps a consumed file for seven days"
    if why is None:
        report.removed += 1
    else:
        report.add(Problem.MISSING, f"{name.folder}/{file_name(entry.number)}", why)
