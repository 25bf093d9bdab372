"""The checks of a zone's tables, which can be repeated: only files that are new or changed are read again.

Checks that read rows are one object per table and kind of check (`RowChecks`), which sees the files in their order.
They remember what earlier files did, so files can only be added to them. If a file that they have seen changes, or a
new one comes before it, they start again with the first file.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, Protocol

from app.landing.publish import METADATA, PARTNER_EVENTS, SCRATCH
from app.landing.zone import Entry, LandingZone, PathKind
from app.published.table_files import (
    MAX_PARTITION_LEVELS,
    DataFile,
    PublishedTable,
    TableFiles,
    consumed_folders,
    list_files,
    list_tables,
    order_files,
    partition_folders,
)
from app.published.table_metadata import TableMetadata, UnreadableMetadata, read_metadata
from mirrorgate.errors import Code, Misconfigured
from mirrorgate_zone.verify.checks import CONTENT_CHECKS, FILE_CHECKS, FOLDER_CHECKS, TableCheck
from mirrorgate_zone.verify.checks.folders import ZONE_CHECKS, ZoneView
from mirrorgate_zone.verify.codes import Finding, guarded
from mirrorgate_zone.verify.file_reading import BrokenFile, CheckedFile, FileColumn, TableView, read_file
from mirrorgate_zone.verify.row_check import RowCheck


class RowChecks(Protocol):
    """Checks of one table's rows, file after file in the order in which they are applied.

    `--follow` keeps the object between its rounds. OSError and UnreadableFile become findings about the file; the
    object is used for later files nevertheless.
    """

    def add_file(self, file: CheckedFile) -> Iterator[Finding]:
        """Yield the findings about a file. Called once for each readable file."""
        ...

    def finish(self) -> Iterator[Finding]:
        """Yield the findings about all files so far. Can be called again, after more files."""
        ...

    def close(self) -> None:
        """Free what the checks hold."""
        ...


class RowCheckFactory(Protocol):
    """Factory of a table's row checks."""

    def __call__(self, zone: LandingZone, table: PublishedTable, metadata: TableMetadata | None) -> RowChecks:
        """Return the checks. Metadata that is missing or damaged is None; it is reported elsewhere."""
        ...


ROW_CHECKS: Final[tuple[RowCheckFactory, ...]] = (RowCheck,)
"""The checks that every run makes."""


class RowVerification:
    """Row checks of a table, which get each of its files once."""

    def __init__(self, zone: LandingZone, table: PublishedTable, factories: Sequence[RowCheckFactory]) -> None:
        self._zone, self._table, self._factories = zone, table, factories
        self._metadata: TableMetadata | None = None
        self._checks: list[RowChecks] = []
        self._seen: dict[str, CheckedFile] = {}
        self._findings: dict[str, tuple[Finding, ...]] = {}

    def run(
        self, metadata: TableMetadata | None, files: Sequence[CheckedFile], done: Callable[[int], None]
    ) -> Iterator[Finding]:
        """Yield the findings about the rows of these files, in order; read only the new files."""
        if metadata != self._metadata or not self._continues(files):
            self.close()
        if not self._checks:
            self._metadata = metadata
            for factory in self._factories:
                yield from self._guarded(partial(self._open, factory), "rows")
        for position, file in enumerate(files):
            done(position)
            name = file.file.place
            if name not in self._seen:
                self._seen[name] = file
                self._findings[name] = tuple(self._add(file))
            yield from self._findings[name]
        for checks in self._checks:
            yield from self._guarded(checks.finish, "rows")

    def close(self) -> None:
        """Free what the checks hold, and forget what they have seen."""
        for checks in self._checks:
            checks.close()
        self._checks, self._seen, self._findings = [], {}, {}

    def _continues(self, files: Sequence[CheckedFile]) -> bool:
        """Return whether the files that were seen are unchanged and come before all others; some may be gone."""
        names = [file.file.place for file in files]
        known = [name for name in self._seen if name in set(names)]
        unchanged = all(self._seen[file.file.place] is file for file in files if file.file.place in self._seen)
        return unchanged and names[: len(known)] == known

    def _open(self, factory: RowCheckFactory) -> Iterator[Finding]:
        self._checks.append(factory(self._zone, self._table, self._metadata))
        return iter(())

    def _add(self, file: CheckedFile) -> Iterator[Finding]:
        for checks in self._checks:
            yield from self._guarded(partial(checks.add_file, file), "rows", file.file.path)

    def _guarded(self, run: Callable[[], Iterator[Finding]], name: str, file: str | None = None) -> Iterator[Finding]:
        return guarded(run, name, table=str(self._table), file=file)


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
    """Verification of a table, as often as wanted. Not for several threads."""

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
        metadata, damage = self._metadata()
        files, entries = _listing(self._zone, self.table.folder)
        if metadata is not None and metadata.is_partitioned:
            files = replace(files, partitions=dict(_partitions(self._zone, self.table.folder, "", files, entries)))
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
        repeated = view.repeated_files()
        self.files = len(ordered) + len(repeated)
        former, self._known = self._known, {}
        for done, file in enumerate([*ordered, *repeated]):
            progress(done, 2 * self.files)
            known = former.get(file.place)
            if known is None or not known.describes(file, view.entries[file.path]):
                known = self._read(view, file)
            yield from known.findings
            if done < len(ordered):
                self._known[file.place] = known
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


def _listing(zone: LandingZone, folder: str, partition: str = "") -> tuple[TableFiles, dict[str, Entry]]:
    """Return the files of a table, or of one of its partitions, and what the listings show of all entries, by path.

    A file that Fabric moves meanwhile is in two listings; then all are made again. Raise OSError.
    """
    for _ in range(_MAX_LISTINGS):
        own = zone.entries(folder)
        consumed = consumed_folders(folder, _kinds(own))
        listings = {folder: own} | {path: zone.entries(path) for path in consumed}
        files = order_files({path: _kinds(entries) for path, entries in listings.items()}, partition)
        twice = [files.numbered[file.number].path for file in files.repeated if file.number is not None]
        if all(zone.kind(path) is not PathKind.ABSENT for path in twice):
            return files, {f"{path}/{name}": entry for path in listings for name, entry in listings[path].items()}
    raise FileNotFoundError(folder)


def _partitions(
    zone: LandingZone, table_folder: str, above: str, files: TableFiles, entries: dict[str, Entry]
) -> Iterator[tuple[str, TableFiles]]:
    """Yield the files of all partitions below a folder by their folders, and add their entries. Raise OSError."""
    if above.count("/") >= MAX_PARTITION_LEVELS:
        return
    for name in partition_folders(files.kinds):
        partition = f"{above}{name}"
        found, of_partition = _listing(zone, f"{table_folder}/{partition}", partition)
        entries |= of_partition
        yield partition, found
        yield from _partitions(zone, table_folder, f"{partition}/", found, entries)


def _kinds(entries: Mapping[str, Entry]) -> dict[str, PathKind]:
    return {name: entry.kind for name, entry in entries.items()}


Progress = Callable[[str, float, int], None]
"""Called with the name of the table, the number of tables done with fractions, and the number of tables."""

_SAMPLES: Final = 5


class ZoneVerification:
    """Verification of a landing zone, once or repeatedly: later runs read only what is new or changed."""

    def __init__(
        self,
        zone: LandingZone,
        *,
        tables: Sequence[str] = (),
        row_checks: Sequence[RowCheckFactory] = ROW_CHECKS,
        keep: bool = False,
    ) -> None:
        """Read nothing. `tables` limits the checks to some tables, `keep` remembers what was read for the next run."""
        self.tables = 0
        """Tables that the last run checked."""
        self.names: tuple[str, ...] = ()
        """Their names."""
        self.files = 0
        """Data files in them."""
        self._zone = zone
        self._wanted = tuple(tables)
        self._row_checks = row_checks
        self._keep = keep
        self._shared: SharedColumns = {}
        self._known: dict[str, TableVerification] = {}

    def run(self, now: datetime, progress: Progress) -> Iterator[Finding]:
        """Yield every finding. Raise Misconfigured for an unknown table, and OSError if the root cannot be listed."""
        tables = self._tables()
        self.tables, self.files = len(tables), 0
        self.names = tuple(map(str, tables))
        if not self._wanted:
            view = ZoneView(self._zone, tables, now)
            for check in ZONE_CHECKS:
                yield from guarded(partial(check, view), check.__name__)
        self._forget_all_but(tables)
        for position, table in enumerate(tables):
            yield from self._table(table, position, now, progress)
        if tables:
            progress("", len(tables), len(tables))

    def close(self) -> None:
        """Free what was kept for the next run."""
        self._forget_all_but([])

    def _table(self, table: PublishedTable, position: int, now: datetime, progress: Progress) -> Iterator[Finding]:
        def files_done(done: int, total: int) -> None:
            progress(str(table), position + done / max(total, 1), self.tables)

        files_done(0, 1)
        verification = self._known.get(table.folder)
        if verification is None:
            verification = TableVerification(self._zone, table, self._row_checks, self._shared)
        if self._keep:
            self._known[table.folder] = verification
        try:
            yield from verification.run(now, files_done)
            self.files += verification.files
        finally:
            if not self._keep:
                verification.close()

    def _tables(self) -> list[PublishedTable]:
        tables = list_tables(self._zone)
        if not self._wanted:
            return tables
        by_name = {str(table).casefold(): table for table in tables}
        if missing := [name for name in self._wanted if name.casefold() not in by_name]:
            known = ", ".join(sorted(map(str, tables))[:_SAMPLES]) or "none"
            raise Misconfigured(
                Code.UNKNOWN_TABLE,
                f"the zone has no table {', '.join(missing)}",
                remedy=f"Name a table as `schema.table` or `table`. The zone has {len(tables):,}: {known}"
                + (", …" if len(tables) > _SAMPLES else "."),
            )
        return [by_name[name] for name in dict.fromkeys(name.casefold() for name in self._wanted)]

    def _forget_all_but(self, tables: Sequence[PublishedTable]) -> None:
        present = {table.folder for table in tables}
        for folder in [folder for folder in self._known if folder not in present]:
            self._known.pop(folder).close()


def require_landing_zone(zone: LandingZone, location: str) -> None:
    """Raise Misconfigured `landing_zone_unusable` unless something at the root looks like a landing zone, or OSError.

    An empty folder is none: a wrong address would otherwise pass as a zone without a fault.
    """
    kind = zone.kind("")
    if kind is not PathKind.FOLDER:
        found = "there is nothing" if kind is PathKind.ABSENT else "there is no folder"
        raise _no_zone(f"{found} at {location}", "Give the folder or address of a landing zone.")
    root = zone.kinds("")
    if METADATA in root:
        raise _no_zone(f"{location} is a table folder", "Give the folder above it, and name the table with --table.")
    if PARTNER_EVENTS in root or SCRATCH in root or any(_is_table(zone, table) for table in list_tables(zone)):
        return
    inside = next((path for path in ("LandingZone", "Files/LandingZone") if zone.kind(path) is PathKind.FOLDER), None)
    hint = f"Did you mean {location.rstrip('/')}/{inside}?" if inside else "Give the folder that has the table folders."
    raise _no_zone(f"{location} has no table folder: no {METADATA} and no data file", hint)


def _is_table(zone: LandingZone, table: PublishedTable) -> bool:
    files = list_files(zone, table)
    return METADATA in files.kinds or bool(files.numbered or files.unnumbered)


def _no_zone(detail: str, remedy: str) -> Misconfigured:
    return Misconfigured(Code.LANDING_ZONE_UNUSABLE, detail, remedy=remedy)
