"""The keys whose rows differ between a folded zone and a Delta table, and what the first differences are about.

Hashes alone tell that rows differ. For the first keys, the few rows are read again from their files and from the Delta
table: file, row and columns of each key, and values if wanted.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import duckdb
import pyarrow as pa
from deltalake import DeltaTable

from app.landing.zone import LandingZone
from app.published.data_file import read_chunks
from app.published.table_files import DataFile
from app.published.table_metadata import TableMetadata
from app.verify.comparison import delta_side
from app.verify.comparison.zone_fold import FoldedTable
from app.verify.rows.change_events import comparable, key_hash, row_hash, split_effects, text_of
from app.verify.rows.duckdb_session import registered, unique_name

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

_POSITION: Final = "__position__"

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
        for chunk in delta_side.read_chunks(self.table):
            with registered(self.connection, chunk.append_column(_POSITION, pa.array(range(chunk.num_rows)))) as rows:
                found = self.connection.execute(
                    f"SELECT {_POSITION}, {self._delta_key(chunk)} AS found FROM {rows} "  # noqa: S608  # quoted names
                    f"WHERE found IN ({wanted})"
                ).fetchall()
            texts = self._texts(_rows_at(chunk, [position for position, _ in found]))
            for (_, key), row in zip(found, texts, strict=True):
                self._theirs.setdefault(key, row)

    def _delta_key(self, chunk: pa.Table) -> str:
        if self.folded.keys:
            return key_hash(chunk.schema, delta_side.names_in(chunk, self.folded.keys))
        return f"({row_hash(chunk.schema, delta_side.names_in(chunk, sorted(self.compared)))})::UHUGEINT"

    def _texts(self, rows: pa.Table) -> list[Row]:
        """Return rows as strings, in their order, which DuckDB keeps only where a query asks for it."""
        names = [name.casefold() for name in rows.column_names]
        texts = ", ".join(f"({text_of(rows.schema, name)})::VARCHAR" for name in rows.column_names)
        with registered(self.connection, rows.append_column(_POSITION, pa.array(range(rows.num_rows)))) as chunk:
            found = self.connection.execute(
                f"SELECT {texts} FROM {chunk} ORDER BY {_POSITION}"  # noqa: S608  # quoted names
            ).fetchall()
        return [dict(zip(names, values, strict=True)) for values in found]


def _rows_at(rows: pa.Table, positions: Sequence[int]) -> pa.Table:
    """Return a few rows. Arrow's `take` has no kernel for the string views that DataFusion returns."""
    return pa.concat_tables([rows.slice(position, 1) for position in positions] or [rows.slice(0, 0)])


def _short(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_VALUE_LENGTH else f"{text[:MAX_VALUE_LENGTH]}…"


def _rows(count: int) -> str:
    return f"{count:,} row" + ("" if count == 1 else "s")
