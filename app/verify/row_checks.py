"""Where checks that read rows plug in: one object per table and kind of check, which sees the files in their order."""

from collections.abc import Iterator
from typing import Final, Protocol

from app.landing.zone import LandingZone
from app.published.table_folders import PublishedTable
from app.published.table_metadata import TableMetadata
from app.verify.checked_file import CheckedFile
from app.verify.finding import Finding
from app.verify.rows.row_check import RowCheck


class RowChecks(Protocol):
    """Checks the rows of one table, file after file in the order in which they are applied.

    `--follow` keeps the object between its rounds. OSError and UnreadableFile become findings about the file; the
    object is used for later files nevertheless.
    """

    def add_file(self, file: CheckedFile) -> Iterator[Finding]:
        """Yield the findings about a file. Called once for each readable file."""
        ...

    def finish(self) -> Iterator[Finding]:
        """Yield the findings about all files so far. Can be called again, after more files."""
        ...

    def close(self) -> None:
        """Free what the checks hold."""
        ...


class RowCheckFactory(Protocol):
    """Starts the row checks of a table."""

    def __call__(self, zone: LandingZone, table: PublishedTable, metadata: TableMetadata | None) -> RowChecks:
        """Return the checks. Metadata that is missing or damaged is None; it is reported elsewhere."""
        ...


ROW_CHECKS: Final[tuple[RowCheckFactory, ...]] = (RowCheck,)
"""The checks that every run makes."""
