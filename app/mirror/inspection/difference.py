"""What happened to a mirrored table between two versions, by key: inserts, updates and deletes.

The comparison takes the rows of the differing files on both sides and cancels equal rows, however often each occurs.
What is left is paired by key: a pair is an update, a row without a partner an insert or a delete. A key with several
rows, as row marker 0 makes them, is compared row by row. A table without a key has inserts and deletes only.
DuckDB does this in bounded memory and spills to disk (docs/decisions/0037-delta-mirror.md).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from app.mirror.inspection.changed_files import differing_files, rows_of
from app.mirror.inspection.difference_sql import ComparedColumns, change_columns, changes_of
from app.mirror.inspection.sql_engine import DEFAULT_MEMORY, SqlEngine, open_engine

_NO_ROWS: Final[Mapping[str, int]] = {"insert": 0, "update": 0, "delete": 0}


@dataclass(frozen=True, slots=True)
class Change:
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
class Difference:
    """The compared versions: counts, and changes in the order of the key."""

    counts: Mapping[str, int]
    """Changes by kind: `insert`, `update`, `delete`."""
    columns: ComparedColumns
    engine: SqlEngine

    def changes(self, limit: int | None = None) -> Iterator[Change]:
        """Read the changes, at most `limit`, in bounded memory."""
        if not any(self.counts.values()):
            return
        _, batches = self.engine.rows(changes_of(self.columns, limit))
        for batch in batches:
            for row in batch:
                yield self._change(row)

    def _change(self, row: tuple[Any, ...]) -> Change:
        kind, changed, *values = row
        keys, others = self.columns.keys, self.columns.others
        key, before = values[: len(keys)], values[len(keys) : len(keys) + len(others)]
        after = values[len(keys) + len(others) :]
        shown = [
            (name, old, new)
            for name, old, new in zip(others, before, after, strict=True)
            if kind != "update" or name in changed
        ]
        return Change(
            dict(zip(keys, key, strict=True)),
            kind,
            tuple(changed),
            {} if kind == "insert" else {name: old for name, old, _ in shown},
            {} if kind == "delete" else {name: new for name, _, new in shown},
        )


@contextmanager
def compare_versions(
    before: DeltaTable | None, after: DeltaTable, key_columns: tuple[str, ...], *, memory: str = DEFAULT_MEMORY
) -> Iterator[Difference]:
    """Compare two open versions of one table. None as `before` is the table before its first version.

    Raises FileNotFoundError if a vacuum has removed a file of either version.
    """
    removed, added = differing_files(before, after)
    old = pa.table({}).to_reader() if before is None else rows_of(before, removed)
    new = rows_of(after, added)
    columns = ComparedColumns.of(old.schema, new.schema, key_columns)
    with open_engine(memory) as engine:
        if not removed and not added:
            yield Difference(_NO_ROWS, columns, engine)
            return
        engine.run(change_columns(columns, None if before is None else engine.register(old), engine.register(new)))
        counted = engine.run("SELECT change, count(*) FROM changes GROUP BY change")
        yield Difference({**_NO_ROWS, **dict(counted)}, columns, engine)
