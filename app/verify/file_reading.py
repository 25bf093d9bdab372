"""One look at one data file: its columns and footer, or what keeps it from being read."""

from typing import Final

from app.landing.zone import Entry, LandingZone
from app.published.data_file import is_delimited_text, read_schema
from app.published.table_files import DataFile
from app.published.table_metadata import TableMetadata
from app.published.unreadable import UnreadableFile
from app.verify.checked_file import CheckedFile, FileColumn, FileFooter
from app.verify.codes import FindingCode
from app.verify.column_types import delta_type
from app.verify.footers import BrokenFile, read_footer

MAX_TEXT_BYTES: Final = 256 * 2**20
"""The largest file of delimited text that is read: it has no footer, and is in memory as a whole."""


def read_file(zone: LandingZone, file: DataFile, entry: Entry, metadata: TableMetadata | None) -> CheckedFile:
    """Return what the footer says. Raise BrokenFile for a file that cannot be read, OSError if the store fails."""
    if entry.size == 0:
        raise BrokenFile(FindingCode.ZERO_BYTE_FILE, "the file has 0 bytes")
    if is_delimited_text(file):
        columns, footer = _text_columns(zone, file, entry, metadata or TableMetadata(())), None
    else:
        columns, footer = _parquet(zone, file)
    return CheckedFile(file, entry.size, entry.modified, columns, footer)


def _parquet(zone: LandingZone, file: DataFile) -> tuple[tuple[FileColumn, ...], FileFooter]:
    with zone.read_file(file.path) as opened:
        return read_footer(opened)


def _text_columns(zone: LandingZone, file: DataFile, entry: Entry, metadata: TableMetadata) -> tuple[FileColumn, ...]:
    if entry.size > MAX_TEXT_BYTES:
        raise BrokenFile(FindingCode.NOT_CHECKED, f"it has {entry.size:,} bytes of delimited text")
    try:
        schema = read_schema(zone, file, metadata)
    except UnreadableFile as error:
        raise BrokenFile(FindingCode.DAMAGED_TEXT, error.reason) from error
    return tuple(FileColumn(field.name, delta_type(field.type), str(field.type), False) for field in schema)
