"""What the checks know of a readable data file without its rows: its listing, its columns and its footer."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from app.domain.model.names import ROW_MARKER
from app.published.table_files import DataFile


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file."""

    name: str
    type: str | None
    """The type that the column gets in a Delta table, such as `long`; None if there is none for it."""
    stored: str
    """The type as Arrow names it, such as `uint32`."""
    required: bool
    """Whether the file declares it as REQUIRED (not nullable)."""

    @property
    def is_marker(self) -> bool:
        """Whether it is the row marker, in any letter case."""
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
