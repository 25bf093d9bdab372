"""The row checks of one table: reads each file once, in order, and reports rows that do not fit.

Rows are judged in groups of files, because a query per small file would cost more than its rows. Only files that
Fabric applies one after the other are followed: after a missing or unreadable file, keys are no longer compared with
earlier files, since the changes between are unknown.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import duckdb

from app.landing.zone import LandingZone
from app.published.data_file import read_chunks
from app.published.table_files import DataFile
from app.published.table_folders import PublishedTable
from app.published.table_metadata import TableMetadata
from app.published.unreadable import UnreadableFile
from app.verify.checked_file import CheckedFile
from app.verify.codes import FindingCode
from app.verify.finding import Finding
from app.verify.rows.change_events import ChangeEvents
from app.verify.rows.duckdb_session import connect, unique_name
from app.verify.rows.key_history import KeyHistory, RowFault
from app.verify.rows.row_ranges import describe_rows

GROUP_ROWS: Final = 1_000_000
"""Rows after which the collected files are judged. A file is never divided."""

MAX_FILES_PER_CODE: Final = 20
"""Files of a table that are reported with one code. Further ones are counted."""


class RowCheck:
    """Checks the rows of a table. Keeps the contract of `RowChecks`."""

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
        """What `finish` found, which it repeats when it is called again."""

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
    """Tells which files follow each other without a gap."""

    def __init__(self, by_time: bool) -> None:
        self._by_time = by_time
        self._next: int | None = None
        self.is_broken = False
        """Whether changes are missing, so that later files cannot be compared with earlier ones."""
        self.from_the_start = True
        """Whether the first file is the table's first: without it, no row is known to be missing."""

    def add(self, file: DataFile) -> bool:
        """Return whether the changes of a file can be compared with those of the files before."""
        if not self._by_time:
            if file.number is None:
                return False  # Fabric ignores the file
            if self._next is None:
                self.from_the_start = file.number == 1
            elif file.number != self._next:
                self.is_broken = True
            self._next = file.number + 1
        return not self.is_broken


def _describe(fault: RowFault) -> str:
    count = f"{fault.rows:,} row" + ("" if fault.rows == 1 else "s")
    return f"{count}: {describe_rows(fault.ranges, fault.range_count)}"


def _reason(error: UnreadableFile | duckdb.Error | OSError) -> str:
    """Return why a file cannot be read. DuckDB's texts can quote a value, so they are not shown."""
    return error.reason if isinstance(error, UnreadableFile) else f"its values cannot be read ({type(error).__name__})"
