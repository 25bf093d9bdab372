"""The difference between two versions of a mirrored table, by key: inserts, updates and deletes.

`between` and `of_file` find the two versions that a comparison is about: two that the user names, or those around a
landing file.

`compare_versions` takes the rows of the differing files on both sides and cancels equal rows, however often each
occurs. What is left is paired by key: a pair is an update, a row without a partner an insert or a delete. A key with
several rows, as row marker 0 makes them, is compared row by row. A table without a key has inserts and deletes only.
DuckDB does this in bounded memory and spills to disk (docs/contribute/decisions/0037-delta-mirror.md).

`differing_files` finds the data files that only one of the versions has. A commit replaces a few files and keeps the
others. Rows of a file that both versions have cancel out, so a comparison reads only the files that one of the versions
lacks; `rows_of` opens them as an Arrow dataset.

`change_columns` and `changes_of` build the SQL that compares two sets of rows by key. Columns have positions for names
inside the SQL (`c0`, `c1`, …), keys first, so that a column name of a user never meets a name of this module.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from app.mirror.inspection.history import (
    PointInTime,
    TableVersion,
    find_table,
    open_table,
    read_history,
    read_key_columns,
    reading,
    table_names,
)
from app.mirror.inspection.query import DEFAULT_MEMORY, SqlEngine, open_engine, text_literal
from app.mirror.target import MirrorTarget, arrow_dataset, live_files, quoted
from mirrorgate.errors import Code, RejectedInput

_BATCH_ROWS: Final = 1 << 15
"""Arrow reads 16 batches of 131,072 rows ahead of each of 4 files otherwise: gigabytes for wide rows."""


def differing_files(before: DeltaTable | None, after: DeltaTable) -> tuple[set[str], set[str]]:
    """Return the paths that only `before` has, and those that only `after` has. None has no files."""
    first = set() if before is None else live_files(before).keys()
    last = live_files(after).keys()
    return first - last, last - first


def rows_of(table: DeltaTable, paths: set[str]) -> pa.RecordBatchReader:
    """Return the rows of some data files of the open version, to read once, with few batches read ahead.

    Raises FileNotFoundError for the first file if it is gone, and OSError.
    """
    whole = arrow_dataset(table)
    fragments: list[Any] = [fragment for fragment in whole.get_fragments() if fragment.path in paths]
    if not fragments:
        return whole.schema.empty_table().to_reader()
    chosen = ds.FileSystemDataset(fragments, whole.schema, fragments[0].format, fragments[0].filesystem)
    return chosen.scanner(batch_size=_BATCH_ROWS, batch_readahead=2, fragment_readahead=1).to_reader()


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """The columns of two versions together. A column that one version lacks is NULL there."""

    keys: tuple[str, ...]
    others: tuple[str, ...]
    before: frozenset[str]
    after: frozenset[str]
    as_text: frozenset[str]
    """Columns whose type differs between the versions. They are compared as strings."""

    @classmethod
    def of(cls, before: pa.Schema, after: pa.Schema, key_columns: tuple[str, ...]) -> "ComparedColumns":
        """Join the columns of two schemas. Key columns that neither version has are left out."""
        names = [*after.names, *(name for name in before.names if name not in after.names)]
        folded = {name.casefold(): name for name in names}
        keys = tuple(folded[name.casefold()] for name in key_columns if name.casefold() in folded)
        both = [name for name in after.names if name in before.names]
        return cls(
            keys,
            tuple(name for name in names if name not in keys),
            frozenset(before.names),
            frozenset(after.names),
            frozenset(name for name in both if before.field(name).type != after.field(name).type),
        )

    @property
    def all(self) -> tuple[str, ...]:
        """Return the keys, then the other columns."""
        return (*self.keys, *self.others)

    def select(self, source: str, present: frozenset[str], side: int) -> str:
        """Return the SELECT of one side's rows, with `side` -1 or 1."""
        shown = []
        for place, name in enumerate(self.all):
            value = quoted(name) if name in present else "NULL"
            shown.append(f"{f'CAST({value} AS VARCHAR)' if name in self.as_text else value} AS c{place}")
        return f"SELECT {', '.join([*shown, f'{side} AS side'])} FROM {source}"  # noqa: S608  # quoted names


def change_columns(columns: ComparedColumns, before: str | None, after: str) -> str:
    """Return the statement that makes the table `changes` of two registered row sets. None means no rows.

    `changes` has the kind, the list of columns that differ, and for each column the value before (`b0`, …) and after
    (`a0`, …).
    """
    every = [f"c{place}" for place in range(len(columns.all))]
    keys = every[: len(columns.keys)]
    sides = [columns.select(after, columns.after, 1)]
    if before is not None:
        sides.append(columns.select(before, columns.before, -1))
    row, partition = ", ".join(every), ", ".join([*(keys or every), "n > 0"])
    same_key = " AND ".join(f"b.{key} IS NOT DISTINCT FROM a.{key}" for key in keys) or "false"
    differing = ", ".join(
        f"CASE WHEN b.c{place} IS DISTINCT FROM a.c{place} THEN {text_literal(name)} END"
        for place, name in enumerate(columns.all)
        if name not in columns.keys
    )
    changed = f"list_filter([{differing}], lambda name: name IS NOT NULL)" if differing else "[]"
    values = ", ".join(
        [*(f"b.{name} AS b{name[1:]}" for name in every), *(f"a.{name} AS a{name[1:]}" for name in every)]
    )
    return f"""
        CREATE TEMP TABLE changes AS
        WITH net AS (
            SELECT {row}, sum(side)::BIGINT AS n FROM ({" UNION ALL ".join(sides)}) GROUP BY {row} HAVING sum(side) <> 0
        ), numbered AS (
            SELECT {row}, n > 0 AS added, row_number() OVER (PARTITION BY {partition} ORDER BY {row}) AS place
            FROM (SELECT {row}, n, unnest(range(abs(n))) FROM net)
        )
        SELECT
            CASE WHEN b.place IS NULL THEN 'insert' WHEN a.place IS NULL THEN 'delete' ELSE 'update' END AS change,
            CASE WHEN b.place IS NULL OR a.place IS NULL THEN []::VARCHAR[] ELSE {changed} END AS changed,
            {values}
        FROM (SELECT * FROM numbered WHERE NOT added) AS b
        FULL JOIN (SELECT * FROM numbered WHERE added) AS a ON {same_key} AND b.place = a.place
    """  # noqa: S608  # quoted names


def changes_of(columns: ComparedColumns, limit: int | None) -> str:
    """Return the SELECT of kind, differing columns, key values, then values before and after of the other columns."""
    keys, count = range(len(columns.keys)), len(columns.all)
    shown = [f"CASE WHEN change = 'insert' THEN a{place} ELSE b{place} END" for place in keys]
    shown += [f"b{place}" for place in range(len(keys), count)] + [f"a{place}" for place in range(len(keys), count)]
    order = ", ".join(str(place + 3) for place in (keys or range(len(shown))))
    values = ", ".join(f"{one} AS v{place}" for place, one in enumerate(shown))
    end = "" if limit is None else f" LIMIT {limit}"
    return f"SELECT change, changed, {values} FROM changes ORDER BY {order}, change{end}"  # noqa: S608  # quoted names


_NO_ROWS: Final[Mapping[str, int]] = {"insert": 0, "update": 0, "delete": 0}


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """One changed row. `before` and `after` have the columns that differ, key columns excepted."""

    key: Mapping[str, Any]
    change: str
    """`insert`, `update` or `delete`."""
    columns: tuple[str, ...]
    """The columns in which an update differs, in the order of the table."""
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def to_json(self, *, show_values: bool) -> dict[str, Any]:
        """Return the change as `mirror diff --json` prints it."""
        shown: dict[str, Any] = {"key": self.key, "change": self.change, "columns": list(self.columns)}
        if show_values:
            shown["before"] = None if self.change == "insert" else self.before
            shown["after"] = None if self.change == "delete" else self.after
        return shown


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """The compared versions: counts, and changes in the order of the key."""

    counts: Mapping[str, int]
    """Changes by kind: `insert`, `update`, `delete`."""
    columns: ComparedColumns
    engine: SqlEngine

    def changes(self, limit: int | None = None) -> Iterator[ChangedRow]:
        """Read the changes, at most `limit`, in bounded memory."""
        if not any(self.counts.values()):
            return
        _, batches = self.engine.rows(changes_of(self.columns, limit))
        for batch in batches:
            for row in batch:
                yield self._change(row)

    def _change(self, row: tuple[Any, ...]) -> ChangedRow:
        kind, changed, *values = row
        keys, others = self.columns.keys, self.columns.others
        key, before = values[: len(keys)], values[len(keys) : len(keys) + len(others)]
        after = values[len(keys) + len(others) :]
        shown = [
            (name, old, new)
            for name, old, new in zip(others, before, after, strict=True)
            if kind != "update" or name in changed
        ]
        return ChangedRow(
            dict(zip(keys, key, strict=True)),
            kind,
            tuple(changed),
            {} if kind == "insert" else {name: old for name, old, _ in shown},
            {} if kind == "delete" else {name: new for name, _, new in shown},
        )


@contextmanager
def compare_versions(
    before: DeltaTable | None, after: DeltaTable, key_columns: tuple[str, ...], *, memory: str = DEFAULT_MEMORY
) -> Iterator[VersionDifference]:
    """Compare two open versions of one table. None as `before` is the table before its first version.

    Raises FileNotFoundError if a vacuum has removed a file of either version.
    """
    removed, added = differing_files(before, after)
    old = pa.table({}).to_reader() if before is None else rows_of(before, removed)
    new = rows_of(after, added)
    columns = ComparedColumns.of(old.schema, new.schema, key_columns)
    with open_engine(memory) as engine:
        if not removed and not added:
            yield VersionDifference(_NO_ROWS, columns, engine)
            return
        engine.run(change_columns(columns, None if before is None else engine.register(old), engine.register(new)))
        counted = engine.run("SELECT change, count(*) FROM changes GROUP BY change")
        yield VersionDifference({**_NO_ROWS, **dict(counted)}, columns, engine)


@dataclass(frozen=True, slots=True)
class VersionPair:
    """Two open versions of one table. `before` is None for the table before its first version."""

    before: DeltaTable | None
    after: DeltaTable
    key_columns: tuple[str, ...]
    described: str

    @contextmanager
    def compared(self, memory: str) -> Iterator[VersionDifference]:
        """Compare the versions. Raises RejectedInput `unknown_version` if a vacuum has removed files of one."""
        try:
            with (
                reading(self.described),
                compare_versions(self.before, self.after, self.key_columns, memory=memory) as found,
            ):
                yield found
        except duckdb.OutOfMemoryException as error:
            raise RejectedInput(Code.BAD_QUERY, str(error), remedy="Raise --memory, or free disk space.") from error


def between(target: MirrorTarget, table: str, first: PointInTime, last: PointInTime) -> VersionPair:
    """Return the pair of two versions or times. Raises RejectedInput `unknown_table` or `unknown_version`."""
    name = find_table(table_names(target), table)
    before, after = open_table(target, name, first), open_table(target, name, last)
    newer = max(before, after, key=DeltaTable.version)
    return VersionPair(
        before,
        after,
        read_key_columns(_history(target, name, newer)),
        f"{name}: version {before.version()} to {after.version()}",
    )


def of_file(target: MirrorTarget, table: str, number: int) -> VersionPair:
    """Return the version that applied a landing file, and the version before it.

    Raises RejectedInput `unknown_version` if no version that the log still has applied the file.
    """
    name = find_table(table_names(target), table)
    after = open_table(target, name)
    history = _history(target, name, after)
    found = next((one for one in history if one.files is not None and one.files[0] <= number <= one.files[1]), None)
    if found is None:
        applied = max((one.files[1] for one in history if one.files is not None), default=0)
        raise RejectedInput(Code.UNKNOWN_VERSION, f"{name} has no version of file {number}: its last file is {applied}")
    before = open_table(target, name, found.version - 1) if found.version else None
    return VersionPair(
        before, open_table(target, name, found.version), read_key_columns(history), _described(name, found)
    )


def _history(target: MirrorTarget, name: str, table: DeltaTable) -> list[TableVersion]:
    with reading(name):
        return read_history(target, table)


def _described(name: str, version: TableVersion) -> str:
    first, last = version.files or (0, 0)
    files = f"file {first}" if first == last else f"files {first}-{last}, applied in one version"
    return f"{name}: version {version.version}, {files}"
