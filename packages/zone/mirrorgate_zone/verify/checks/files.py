"""The content of data files, their columns, how these change from file to file, and how fast files are published.

Files with the same columns are checked once, at the first of them. Columns of later files are compared by the rules by
which Fabric merges schemas.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.domain.model.names import ROW_MARKER, TableName
from app.landing.zone import LandingZone
from app.published.data_file import CODECS
from mirrorgate.errors import RejectedInput
from mirrorgate_zone.verify.codes import Finding, FindingCode
from mirrorgate_zone.verify.file_reading import MAX_CELL_BYTES, CheckedFile, FileColumn, RowGroup, TableView

MIN_GROUP_ROWS: Final = 10_000
MIN_GROUP_BYTES: Final = 2**20
MIN_GROUPS: Final = 10
"""Row groups from which on their size is worth a finding."""
MAX_GROUP_BYTES: Final = 2**30

_BATCH_BYTES: Final = 32 * 2**20
_MAX_NAME: Final = 100


def compression(_: LandingZone, view: TableView, read: CheckedFile) -> Iterator[Finding]:
    """Check the codecs of all columns."""
    unknown = sorted(read.footer.codecs - CODECS) if read.footer is not None else []
    if unknown:
        detail = f"compressed with {', '.join(unknown)}"
        yield view.finding(FindingCode.UNSUPPORTED_COMPRESSION, detail, read.file.path)


def identity(_: LandingZone, view: TableView, read: CheckedFile) -> Iterator[Finding]:
    """Check that a file of a gateway is where the gateway published it, by its footer."""
    found = read.footer.identity if read.footer is not None else None
    if found is None:
        return
    try:
        is_here = TableName.parse(found.table).folder == view.table.folder and found.number == read.file.number
    except RejectedInput:
        is_here = False
    if not is_here:
        detail = f"its footer says that it is file {found.number} of {found.table[:_MAX_NAME]!r}"
        yield view.finding(FindingCode.MISPLACED_FILE, detail, read.file.path)


def row_groups(_: LandingZone, view: TableView, read: CheckedFile) -> Iterator[Finding]:
    """Check the size of row groups. Few rows are not a fault if they have many bytes, or if the file has no more."""
    groups = read.footer.row_groups if read.footer is not None else ()
    count = len(groups)
    rows, size = sum(group.rows for group in groups), sum(group.bytes for group in groups)
    if count >= MIN_GROUPS and rows < MIN_GROUP_ROWS * count and size < MIN_GROUP_BYTES * count:
        detail = f"{count:,} row groups of {rows // count:,} rows on average"
        yield view.finding(FindingCode.SMALL_ROW_GROUPS, detail, read.file.path)
    largest = max((group.bytes for group in groups), default=0)
    if largest > MAX_GROUP_BYTES:
        detail = f"the largest row group has {largest / 2**30:.1f} GiB"
        yield view.finding(FindingCode.LARGE_ROW_GROUP, detail, read.file.path)


def large_cells(zone: LandingZone, view: TableView, read: CheckedFile) -> Iterator[Finding]:
    """Look for values over the limit, in the columns whose size in the footer makes one possible."""
    groups = read.footer.row_groups if read.footer is not None else ()
    suspects = {name for group in groups for name in group.large}
    if not suspects:
        return
    with zone.read_file(read.file.path) as opened:
        content = pq.ParquetFile(opened, read_dictionary=sorted(suspects))
        for name in sorted(suspects):
            longest = max(
                _longest(content, number, name, group) for number, group in enumerate(groups) if name in group.large
            )
            if longest > MAX_CELL_BYTES:
                detail = f"column {name!r} has a value of {longest / 2**20:.1f} MiB"
                yield view.finding(FindingCode.LARGE_CELL, detail, read.file.path)


def _longest(content: pq.ParquetFile, number: int, name: str, group: RowGroup) -> int:
    """Return the size of the longest value in a column of a row group, read in batches of bounded size."""
    rows = max(1, int(_BATCH_BYTES / max(1, group.bytes / max(1, group.rows))))
    longest = 0
    for batch in content.iter_batches(batch_size=rows, row_groups=[number], columns=[name]):
        column = batch.column(0)
        values = column.dictionary if isinstance(column, pa.DictionaryArray) else column
        if pa.types.is_nested(values.type):
            return 0
        longest = max(longest, pc.max(pc.binary_length(values)).as_py() or 0)
    return longest


_LIKE_MARKER: Final = frozenset({"rowmarker"})
_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})
_DOUBTFUL: Final = ("halffloat", "uint64", "time32[", "time64[", "timestamp[ns")


def column_layouts(view: TableView) -> Iterator[Finding]:
    """Check the row marker, and names and types of the columns."""
    for file in _first_of_each_layout(view):
        for code, detail in [*_marker(file), *_names(file), *_types(file)]:
            yield view.finding(code, detail, file.file.path)


def key_columns(view: TableView) -> Iterator[Finding]:
    """Check that each file has the key columns that the metadata names."""
    keys = view.metadata.key_columns if view.metadata is not None else ()
    for file in _first_of_each_layout(view):
        names = {column.name for column in file.data_columns()}
        folded = {name.casefold(): name for name in names}
        for key in keys:
            if key in names:
                continue
            if key.casefold() in folded:
                detail = f"the metadata has {key!r}, the file has {folded[key.casefold()]!r}"
                yield view.finding(FindingCode.KEY_DIFFERS_IN_CASE, detail, file.file.path)
            else:
                detail = f"the file has no column {key!r}, which keyColumns names"
                yield view.finding(FindingCode.KEY_NOT_A_COLUMN, detail, file.file.path)


def _first_of_each_layout(view: TableView) -> Iterator[CheckedFile]:
    seen: set[tuple[FileColumn, ...]] = set()
    for file in view.checked:
        if file.columns not in seen:
            seen.add(file.columns)
            yield file


def _marker(file: CheckedFile) -> Iterator[tuple[FindingCode, str]]:
    marker = file.marker
    if marker is None:
        for column in file.columns:
            if "".join(filter(str.isalnum, column.name)).casefold() in _LIKE_MARKER:
                yield FindingCode.MARKER_MISSPELLED, f"the column is named {column.name!r}"
        return
    if marker.name != ROW_MARKER:
        yield FindingCode.MARKER_CASE, f"the column is named {marker.name!r}"
    if file.columns[-1] is not marker:
        position = file.columns.index(marker) + 1
        yield FindingCode.MARKER_NOT_LAST, f"it is column {position} of {len(file.columns)}"
    # Delimited text has no types: whether a marker is a number there, only its values say.
    if file.footer is not None and marker.type not in _INTEGERS:
        yield FindingCode.MARKER_TYPE, f"its type is {marker.stored}"


def _names(file: CheckedFile) -> Iterator[tuple[FindingCode, str]]:
    seen: dict[str, str] = {}
    for column in file.columns:
        if not column.name.strip():
            yield FindingCode.BLANK_COLUMN_NAME, f"the name of column {file.columns.index(column) + 1} is blank"
        elif (other := seen.setdefault(column.name.casefold(), column.name)) != column.name:
            yield FindingCode.COLUMNS_DIFFER_IN_CASE, f"{other!r} and {column.name!r}"
    names = [column.name for column in file.columns]
    for name in sorted({name for name in names if names.count(name) > 1 and name.strip()}):
        yield FindingCode.COLUMNS_DIFFER_IN_CASE, f"{names.count(name)} columns are named {name!r}"
    if not any(not column.is_marker for column in file.columns):
        yield FindingCode.NO_COLUMNS, "the file has no data column"


def _types(file: CheckedFile) -> Iterator[tuple[FindingCode, str]]:
    for column in file.data_columns():
        if column.type is None:
            yield FindingCode.UNSUPPORTED_TYPE, f"column {column.name!r} has type {column.stored}"
        elif column.stored.startswith(_DOUBTFUL):
            yield FindingCode.DOUBTFUL_TYPE, f"column {column.name!r} has type {column.stored}"


@dataclass(slots=True)
class _TableColumn:
    """A column of the table so far: its first name and type, and where it was last missing."""

    name: str
    type: str | None
    required: bool
    is_missing: bool = False


def schema_history(view: TableView) -> Iterator[Finding]:
    """Compare each file with the union of the columns of all earlier files."""
    table: dict[str, _TableColumn] = {}
    former: tuple[FileColumn, ...] | None = None
    is_text = view.metadata is not None and view.metadata.is_delimited_text
    for file in view.checked:
        if file.footer is None and not is_text:
            continue  # text among Parquet files, which is reported and has no types to compare
        # Files with equal columns share one tuple, so most files cost one comparison.
        if file.columns is not former:
            for code, detail in [*_changed(table, file, is_first=former is None), *_missing(table, file)]:
                yield view.finding(code, detail, file.file.path)
            former = file.columns


def _changed(table: dict[str, _TableColumn], file: CheckedFile, *, is_first: bool) -> Iterator[tuple[FindingCode, str]]:
    """Check the file's columns against the table's, and add the new ones to it."""
    # Of columns that differ in letter case only, the first one counts.
    columns = {column.name.casefold(): column for column in reversed([*file.data_columns()])}
    for column in reversed(columns.values()):
        known = table.get(column.name.casefold())
        if known is None:
            table[column.name.casefold()] = _TableColumn(column.name, column.type, column.required)
            if column.required and not is_first:
                yield FindingCode.NEW_REQUIRED_COLUMN, f"column {column.name!r} is new and REQUIRED"
            continue
        if None not in (known.type, column.type) and known.type != column.type:
            detail = f"column {column.name!r} was {known.type} and is {column.type}: SchemaMergeFailure"
            yield FindingCode.TYPE_CHANGED, detail
        if known.name != column.name:
            yield FindingCode.COLUMN_CASE_CHANGED, f"column {known.name!r} is now {column.name!r}"
        known.required = known.required and column.required
        known.is_missing = False


def _missing(table: dict[str, _TableColumn], file: CheckedFile) -> Iterator[tuple[FindingCode, str]]:
    """Find columns of the table that the file lacks, once until they are back."""
    present = {column.name.casefold() for column in file.data_columns()}
    for folded, known in table.items():
        if folded not in present and not known.is_missing:
            known.is_missing = True
            if known.required:
                yield FindingCode.REQUIRED_COLUMN_MISSING, f"the file lacks {known.name!r}, which is REQUIRED"
            else:
                yield FindingCode.COLUMN_MISSING, f"the file lacks {known.name!r}"


MAX_FILES_PER_SECOND: Final = 0.8
PACE_FILES: Final = 200
"""Files in a row whose pace is measured: a short burst is not a fault."""
COPIED_SECONDS: Final = 60
"""Span of modification times below which they are more likely those of a copy of the zone."""
TINY_FILES: Final = 500
TINY_BYTES: Final = 256 * 2**10
BARE_ROWS: Final = 100_000
"""Rows from which on the fast path is worth the advice."""


def pace(view: TableView) -> Iterator[Finding]:
    """Find a stretch of files that were published faster than a table absorbs."""
    times = sorted(file.modified.timestamp() for file in view.checked if file.modified is not None)
    if len(times) < PACE_FILES or times[-1] - times[0] < COPIED_SECONDS:
        return
    spans = (last - first for first, last in zip(times, times[PACE_FILES - 1 :], strict=False))
    rate = (PACE_FILES - 1) / max(min(spans), 1.0)
    if rate > MAX_FILES_PER_SECOND:
        detail = f"{PACE_FILES} files in a row came at {rate:.1f} a second"
        yield view.finding(FindingCode.TOO_MANY_FILES_PER_SECOND, detail)


def tiny_files(view: TableView) -> Iterator[Finding]:
    """Find a table of many files with little in them."""
    count = len(view.checked)
    average = sum(file.bytes for file in view.checked) / max(count, 1)
    if count >= TINY_FILES and average < TINY_BYTES:
        detail = f"{count:,} files of {average / 2**10:,.1f} KiB on average"
        yield view.finding(FindingCode.MANY_TINY_FILES, detail)


def bare_files(view: TableView) -> Iterator[Finding]:
    """Find an insert-only table whose files have a row marker nevertheless."""
    footers = [file.footer for file in view.checked if file.footer is not None and file.footer.rows]
    rows = sum(footer.rows for footer in footers)
    if rows >= BARE_ROWS and all(footer.marker_range == (0, 0) for footer in footers):
        yield view.finding(FindingCode.BARE_FILES_FASTER, f"all {rows:,} rows have row marker 0")
