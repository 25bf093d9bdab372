"""`mirrorgate verify ZONE --against TARGET`: each table of a zone against its Delta table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from deltalake import DeltaTable

from app.landing.zone import LandingZone
from app.mirror.target import MirrorTarget, read_position
from app.published.table_files import DataFile, PublishedTable, TableFiles, list_files, list_tables
from app.published.table_metadata import TableMetadata, UnreadableFile, UnreadableMetadata, read_metadata
from app.verify.codes import FindingCode
from app.verify.comparison import delta_side
from app.verify.comparison.table_comparison import DifferenceDetails, Differences, Kind, compare, count_rows
from app.verify.comparison.zone_fold import FoldedTable, ZoneFold
from app.verify.finding import Finding
from app.verify.rows.duckdb_session import temporary_connection
from mirrorgate.errors import Code, Misconfigured

DEFAULT_SCHEMA: Final = "dbo"
"""Schema in which Fabric puts a table of a zone without schema folders."""

_CODES: Final = {
    Kind.MISSING: FindingCode.AGAINST_MISSING_ROW,
    Kind.EXTRA: FindingCode.AGAINST_EXTRA_ROW,
    Kind.DIFFERS: FindingCode.AGAINST_DIFFERS,
}
_TEXTS: Final = {
    Kind.MISSING: ("is", "are", "in the zone and not in the Delta table"),
    Kind.EXTRA: ("is", "are", "in the Delta table and not in the zone"),
    Kind.DIFFERS: ("has", "have", "other rows in the Delta table"),
}


def compare_zone(
    zone: LandingZone,
    against: str,
    *,
    tables: Sequence[str] | None = None,
    show_values: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[Finding]:
    """Compare the tables of a zone, or those named, with a Delta table or a folder of them; yield what differs.

    Raise Misconfigured if the address is neither, or is one Delta table and the zone has several; OSError if the zone
    cannot be listed.
    """
    target = MirrorTarget(against, dict(storage_options or {}))
    chosen = [table for table in list_tables(zone) if tables is None or str(table) in tables]
    one = _open(target, against)
    if one is None and not target.is_remote and not Path(against).is_dir():
        raise Misconfigured(
            Code.MIRROR_MISSING,
            f"{against} is not a folder",
            remedy="Give --against a Delta table, or a folder with Delta tables at <schema>/<table> or <table>.",
        )
    if one is not None and len(chosen) != 1:
        raise Misconfigured(
            Code.MIRROR_MISSING,
            f"{against} is one Delta table, and the zone has {len(chosen)} tables",
            remedy="Choose the table with --table, or give --against the folder that holds the Delta tables.",
        )
    for table in chosen:
        yield from _TableAgainst(zone, table, target, show_values).findings(one)


def _open(target: MirrorTarget, uri: str) -> DeltaTable | None:
    """Open a Delta table; None if there is none, or if it is damaged, which the tables below it report."""
    try:
        with delta_side.delta_errors():
            return target.open_at(uri)
    except delta_side.UnreadableDelta:
        return None


@dataclass(slots=True)
class _TableAgainst:
    """The comparison of one table."""

    zone: LandingZone
    table: PublishedTable
    target: MirrorTarget
    show_values: bool
    _notes: list[Finding] = field(default_factory=list)

    def findings(self, given: DeltaTable | None) -> Iterator[Finding]:
        """Yield what differs, or why nothing can be compared."""
        try:
            delta = given or self._find()
            if delta is None:
                yield self._finding(FindingCode.AGAINST_TABLE_MISSING, f"no Delta table at {self._places()[0]}")
                return
            yield from self._compare(delta)
        except (UnreadableMetadata, UnreadableFile) as error:
            yield self._finding(FindingCode.AGAINST_NOT_COMPARED, error.reason, error.path)
        except delta_side.UnreadableDelta as error:
            yield self._finding(FindingCode.AGAINST_UNREADABLE, str(error))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            yield self._finding(FindingCode.AGAINST_NOT_COMPARED, f"the zone cannot be read: {reason}")

    def _places(self) -> list[str]:
        """Return where the Delta table can be, the likeliest first."""
        own = self.target.uri(self.table)
        return [own] if self.table.schema else [own, self.target.uri(replace(self.table, schema=DEFAULT_SCHEMA))]

    def _find(self) -> DeltaTable | None:
        with delta_side.delta_errors():
            opened = (self.target.open_at(place) for place in self._places())
            return next((table for table in opened if table is not None), None)

    def _compare(self, delta: DeltaTable) -> Iterator[Finding]:
        metadata = read_metadata(self.zone, self.table)
        if metadata.is_partitioned:
            yield self._finding(FindingCode.AGAINST_NOT_COMPARED, "files in folders of partitions are not compared")
            return
        files, whole = self._files(metadata, delta)
        kinds = delta_side.kinds_of(delta)
        with temporary_connection() as connection:
            folded = ZoneFold(connection, self.zone, metadata, kinds).fold(files)
            if folded.stopped is not None:
                self._note(FindingCode.AGAINST_STOPPED, f"files are compared up to here: {folded.stopped}")
            yield from self._notes
            yield from self._schema(folded, kinds)
            if any(key.casefold() not in kinds for key in folded.keys):
                return
            compared = {name: kind for name, kind in folded.columns.items() if kinds.get(name) == kind}
            loaded = delta_side.load(connection, delta, folded.keys, compared)
            found = compare(connection, folded, loaded, whole=whole)
            counts = f"{count_rows(connection, folded.rows):,} rows in the zone, "
            counts += f"{count_rows(connection, loaded):,} in the Delta table"
            details = DifferenceDetails(connection, self.zone, metadata, folded, delta, compared, self.show_values)
            details.prepare(found)
            for group in found:
                yield self._differences(group, folded, details, counts)

    def _files(self, metadata: TableMetadata, delta: DeltaTable) -> tuple[list[DataFile], bool]:
        """Return the files to compare, in order, and whether they are all that the table ever had."""
        listed = list_files(self.zone, self.table)
        if metadata.is_ordered_by_time:
            return self._by_time(listed), True
        first = next(iter(listed.numbered), 1)
        end = first
        while end in listed.numbered:
            end += 1
        position = read_position(delta)
        if position is not None and position.file_number < listed.last:
            detail = f"the mirror has applied file {position.file_number} of {listed.last}"
            self._note(FindingCode.AGAINST_BEHIND, f"{detail}; later files are not compared")
            end = min(end, position.file_number + 1)
        elif end <= listed.last:
            self._note(FindingCode.AGAINST_STOPPED, f"files are compared up to {end - 1}: file {end} is missing")
        if first != 1:
            detail = f"the files before {first} are gone, so only keys that later files change are compared"
            self._note(FindingCode.AGAINST_INCOMPLETE, detail)
        return [listed.numbered[number] for number in range(first, end)], first == 1

    def _by_time(self, listed: TableFiles) -> list[DataFile]:
        files = [*listed.numbered.values(), *listed.unnumbered]
        times = {file.path: self.zone.modified_at(file.path) for file in files}
        return sorted(files, key=lambda file: (times[file.path] is None, times[file.path], file.name))

    def _schema(self, folded: FoldedTable, kinds: Mapping[str, str]) -> Iterator[Finding]:
        ours = folded.columns
        texts = [f"column {name} is missing in the Delta table" for name in ours if name not in kinds]
        texts += [f"column {name} is only in the Delta table" for name in kinds if name not in ours]
        texts += [
            f"column {name} holds {kinds[name]} instead of {kind}"
            for name, kind in ours.items()
            if kinds.get(name, kind) != kind
        ]
        if texts and folded.files:
            yield self._finding(FindingCode.AGAINST_SCHEMA_DIFFERS, "; ".join(texts))

    def _differences(self, group: Differences, folded: FoldedTable, details: DifferenceDetails, counts: str) -> Finding:
        number, noun = (group.keys, "key") if folded.keys else (group.rows, "row")
        one, many, rest = _TEXTS[group.kind]
        what = f"1 {noun} {one} {rest}" if number == 1 else f"{number:,} {noun}s {many} {rest}"
        first = "; ".join(details.describe(difference) for difference in group.first)
        touched = next((one.touched for one in group.first if one.touched is not None), None)
        file = None if touched is None else folded.place(touched)[0].path
        text = f"{what} ({counts}). First: {first}"
        return self._finding(_CODES[group.kind], text, file)

    def _note(self, code: FindingCode, detail: str) -> None:
        self._notes.append(self._finding(code, detail))

    def _finding(self, code: FindingCode, detail: str, file: str | None = None) -> Finding:
        return Finding(code, detail, str(self.table), file)
