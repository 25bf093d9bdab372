"""The row checks of one table: reads each file once, in order, and reports rows that do not fit.

Rows are judged in groups of files, because a query per small file would cost more than its rows. Only files that
Fabric applies one after the other are followed: after a missing or unreadable file, keys are no longer compared with
earlier files, since the changes between are unknown.

Fabric raises nothing for an insert of a key that exists (it adds a second row), an update of a missing row (it inserts)
or a delete of a missing row (it does nothing). Such changes show that the publisher lost, repeated or reordered some.
Invariant: `KeyHistory.live` holds the hash of each key that has a row after the last judged event.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import duckdb

from app.landing.zone import LandingZone
from app.published.data_file import read_chunks
from app.published.table_files import DataFile, PublishedTable
from app.published.table_metadata import TableMetadata, UnreadableFile
from mirrorgate_zone.verify.change_events import ChangeEvents, connect, unique_name
from mirrorgate_zone.verify.codes import Finding, FindingCode
from mirrorgate_zone.verify.file_reading import CheckedFile

RANGES_PER_FINDING: Final = 3


def describe_rows(ranges: Sequence[tuple[int, int]], range_count: int) -> str:
    """Return the first ranges of row numbers as text."""
    texts = [f"{first:,}" if first == last else f"{first:,}-{last:,}" for first, last in ranges]
    noun = "row" if range_count == 1 and ranges[0][0] == ranges[0][1] else "rows"
    more = " and more" if range_count > len(ranges) else ""
    return f"{noun} {', '.join(texts)}{more}"


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

        `complete`: True if all files before were read, so that a key without a row is a missing row.
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


GROUP_ROWS: Final = 1_000_000
"""Rows after which the collected files are judged. A file is never divided."""

MAX_FILES_PER_CODE: Final = 20
"""Files of a table that are reported with one code. Further ones are counted."""


class RowCheck:
    """Check of a table's rows. Keeps the contract of `RowChecks`."""

    def __init__(self, zone: LandingZone, table: PublishedTable, metadata: TableMetadata | None) -> None:
        """Read nothing, and open nothing before the first file."""
        self._zone = zone
        self._table = str(table)
        self._metadata = metadata or TableMetadata(())
        self._has_metadata = metadata is not None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._files: list[str] = []
        self._waiting_rows = 0
        self._sequence = _Sequence(self._metadata.is_ordered_by_time)
        self._reported: Counter[FindingCode] = Counter()
        self._late: list[Finding] = []
        """Result of `finish`, which it repeats when it is called again."""

    def add_file(self, file: CheckedFile) -> Iterator[Finding]:
        """Read the rows of a file. Yield what is found, which can be about an earlier file."""
        follows = self._sequence.add(file.file)
        index = len(self._files)
        self._files.append(file.file.path)
        events, _ = self._open()
        try:
            chunks = read_chunks(self._zone, file.file, self._metadata)
            self._waiting_rows += events.add(index, chunks, self._metadata, follows=follows)
        except (UnreadableFile, duckdb.Error, OSError) as error:
            events.remove(index)
            self._sequence.is_broken = True
            if isinstance(error, OSError):
                raise
            yield self._finding(FindingCode.ROWS_UNREADABLE, _reason(error), file.file.path)
        if self._waiting_rows >= GROUP_ROWS:
            yield from self._judge()

    def finish(self) -> Iterator[Finding]:
        """Judge the waiting files, and say how much was not reported."""
        self._late += self._judge()
        yield from self._late
        for code, files in self._reported.items():
            if files > MAX_FILES_PER_CODE:
                yield self._finding(code, f"{files - MAX_FILES_PER_CODE:,} more files have such rows")

    def close(self) -> None:
        """Close the connection, which drops its temporary tables."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> tuple[ChangeEvents, KeyHistory]:
        if self._connection is None:
            self._connection = connect()
            self._events = ChangeEvents(self._connection, unique_name("events"))
            self._events.create()
            self._history = KeyHistory(self._connection)
        return self._events, self._history

    def _judge(self) -> Iterator[Finding]:
        if not self._waiting_rows:
            return
        events, history = self._open()
        faults = list(history.judge(events.name, complete=self._sequence.from_the_start))
        events.clear()
        self._waiting_rows = 0
        for fault in faults:
            if fault.code is FindingCode.MARKER_WITHOUT_KEYS and not self._has_metadata:
                continue  # missing metadata is one finding, not one per file
            self._reported[fault.code] += 1
            if self._reported[fault.code] <= MAX_FILES_PER_CODE:
                yield self._finding(fault.code, _describe(fault), self._files[fault.file])

    def _finding(self, code: FindingCode, detail: str, file: str | None = None) -> Finding:
        return Finding(code, detail, self._table, file)


class _Sequence:
    """Files that follow each other without a gap."""

    def __init__(self, by_time: bool) -> None:
        self._by_time = by_time
        self._next: dict[str, int] = {}
        """The number that follows in each partition; there is one in a table without partitions."""
        self.is_broken = False
        """True if changes are missing, so that later files cannot be compared with earlier ones."""
        self.from_the_start = True
        """True if the first file is the table's first: without it, no row is known to be missing."""

    def add(self, file: DataFile) -> bool:
        """Return whether the changes of a file can be compared with those of the files before."""
        if not self._by_time:
            if file.number is None:
                return False  # Fabric ignores the file
            if file.partition not in self._next:
                self.from_the_start &= file.number == 1
            elif file.number != self._next[file.partition]:
                self.is_broken = True
            self._next[file.partition] = file.number + 1
        return not self.is_broken


def _describe(fault: RowFault) -> str:
    count = f"{fault.rows:,} row" + ("" if fault.rows == 1 else "s")
    return f"{count}: {describe_rows(fault.ranges, fault.range_count)}"


def _reason(error: UnreadableFile | duckdb.Error | OSError) -> str:
    """Return why a file cannot be read. DuckDB's strings can quote a value, so they are not shown."""
    return error.reason if isinstance(error, UnreadableFile) else f"its values cannot be read ({type(error).__name__})"
