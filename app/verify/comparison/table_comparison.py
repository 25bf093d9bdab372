"""The keys whose rows differ between a folded zone and a Delta table, by their hashes alone."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import duckdb

from app.verify.comparison.zone_fold import FoldedTable
from app.verify.rows.duckdb_session import unique_name

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
    """How a key differs."""

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
