"""The rows that a table's landing files leave behind, as hashes in DuckDB.

Per row: the hash of its key, the hash of its values, and its position (file and row). Fabric's rules: marker 0 adds a
row, 1 and 4 replace the rows of the key, 2 removes them; a key with NULL matches nothing. This is not the code of the
mirror, so that one can check the other. Invariant: a file is applied as a whole or not at all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from app.landing.zone import LandingZone
from app.mirror.commit import delta_type
from app.published.data_file import read_chunks
from app.published.table_files import DataFile
from app.published.table_metadata import TableMetadata, UnreadableFile
from mirrorgate_zone.verify.change_events import (
    EFFECT,
    POSITION,
    any_null,
    columns_named,
    comparable,
    key_hash,
    kind_of,
    quoted,
    registered,
    row_hash,
    split_effects,
    unique_name,
)

GROUP_ROWS: Final = 1_000_000
"""Rows after which the collected files are applied. A file is never divided."""

POSITION_BITS: Final = 36
"""Bits of a position that hold the row number; the rest is the index of the file."""


_CREATE: Final = """
CREATE TEMP TABLE {events} (position BIGINT, marker TINYINT, key UHUGEINT, keyed BOOLEAN, hash HUGEINT);
CREATE TEMP TABLE {rows} (key UHUGEINT, hash HUGEINT, position BIGINT);
CREATE TEMP TABLE {touched} (key UHUGEINT, position BIGINT);
"""
_TOUCH: Final = "INSERT INTO {touched} SELECT key, max(position) FROM {events} GROUP BY key"
_REMOVE: Final = "DELETE FROM {rows} WHERE key IN (SELECT key FROM {events} WHERE keyed AND marker <> 0)"
_ADD: Final = """
INSERT INTO {rows}
SELECT key, hash, position
FROM (SELECT *, max(position) FILTER (marker <> 0) OVER (PARTITION BY key) AS cut FROM {events})
WHERE CASE
    WHEN NOT keyed THEN marker <> 2
    WHEN cut IS NULL THEN TRUE
    ELSE position > cut OR (position = cut AND marker <> 2)
END
"""


class StopsHere(Exception):
    """A file that stops its table in Fabric, or that cannot be read. The text has no value."""


@dataclass(frozen=True, slots=True)
class FoldedTable:
    """The result of a fold. The three tables are temporary ones of the connection."""

    rows: str
    """key, hash, position: a row that is left, with the position of the change that wrote it."""
    touched: str
    """key, position: of each change, or of each key's last change of some files."""
    files: tuple[DataFile, ...]
    """The applied files; a position's index counts them."""
    columns: Mapping[str, str]
    """The kind of value of each column, by its name in lower case."""
    keys: tuple[str, ...]
    stopped: str | None
    """Reason why later files were not applied; None if all were."""

    def place(self, position: int) -> tuple[DataFile, int]:
        """Return the file and the row number, from 1, of a position."""
        return self.files[position >> POSITION_BITS], position & ((1 << POSITION_BITS) - 1)


class ZoneFold:
    """Fold of one table. Not for several threads."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        zone: LandingZone,
        metadata: TableMetadata,
        other_kinds: Mapping[str, str],
    ) -> None:
        """Create the tables. Only columns of `other_kinds` (by lower-case name) count in a row's hash."""
        self._connection = connection
        self._zone = zone
        self._metadata = metadata
        self._other_kinds = other_kinds
        self._names = {name: unique_name(name) for name in ("events", "rows", "touched")}
        self._types: dict[str, str] = {}
        self._required: set[str] = set()
        self._kinds: dict[str, str] = {}
        connection.execute(_CREATE.format(**self._names))

    def fold(self, files: Iterable[DataFile]) -> FoldedTable:
        """Apply the files in this order, up to the first one that stops the table. Raise OSError if the store fails."""
        applied: list[DataFile] = []
        waiting = 0
        stopped = None
        for file in files:
            try:
                waiting += self._collect(len(applied), file)
            except (StopsHere, UnreadableFile, duckdb.Error, pa.ArrowException, UnicodeDecodeError) as error:
                reason = error.reason if isinstance(error, UnreadableFile) else _reason(error)
                stopped = f"{file.name}: {reason}"
                break
            applied.append(file)
            if waiting >= GROUP_ROWS:
                self._apply()
                waiting = 0
        self._apply()
        rows, touched = self._names["rows"], self._names["touched"]
        return FoldedTable(rows, touched, tuple(applied), self._kinds, self._metadata.key_columns, stopped)

    def _collect(self, index: int, file: DataFile) -> int:
        """Add the events of a file; on an error, none of them."""
        before = dict(self._types), set(self._required), dict(self._kinds)
        rows = 0
        try:
            for chunk in read_chunks(self._zone, file, self._metadata):
                self._collect_chunk((index << POSITION_BITS) + 1 + rows, chunk)
                rows += chunk.num_rows
        except BaseException:
            self._types, self._required, self._kinds = before
            events = self._names["events"]
            self._connection.execute(f"DELETE FROM {events} WHERE position >> {POSITION_BITS} = {index}")  # noqa: S608  # ours
            raise
        return rows

    def _collect_chunk(self, first: int, chunk: pa.Table) -> None:
        columns, markers, _ = split_effects(chunk, self._metadata)
        self._check(columns.schema, markers)
        rows = comparable(columns)
        keys = columns_named(rows, self._metadata.key_columns)
        if len(keys) < len(self._metadata.key_columns):
            raise StopsHere("a key column is missing")
        compared = [name for name in rows.column_names if self._is_compared(rows.schema.field(name))]
        if not rows.num_rows:
            return
        values = row_hash(rows.schema, compared)
        key, keyed = (key_hash(rows.schema, keys), f"NOT ({any_null(keys)})") if keys else (f"({values})", "FALSE")
        positions = pa.array(range(first, first + rows.num_rows), pa.int64())
        rows = rows.append_column(EFFECT, markers).append_column(POSITION, positions)
        with registered(self._connection, rows) as source:
            self._connection.execute(
                f"INSERT INTO {self._names['events']} "  # noqa: S608  # quoted names and constants
                f"SELECT {POSITION}, {EFFECT}, {key}, {keyed}, {values} FROM {source}"
            )

    def _check(self, schema: pa.Schema, markers: pa.ChunkedArray) -> None:
        """Raise StopsHere for what stops a table in Fabric."""
        if markers.null_count:
            raise StopsHere("it has rows without a known row marker")
        if not self._metadata.key_columns and pc.any(pc.not_equal(markers, 0)).as_py():
            raise StopsHere("it has updates or deletes, and the table has no key columns")
        found = {field.name.casefold() for field in schema}
        if missing := sorted(self._required - found):
            raise StopsHere(f"SchemaMergeFailure: required column {missing[0]} is missing")
        for field in schema:
            self._check_type(field)

    def _check_type(self, field: pa.Field) -> None:
        if pa.types.is_null(field.type):
            return
        name, found = field.name.casefold(), str(delta_type(field.type) or field.type)
        before = self._types.setdefault(name, found)
        if before != found:
            raise StopsHere(f"SchemaMergeFailure: column {field.name} has type {found} instead of {before}")
        if name not in self._kinds:
            self._kinds[name] = kind_of(field.type)
            if not field.nullable:
                self._required.add(name)

    def _is_compared(self, field: pa.Field) -> bool:
        other = self._other_kinds.get(field.name.casefold())
        return other is not None and other == self._kinds.get(field.name.casefold())

    def _apply(self) -> None:
        for statement in (_TOUCH, _REMOVE, _ADD):
            self._connection.execute(statement.format(**self._names))
        self._connection.execute(f"DELETE FROM {quoted(self._names['events'])}")  # noqa: S608  # a name of ours


def _reason(error: Exception) -> str:
    """Return why a file cannot be applied. DuckDB's strings can quote a value, so they are not shown."""
    return str(error) if isinstance(error, StopsHere) else f"its values cannot be read ({type(error).__name__})"
