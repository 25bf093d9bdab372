"""How a table is published: pace, size of files, and whether Fabric can take the fast path for inserts."""

from collections.abc import Iterator
from typing import Final

from app.verify.codes import FindingCode
from app.verify.finding import Finding
from app.verify.table_view import TableView

MAX_FILES_PER_SECOND: Final = 0.8
PACE_FILES: Final = 200
"""Files in a row whose pace is measured: a short burst is no fault."""
COPIED_SECONDS: Final = 60
"""If all files of a table are from one minute, the times are more likely those of a copy of the zone."""
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
