"""The keys that a table has, file after file, and the changes that do not fit them.

Fabric raises nothing for an insert of a key that exists (it adds a second row), an update of a missing row (it inserts)
or a delete of a missing row (it does nothing). Such changes show that the publisher lost, repeated or reordered some.
Invariant: `live` holds the hash of each key that has a row after the last judged event.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import duckdb

from app.verify.codes import FindingCode
from app.verify.rows.duckdb_session import unique_name
from app.verify.rows.row_ranges import RANGES_PER_FINDING

MIN_GARBAGE_ROWS: Final = 1_000_000
"""Deleted keys after which `live` is rewritten, if they outnumber the live ones: DuckDB keeps their memory."""

_CREATE: Final = "CREATE TEMP TABLE {live} (key UHUGEINT)"

_JUDGE: Final = """
WITH ordered AS (
    SELECT file, row, marker, key, lag(marker) OVER history AS before, lag(file) OVER history AS before_file
    FROM {events} WHERE key IS NOT NULL AND marker IS NOT NULL
    WINDOW history AS (PARTITION BY key ORDER BY file, row)
), judged AS (
    SELECT file, row, marker, before_file,
           CASE WHEN before IS NULL THEN live.key IS NOT NULL ELSE before <> 2 END AS existed
    FROM ordered LEFT JOIN {live} AS live ON ordered.key = live.key
), faults AS (
    SELECT file, row, fault FROM {events} WHERE fault IS NOT NULL
    UNION ALL
    SELECT file, row, CASE
        WHEN marker = 0 AND existed AND before_file = file THEN '{duplicate_in_file}'
        WHEN marker = 0 AND existed THEN '{duplicate_insert}'
        WHEN marker = 1 AND NOT existed AND {complete} THEN '{update_of_missing_row}'
        WHEN marker = 2 AND NOT existed AND {complete} THEN '{delete_of_missing_row}'
    END FROM judged
), islands AS (
    SELECT file, fault, row, row - row_number() OVER (PARTITION BY file, fault ORDER BY row) AS island
    FROM faults WHERE fault IS NOT NULL
), ranges AS (
    SELECT file, fault, min(row) AS first, max(row) AS last, count(*) AS rows FROM islands GROUP BY file, fault, island
)
SELECT file, fault, sum(rows)::BIGINT, count(*),
       list(first ORDER BY first)[1:{ranges}], list(last ORDER BY first)[1:{ranges}]
FROM ranges GROUP BY file, fault ORDER BY file, fault
"""

_LAST: Final = """
CREATE OR REPLACE TEMP TABLE {last} AS
SELECT key, arg_max(marker, (file, row)) = 2 AS gone
FROM {events} WHERE key IS NOT NULL AND marker IS NOT NULL GROUP BY key
"""
_REMOVE: Final = "DELETE FROM {live} WHERE key IN (SELECT key FROM {last} WHERE gone)"
_ADD: Final = "INSERT INTO {live} SELECT key FROM {last} WHERE NOT gone AND key NOT IN (SELECT key FROM {live})"
_COMPACT: Final = "CREATE OR REPLACE TEMP TABLE {live} AS SELECT key FROM {live}"


@dataclass(frozen=True, slots=True)
class RowFault:
    """Rows of one file that have one fault: their count, and their first ranges as (first, last), from 1."""

    file: int
    code: FindingCode
    rows: int
    range_count: int
    ranges: tuple[tuple[int, int], ...]


class KeyHistory:
    """The live keys of one table, in a temporary table of a DuckDB connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Begin with no keys."""
        self._connection = connection
        self._live = unique_name("live")
        self._last = unique_name("last")
        self._garbage = 0
        connection.execute(_CREATE.format(live=self._live))

    def judge(self, events: str, *, complete: bool) -> Iterator[RowFault]:
        """Yield the faults of the collected events by file, and apply the events.

        `complete` tells whether all files before were read, so that a key without a row is a missing row.
        """
        names = {"events": events, "live": self._live, "last": self._last}
        codes = {code.value: code.value for code in FindingCode}
        statement = _JUDGE.format(**names, **codes, complete="TRUE" if complete else "FALSE", ranges=RANGES_PER_FINDING)
        found = self._connection.execute(statement).fetchall()
        self._apply(names)
        for file, code, rows, count, first, last in found:
            yield RowFault(file, FindingCode(code), rows, count, tuple(zip(first, last, strict=True)))

    def _apply(self, names: dict[str, str]) -> None:
        self._connection.execute(_LAST.format(**names))
        ((removed,),) = self._connection.execute(_REMOVE.format(**names)).fetchall()
        self._connection.execute(_ADD.format(**names))
        self._garbage += int(removed)
        if self._garbage >= MIN_GARBAGE_ROWS and self._garbage > self._size():
            self._connection.execute(_COMPACT.format(**names))
            self._garbage = 0

    def _size(self) -> int:
        ((size,),) = self._connection.execute(f"SELECT count(*) FROM {self._live}").fetchall()  # noqa: S608  # ours
        return int(size)
