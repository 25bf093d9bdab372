"""The checks of one table, which can be repeated: only files that are new or changed are read again."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from app.landing.zone import Entry, LandingZone, PathKind
from app.published.table_files import DataFile, TableFiles, consumed_folders, order_files
from app.published.table_folders import PublishedTable
from app.published.table_metadata import TableMetadata, read_metadata
from app.published.unreadable import UnreadableMetadata
from app.verify.checked_file import CheckedFile, FileColumn
from app.verify.checks import CONTENT_CHECKS, FILE_CHECKS, FOLDER_CHECKS, TableCheck
from app.verify.file_reading import read_file
from app.verify.finding import Finding
from app.verify.footers import BrokenFile
from app.verify.guard import guarded
from app.verify.row_checks import RowCheckFactory
from app.verify.row_verification import RowVerification
from app.verify.table_view import TableView

FileProgress = Callable[[int, int], None]
"""Called with the number of steps done and their total: two for each file."""

SharedColumns = dict[tuple[FileColumn, ...], tuple[FileColumn, ...]]
"""One copy of equal columns for all files of a zone."""

_MAX_LISTINGS: Final = 3


@dataclass(frozen=True, slots=True)
class _Known:
    """A file that was read: its place and listing then, and what was found."""

    path: str
    entry: Entry
    checked: CheckedFile | None
    findings: tuple[Finding, ...]

    def describes(self, file: DataFile, entry: Entry) -> bool:
        """Return whether the file is unchanged, or was only moved to a folder of consumed files."""
        return entry.size == self.entry.size and (self.path != file.path or entry.modified == self.entry.modified)


class TableVerification:
    """Checks a table as often as wanted. Not for several threads."""

    def __init__(
        self, zone: LandingZone, table: PublishedTable, factories: Sequence[RowCheckFactory], shared: SharedColumns
    ) -> None:
        """Read nothing."""
        self.table = table
        self.files = 0
        """Data files at the last listing."""
        self._zone = zone
        self._shared = shared
        self._known: dict[str, _Known] = {}
        self._rows = RowVerification(zone, table, factories)

    def run(self, now: datetime, progress: FileProgress) -> Iterator[Finding]:
        """List the table and yield all findings, old and new. An error of a check or of the store becomes a finding."""
        return guarded(partial(self._run, now, progress), "table", table=str(self.table))

    def close(self) -> None:
        """Free what the checks of rows hold."""
        self._rows.close()

    def _run(self, now: datetime, progress: FileProgress) -> Iterator[Finding]:
        files, entries = _listing(self._zone, self.table)
        metadata, damage = self._metadata()
        view = TableView(self.table, entries, files, metadata, damage, (), now)
        yield from self._checked(FOLDER_CHECKS, view)
        checked: list[CheckedFile] = []
        yield from self._read_all(view, progress, checked)
        yield from self._rows.run(metadata, checked, lambda done: progress(self.files + done, 2 * self.files))
        yield from self._checked(CONTENT_CHECKS, replace(view, checked=checked))

    def _metadata(self) -> tuple[TableMetadata | None, str | None]:
        """Return the metadata, or the reason why there is none."""
        try:
            return read_metadata(self._zone, self.table), None
        except UnreadableMetadata as error:
            return None, error.reason

    def _read_all(self, view: TableView, progress: FileProgress, checked: list[CheckedFile]) -> Iterator[Finding]:
        """Read what is new and yield the findings about each file; append the readable files in their order."""
        ordered = view.ordered_files()
        self.files = len(ordered) + len(view.files.repeated)
        former, self._known = self._known, {}
        for done, file in enumerate([*ordered, *view.files.repeated]):
            progress(done, 2 * self.files)
            known = former.get(file.name)
            if known is None or not known.describes(file, view.entries[file.path]):
                known = self._read(view, file)
            yield from known.findings
            if done < len(ordered):
                self._known[file.name] = known
                checked += [known.checked] if known.checked is not None else []

    def _read(self, view: TableView, file: DataFile) -> _Known:
        found: list[CheckedFile] = []
        findings = tuple(guarded(partial(self._look, view, file, found), "file", table=str(self.table), file=file.path))
        return _Known(file.path, view.entries[file.path], found[0] if found else None, findings)

    def _look(self, view: TableView, file: DataFile, found: list[CheckedFile]) -> Iterator[Finding]:
        """Read one file and check it by itself; append it to `found` if it can be read."""
        try:
            read = read_file(self._zone, file, view.entries[file.path], view.metadata)
        except BrokenFile as broken:
            yield view.finding(broken.code, broken.reason, file.path)
            return
        read = replace(read, columns=self._shared.setdefault(read.columns, read.columns))
        found.append(read)
        for check in FILE_CHECKS:
            yield from check(self._zone, view, read)

    def _checked(self, checks: Sequence[TableCheck], view: TableView) -> Iterator[Finding]:
        for check in checks:
            yield from guarded(partial(check, view), check.__name__, table=str(self.table))


def _listing(zone: LandingZone, table: PublishedTable) -> tuple[TableFiles, dict[str, Entry]]:
    """Return the files of a table and what the listings show of all entries, by path.

    A file that Fabric moves meanwhile is in two listings; then all are made again. Raise OSError.
    """
    for _ in range(_MAX_LISTINGS):
        own = zone.entries(table.folder)
        consumed = consumed_folders(table, _kinds(own))
        listings = {table.folder: own} | {folder: zone.entries(folder) for folder in consumed}
        files = order_files({folder: _kinds(entries) for folder, entries in listings.items()})
        twice = [files.numbered[file.number].path for file in files.repeated if file.number is not None]
        if all(zone.kind(path) is not PathKind.ABSENT for path in twice):
            return files, {f"{folder}/{name}": entry for folder in listings for name, entry in listings[folder].items()}
    raise FileNotFoundError(table.folder)


def _kinds(entries: Mapping[str, Entry]) -> dict[str, PathKind]:
    return {name: entry.kind for name, entry in entries.items()}
