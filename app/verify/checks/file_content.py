"""The content of one Parquet file: compression, row groups, and values that are too large."""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.landing.zone import LandingZone
from app.verify.checked_file import CheckedFile, RowGroup
from app.verify.codes import FindingCode
from app.verify.finding import Finding
from app.verify.footers import MAX_CELL_BYTES
from app.verify.table_view import TableView

CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
MIN_GROUP_ROWS: Final = 10_000
MIN_GROUP_BYTES: Final = 2**20
MIN_GROUPS: Final = 10
"""Row groups from which on their size is worth a finding."""
MAX_GROUP_BYTES: Final = 2**30

_BATCH_BYTES: Final = 32 * 2**20


def compression(_: LandingZone, view: TableView, read: CheckedFile) -> Iterator[Finding]:
    """Check the codecs of all columns."""
    unknown = sorted(read.footer.codecs - CODECS) if read.footer is not None else []
    if unknown:
        detail = f"compressed with {', '.join(unknown)}"
        yield view.finding(FindingCode.UNSUPPORTED_COMPRESSION, detail, read.file.path)


def row_groups(_: LandingZone, view: TableView, read: CheckedFile) -> Iterator[Finding]:
    """Check the size of row groups. Few rows are no fault if they have many bytes, or if the file has no more."""
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
