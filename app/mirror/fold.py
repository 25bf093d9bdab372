"""What landing files do to a table: which keys lose their rows, and which rows are appended.

Rows are applied in order (Microsoft's *Landing zone requirements and formats*): marker 0 appends, also when the key
exists; 1 and 4 replace the rows of the key; 2 deletes them. Per key, only the last replacement or deletion and the
appends after it remain. DuckDB finds them with one window over keys, markers and positions, so no row passes Python.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from app.errors import Code, InvariantBroken

INSERT: Final = 0
UPDATE: Final = 1
DELETE: Final = 2
UPSERT: Final = 4

_OF_THREAD: Final = threading.local()


@dataclass(frozen=True, slots=True)
class Effect:
    """What some files do to a table."""

    deleted_keys: pa.Table | None
    """The key columns of each key whose present rows go, each key once; None if there is none."""
    rows: pa.Table
    """The rows that are appended afterwards, in order."""


def fold(rows: pa.Table, markers: pa.ChunkedArray, key_columns: Sequence[str]) -> Effect:
    """Reduce rows with their markers (int32, no NULL) to their effect.

    A key with a NULL equals no other, as in SQL: its update is an insert, its delete does nothing.
    Raise InvariantBroken `mirror_key_missing` for markers other than 0 without key columns.
    """
    if not pc.any(pc.not_equal(markers, INSERT)).as_py():
        return Effect(None, rows)
    if not key_columns:
        raise InvariantBroken(
            Code.MIRROR_KEY_MISSING, "updates, deletes and upserts are in files of a table without key columns"
        )
    found = _decide(rows.select(list(key_columns)), markers)
    deleted = rows.select(list(key_columns)).filter(found.column("is_last"))
    return Effect(deleted if deleted.num_rows else None, rows.filter(found.column("stays")))


def _decide(keys: pa.Table, markers: pa.ChunkedArray) -> pa.Table:
    """Return two bool columns, a value per row: whether it is its key's last change, and whether it stays."""
    names = [f"k{number}" for number in range(keys.num_columns)]
    columns = [*keys.columns, markers, pa.array(range(keys.num_rows), pa.int64())]
    changes = pa.table(columns, names=[*names, "marker", "position"])
    is_null = " OR ".join(f"{name} IS NULL" for name in names)
    query = f"""
        WITH ranked AS (
            SELECT position, marker, {is_null} AS keyless,
                max(position) FILTER (marker <> {INSERT}) OVER (
                    PARTITION BY {", ".join(names)}, CASE WHEN {is_null} THEN position END
                ) AS last
            FROM changes
        )
        SELECT coalesce(position = last AND NOT keyless, false) AS is_last,
            last IS NULL OR position > last OR (position = last AND marker <> {DELETE}) AS stays
        FROM ranked ORDER BY position
    """  # noqa: S608  # names and numbers of this module
    connection = _connection()
    connection.register("changes", changes)
    try:
        found: pa.Table = connection.sql(query).to_arrow_table()
    finally:
        connection.unregister("changes")
    return found


def _connection() -> duckdb.DuckDBPyConnection:
    """Return this thread's DuckDB: opening one takes 20 ms, ten times as long as a small query."""
    if not hasattr(_OF_THREAD, "connection"):
        _OF_THREAD.connection = duckdb.connect()
    found: duckdb.DuckDBPyConnection = _OF_THREAD.connection
    return found
