"""`mirrorgate verify ZONE --against TARGET`: each table of a zone against its Delta table.

`compare` finds the keys whose rows differ between a folded zone and a Delta table. It compares hashes, which alone tell
that rows differ.

`DifferenceDetails` describes the first differences. For the first keys, the few rows are read again from their files
and from the Delta table: file, row and columns of each key, and values if wanted.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from app.landing.zone import LandingZone
from app.mirror.target import MirrorTarget, read_position
from app.published.data_file import read_chunks
from app.published.table_files import DataFile, PublishedTable, TableFiles, list_files, list_tables
from app.published.table_metadata import TableMetadata, UnreadableFile, UnreadableMetadata, read_metadata
from mirrorgate.errors import Code, Misconfigured
from mirrorgate_zone.verify.change_events import (
    POSITION,
    comparable,
    key_hash,
    kind_of,
    registered,
    row_hash,
    split_effects,
    temporary_connection,
    text_of,
    unique_name,
)
from mirrorgate_zone.verify.checks.folders import DEFAULT_SCHEMA
from mirrorgate_zone.verify.codes import Finding, FindingCode, guarded
from mirrorgate_zone.verify.zone_fold import FoldedTable, ZoneFold

CHUNK_ROWS: Final = 65_536


class UnreadableDelta(Exception):
    """A Delta table that cannot be opened or read. The text has no value."""


@contextmanager
def delta_errors() -> Iterator[None]:
    """Turn the errors of opening and reading a Delta table into UnreadableDelta."""
    try:
        yield
    except (DeltaError, pa.ArrowException, OSError) as error:
        text = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnreadableDelta(text[:300]) from error


def kinds_of(table: DeltaTable) -> dict[str, str]:
    """Return the kind of value of each column, by its name in lower case. Raise UnreadableDelta."""
    with delta_errors():
        return {field.name.casefold(): kind_of(field.type) for field in pa.schema(table.schema())}


def delta_chunks(table: DeltaTable) -> Iterator[pa.Table]:
    """Yield the rows of a table, CHUNK_ROWS or more at a time, as comparable columns. Raise UnreadableDelta."""
    waiting: list[pa.RecordBatch] = []
    with delta_errors():
        for batch in pa.RecordBatchReader.from_stream(table.scan()):
            waiting.append(batch)
            if sum(part.num_rows for part in waiting) >= CHUNK_ROWS:
                yield comparable(pa.Table.from_batches(waiting))
                waiting = []
        if waiting:
            yield comparable(pa.Table.from_batches(waiting))


def names_in(chunk: pa.Table, names: Sequence[str]) -> list[str]:
    """Return the columns with these names, in the chunk's letter case and in the order of `names`."""
    by_name = {name.casefold(): name for name in chunk.column_names}
    return [by_name[name.casefold()] for name in names if name.casefold() in by_name]


def load_delta(
    connection: duckdb.DuckDBPyConnection, table: DeltaTable, keys: Sequence[str], compared: Mapping[str, str]
) -> str:
    """Store the hashes of all rows in a temporary table (key, hash) and return its name. Raise UnreadableDelta."""
    name = unique_name("delta")
    connection.execute(f"CREATE TEMP TABLE {name} (key UHUGEINT, hash HUGEINT)")
    for chunk in delta_chunks(table):
        values = row_hash(chunk.schema, names_in(chunk, sorted(compared)))
        key = key_hash(chunk.schema, names_in(chunk, keys)) if keys else f"({values})"
        with registered(connection, chunk) as rows:
            connection.execute(f"INSERT INTO {name} SELECT {key}, {values} FROM {rows}")  # noqa: S608  # quoted names
    return name


MAX_SHOWN: Final = 5
"""Differences of one kind of which the key, file and columns are named."""

_COMPARE: Final = """
CREATE TEMP TABLE {differences} AS
WITH ours AS (SELECT key, count(*) AS n, sum(hash) AS hash, max(position) AS position FROM {rows} GROUP BY key),
theirs AS (SELECT key, count(*) AS n, sum(hash) AS hash FROM {delta} GROUP BY key),
touched AS (SELECT key, max(position) AS position FROM {touched} GROUP BY key)
SELECT key, coalesce(ours.n, 0) AS ours, coalesce(theirs.n, 0) AS theirs, ours.position AS written,
       touched.position AS touched
FROM ours FULL JOIN theirs USING (key) LEFT JOIN touched USING (key)
WHERE (ours.n IS DISTINCT FROM theirs.n OR ours.hash IS DISTINCT FROM theirs.hash)
  AND ({whole} OR touched.position IS NOT NULL)
"""

_KEYED: Final = "CASE WHEN theirs = 0 THEN 'missing' WHEN ours = 0 THEN 'extra' ELSE 'differs' END"
_KEYLESS: Final = "CASE WHEN ours > theirs THEN 'missing' ELSE 'extra' END"

_COUNT: Final = """
SELECT kind, count(*), sum(abs(ours - theirs))::BIGINT FROM (SELECT *, {kind} AS kind FROM {differences})
GROUP BY kind ORDER BY kind
"""
_FIRST: Final = """
SELECT key, ours, theirs, written, touched FROM {differences} WHERE {kind} = ?
ORDER BY touched NULLS LAST, key LIMIT {limit}
"""


class Kind(StrEnum):
    """The kind of a key's difference."""

    MISSING = "missing"
    """The zone has a row, the Delta table has none."""
    EXTRA = "extra"
    """The Delta table has a row, the zone has none."""
    DIFFERS = "differs"
    """Both have rows, with other values or in other numbers."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A key that differs, with the numbers of its rows and the positions of its changes."""

    kind: Kind
    key: int
    ours: int
    theirs: int
    written: int | None
    """Position of the last change that wrote a row which is left; None if none is."""
    touched: int | None
    """Position of the last change of the key; None if no file has the key."""

    @property
    def key_text(self) -> str:
        """The first 16 digits of the key's hash."""
        return f"{self.key:032x}"[:16]


@dataclass(frozen=True, slots=True)
class Differences:
    """All differences of one kind: how many keys, how many rows more or fewer, and the first ones."""

    kind: Kind
    keys: int
    rows: int
    first: tuple[Difference, ...]


def compare(
    connection: duckdb.DuckDBPyConnection, folded: FoldedTable, delta: str, *, whole: bool
) -> list[Differences]:
    """Return what differs, by kind. Unless `whole`, only keys that a present file touches are compared."""
    name = unique_name("differences")
    tables = {"rows": folded.rows, "touched": folded.touched, "delta": delta, "differences": name}
    connection.execute(_COMPARE.format(**tables, whole="TRUE" if whole else "FALSE"))
    kind = _KEYED if folded.keys else _KEYLESS
    found = connection.execute(_COUNT.format(kind=kind, differences=name)).fetchall()
    first = _FIRST.format(kind=kind, differences=name, limit=MAX_SHOWN)
    return [
        Differences(
            Kind(text),
            keys,
            rows,
            tuple(Difference(Kind(text), *row) for row in connection.execute(first, [text]).fetchall()),
        )
        for text, keys, rows in found
    ]


def count_rows(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    """Return the number of rows of a table of the connection."""
    ((found,),) = connection.execute(f"SELECT count(*) FROM {name}").fetchall()  # noqa: S608  # a name of ours
    return int(found)


MAX_VALUE_LENGTH: Final = 60


Row = Mapping[str, str | None]
"""The strings of a row's values, by lower-case column name."""


@dataclass(slots=True)
class DifferenceDetails:
    """Differences of one table described as text."""

    connection: duckdb.DuckDBPyConnection
    zone: LandingZone
    metadata: TableMetadata
    folded: FoldedTable
    table: DeltaTable
    compared: Mapping[str, str]
    show_values: bool
    _ours: dict[int, Row] = field(default_factory=dict)
    _theirs: dict[int, Row] = field(default_factory=dict)

    def prepare(self, found: Iterable[Differences]) -> None:
        """Read the rows that descriptions need: once per file, and once for the Delta table. Raise as readers do."""
        first = [difference for group in found for difference in group.first]
        ours = [one.written for one in first if one.written is not None and self._needs_row(one)]
        by_file: dict[DataFile, list[tuple[int, int]]] = {}
        for position in ours:
            file, row = self.folded.place(position)
            by_file.setdefault(file, []).append((row, position))
        for file, wanted in by_file.items():
            self._read_file(file, sorted(wanted))
        keys = [one.key for one in first if one.theirs and self._needs_row(one)]
        if keys:
            self._read_delta(keys)

    def describe(self, difference: Difference) -> str:
        """Return one difference as text: key, place, and what differs."""
        ours = self._ours.get(difference.written) if difference.written is not None else None
        theirs = self._theirs.get(difference.key)
        place = "no file has it"
        if difference.touched is not None:
            file, row = self.folded.place(difference.touched)
            place = f"last changed by {file.name} row {row:,}"
        what = self._columns(ours, theirs) if difference.kind is Kind.DIFFERS else ""
        if difference.ours != difference.theirs and difference.ours and difference.theirs:
            what = f": {_rows(difference.theirs)} instead of {difference.ours:,}"
        return f"{self._key(difference, ours or theirs)} ({place}){what}"

    def _needs_row(self, difference: Difference) -> bool:
        return self.show_values or difference.kind is Kind.DIFFERS

    def _key(self, difference: Difference, row: Row | None) -> str:
        if not self.show_values or row is None:
            return f"{'key' if self.folded.keys else 'row'} {difference.key_text}"
        names = [name.casefold() for name in self.folded.keys] or sorted(row)
        return json.dumps({name: _short(row.get(name)) for name in names}, ensure_ascii=False)

    def _columns(self, ours: Row | None, theirs: Row | None) -> str:
        """Return the columns that differ. One row each is compared, the last one of the zone."""
        if ours is None or theirs is None:
            return ""
        names = [name for name in sorted(self.compared) if ours.get(name) != theirs.get(name)]
        if not self.show_values:
            return f": {', '.join(names)}" if names else ""
        pairs = [f"{name} {_short(theirs.get(name))!r} instead of {_short(ours.get(name))!r}" for name in names]
        return f": {', '.join(pairs)}" if pairs else ""

    def _read_file(self, file: DataFile, wanted: Sequence[tuple[int, int]]) -> None:
        before = 0
        for chunk in read_chunks(self.zone, file, self.metadata):
            inside = [
                (row - before - 1, position) for row, position in wanted if before < row <= before + chunk.num_rows
            ]
            if inside:
                rows = _rows_at(comparable(split_effects(chunk, self.metadata)[0]), [row for row, _ in inside])
                for (_, position), texts in zip(inside, self._texts(rows), strict=True):
                    self._ours[position] = texts
            before += chunk.num_rows

    def _read_delta(self, keys: Sequence[int]) -> None:
        wanted = ", ".join(f"{key}::UHUGEINT" for key in keys)
        for chunk in delta_chunks(self.table):
            with registered(self.connection, chunk.append_column(POSITION, pa.array(range(chunk.num_rows)))) as rows:
                found = self.connection.execute(
                    f"SELECT {POSITION}, {self._delta_key(chunk)} AS found FROM {rows} "  # noqa: S608  # quoted names
                    f"WHERE found IN ({wanted})"
                ).fetchall()
            texts = self._texts(_rows_at(chunk, [position for position, _ in found]))
            for (_, key), row in zip(found, texts, strict=True):
                self._theirs.setdefault(key, row)

    def _delta_key(self, chunk: pa.Table) -> str:
        if self.folded.keys:
            return key_hash(chunk.schema, names_in(chunk, self.folded.keys))
        return f"({row_hash(chunk.schema, names_in(chunk, sorted(self.compared)))})::UHUGEINT"

    def _texts(self, rows: pa.Table) -> list[Row]:
        """Return rows as strings, in their order, which DuckDB keeps only where a query asks for it."""
        names = [name.casefold() for name in rows.column_names]
        texts = ", ".join(f"({text_of(rows.schema, name)})::VARCHAR" for name in rows.column_names)
        with registered(self.connection, rows.append_column(POSITION, pa.array(range(rows.num_rows)))) as chunk:
            found = self.connection.execute(
                f"SELECT {texts} FROM {chunk} ORDER BY {POSITION}"  # noqa: S608  # quoted names
            ).fetchall()
        return [dict(zip(names, values, strict=True)) for values in found]


def _rows_at(rows: pa.Table, positions: Sequence[int]) -> pa.Table:
    """Return a few rows. Arrow's `take` has no kernel for the string views that DataFusion returns."""
    return pa.concat_tables([rows.slice(position, 1) for position in positions] or [rows.slice(0, 0)])


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


def _rows(count: int) -> str:
    return f"{count:,} row" + ("" if count == 1 else "s")


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
        compared = _TableAgainst(zone, table, target, show_values)
        yield from guarded(partial(compared.findings, one), "comparison", table=str(table))


def _open(target: MirrorTarget, uri: str) -> DeltaTable | None:
    """Open a Delta table; None if there is none, or if it is damaged, which the tables below it report."""
    try:
        with delta_errors():
            return target.open_at(uri)
    except UnreadableDelta:
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
        except UnreadableDelta as error:
            yield self._finding(FindingCode.AGAINST_UNREADABLE, str(error))
        except OSError as error:
            reason = error.strerror or type(error).__name__
            yield self._finding(FindingCode.AGAINST_NOT_COMPARED, f"the zone cannot be read: {reason}")

    def _places(self) -> list[str]:
        """Return where the Delta table can be, the likeliest first."""
        own = self.target.uri(self.table)
        return [own] if self.table.schema else [own, self.target.uri(replace(self.table, schema=DEFAULT_SCHEMA))]

    def _find(self) -> DeltaTable | None:
        with delta_errors():
            opened = (self.target.open_at(place) for place in self._places())
            return next((table for table in opened if table is not None), None)

    def _compare(self, delta: DeltaTable) -> Iterator[Finding]:
        metadata = read_metadata(self.zone, self.table)
        if metadata.is_partitioned:
            yield self._finding(FindingCode.AGAINST_NOT_COMPARED, "files in folders of partitions are not compared")
            return
        files, whole = self._files(metadata, delta)
        kinds = kinds_of(delta)
        with temporary_connection() as connection:
            folded = ZoneFold(connection, self.zone, metadata, kinds).fold(files)
            position, last = read_position(delta), (folded.files[-1].number or 0) if folded.files else 0
            if position is not None and last < position.file_number and not metadata.is_ordered_by_time:
                why = folded.stopped or f"file {last + 1} is missing, if the table was not recreated since"
                detail = f"the mirror has applied file {position.file_number}, but {why}"
                yield self._finding(FindingCode.AGAINST_NOT_COMPARED, detail)
                return
            if folded.stopped is not None:
                self._note(FindingCode.AGAINST_STOPPED, f"files are compared up to here: {folded.stopped}")
            yield from self._notes
            yield from self._schema(folded, kinds)
            if any(key.casefold() not in kinds for key in folded.keys):
                return
            compared = {name: kind for name, kind in folded.columns.items() if kinds.get(name) == kind}
            loaded = load_delta(connection, delta, folded.keys, compared)
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
