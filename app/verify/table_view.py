"""The view of one table at one moment for its checks: its folder, its metadata and its readable files without rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.domain.model.names import ROW_MARKER
from app.landing.zone import Entry
from app.published.table_files import DataFile, PublishedTable, TableFiles
from app.published.table_metadata import TableMetadata
from app.verify.codes import FindingCode
from app.verify.finding import Finding


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file."""

    name: str
    type: str | None
    """The type that the column gets in a Delta table, such as `long`; None if there is none for it."""
    stored: str
    """The type as Arrow names it, such as `uint32`."""
    required: bool
    """True if the file declares it as REQUIRED (not nullable)."""

    @property
    def is_marker(self) -> bool:
        """True if it is the row marker, in any letter case."""
        return self.name.casefold() == ROW_MARKER.casefold()


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows and uncompressed bytes of a row group; `large` names columns in which a value can be over the limit."""

    rows: int
    bytes: int
    large: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileFooter:
    """The footer of a Parquet file, apart from its columns."""

    rows: int
    row_groups: tuple[RowGroup, ...]
    codecs: frozenset[str]
    """As Parquet names them, such as `ZSTD`."""
    marker_range: tuple[int, int] | None
    """Lowest and highest row marker, by the statistics; None if they do not say."""


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A data file that can be read, as far as its listing and its footer tell."""

    file: DataFile
    bytes: int
    modified: datetime | None
    columns: tuple[FileColumn, ...]
    """In the file's order, row marker included. Files with the same columns share one tuple."""
    footer: FileFooter | None
    """None for delimited text."""

    @property
    def marker(self) -> FileColumn | None:
        """The row marker column, in any letter case."""
        return next((column for column in self.columns if column.is_marker), None)

    def data_columns(self) -> Iterator[FileColumn]:
        """Yield the columns without the row marker."""
        return (column for column in self.columns if not column.is_marker)


@dataclass(frozen=True, slots=True)
class TableView:
    """A table at the moment of its listing."""

    table: PublishedTable
    entries: Mapping[str, Entry]
    """Entries below the table folder and below the folders of consumed files, by path in the zone."""
    files: TableFiles
    metadata: TableMetadata | None
    """None for metadata that is missing or damaged."""
    damage: str | None
    """Reason why there is no metadata."""
    checked: Sequence[CheckedFile]
    """The readable files in the order in which they are applied; empty before they are read."""
    now: datetime

    def finding(self, code: FindingCode, detail: str, file: str | None = None) -> Finding:
        """Return a finding about the table, or about a file of it, given by its path."""
        return Finding(code, detail, str(self.table), file)

    def ordered_files(self) -> list[DataFile]:
        """Return all data files in the order in which they are applied: by number, then by time and name.

        Partitions follow each other by their names: their order is not defined.
        """
        by_time = self.metadata is not None and self.metadata.is_ordered_by_time
        folders = [self.files, *self.files.partitions.values()]
        numbered = [file for files in folders for file in files.numbered.values()]
        others = [file for files in folders for file in files.unnumbered]
        if by_time:
            numbered, others = [], numbered + others
        return numbered + sorted(others, key=lambda file: (self.modified(file) or self.now, file.name))

    def repeated_files(self) -> list[DataFile]:
        """Return the further files of numbers that other files have."""
        return [file for files in (self.files, *self.files.partitions.values()) for file in files.repeated]

    def modified(self, file: DataFile) -> datetime | None:
        """Return when a file was last changed, None if the store does not say."""
        entry = self.entries.get(file.path)
        return None if entry is None else entry.modified
