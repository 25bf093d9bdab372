"""One look at one data file: its columns and its footer, or what keeps it from being read.

`read_file` reads few bytes, whatever the size of the file.

`read_struct` reads the Thrift structure of a footer: PyArrow's own access to the metadata of column chunks aborts the
process for some footers, such as one with encrypted columns, because its C++ exceptions have no Python side, and a
check of foreign files must survive them (decision 0040). Invariant: any bytes give a value or ValueError, in time and
memory proportional to their number.

`delta_type` names the type by which a table and its files are compared.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from app.domain.model.landing_file import FileIdentity
from app.domain.model.names import ROW_MARKER
from app.landing.zone import Entry, LandingZone
from app.published.data_file import is_delimited_text, read_schema
from app.published.table_files import DataFile, PublishedTable, TableFiles
from app.published.table_metadata import TableMetadata, UnreadableFile
from mirrorgate_zone.verify.codes import Finding, FindingCode


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
    identity: FileIdentity | None = None
    """Table and number for which a gateway wrote the file; None for another publisher's."""


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


MAX_DEPTH: Final = 32

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


def read_struct(content: bytes) -> dict[int, Any]:
    """Return a structure as its field ids with their values: numbers, bytes, lists and structures.

    Maps are skipped. Raise ValueError for bytes that are not a structure.
    """
    try:
        return _Reader(content).struct(0)
    except IndexError:
        raise ValueError("it ends too early") from None


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def struct(self, depth: int) -> dict[int, Any]:
        if depth > MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (header := self._byte()) & 0x0F != _STOP:
            delta = header >> 4
            number = number + delta if delta else self._signed()
            kind = header & 0x0F
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self._signed()
        if kind == _BINARY:
            return self._bytes(self._unsigned())
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind == _MAP:
            return self._map(depth)
        if kind in (_TRUE, _FALSE, _BYTE):  # within a list, a boolean is a byte
            return self._byte()
        if kind == _DOUBLE:
            return self._bytes(8)
        raise ValueError(f"it has a value of unknown kind {kind}")

    def _list(self, depth: int) -> list[Any]:
        header = self._byte()
        count = self._unsigned() if header >> 4 == 15 else header >> 4
        return [self._value(header & 0x0F, depth + 1) for _ in range(self._counted(count))]

    def _map(self, depth: int) -> None:
        count = self._unsigned()
        kinds = self._byte() if count else 0
        for _ in range(self._counted(count)):
            self._value(kinds >> 4, depth + 1)
            self._value(kinds & 0x0F, depth + 1)

    def _counted(self, count: int) -> int:
        """Return a number of elements, each of which takes at least one byte."""
        if count > len(self._content) - self._at:
            raise ValueError("it has more elements than bytes")
        return count

    def _byte(self) -> int:
        value = self._content[self._at]
        self._at += 1
        return value

    def _bytes(self, count: int) -> bytes:
        start, self._at = self._at, self._at + self._counted(count)
        return self._content[start : self._at]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("it has a number of more than 64 bits")

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)


_NAMES: Final[Mapping[pa.DataType, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.uint8(): "short",
    pa.int32(): "integer",
    pa.uint16(): "integer",
    pa.int64(): "long",
    pa.uint32(): "long",
    pa.uint64(): "decimal(20,0)",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.string_view(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.binary_view(): "binary",
    pa.date32(): "date",
    pa.date64(): "date",
}
MAX_DECIMAL_DIGITS: Final = 38


def delta_type(found: pa.DataType) -> str | None:
    """Return the name of the Delta type of an Arrow type, None if Delta has none for it.

    Fabric compares a table's types with those of each file. Several types of Arrow and Parquet are one type in Delta,
    such as timestamps in milliseconds and microseconds, so only a change of the Delta type changes the name.
    """
    if pa.types.is_dictionary(found):
        return delta_type(found.value_type)
    if pa.types.is_decimal(found):
        return f"decimal({found.precision},{found.scale})" if found.precision <= MAX_DECIMAL_DIGITS else None
    if pa.types.is_timestamp(found):
        return "timestamp_ntz" if found.tz is None else "timestamp"
    if pa.types.is_time(found) or pa.types.is_duration(found):
        return "long"
    return "binary" if pa.types.is_fixed_size_binary(found) else _NAMES.get(found)


MAX_CELL_BYTES: Final = 16 * 2**20
"""The largest text or binary value that the SQL endpoint shows."""

MAX_FOOTER_BYTES: Final = 32 * 2**20
"""The largest footer that is read: its structure takes about twenty times as much memory."""

_MAGIC: Final = b"PAR1"
_ENCRYPTED: Final = b"PARE"
_MIN_BYTES: Final = 12
"""Both magic words and the footer's length."""
_MAX_DETAIL: Final = 200
_END_BYTES: Final = 8
"""The footer's length and the last magic word."""

# Field ids of parquet.thrift.
_ROWS, _ROW_GROUPS, _KEY_VALUES, _ENCRYPTION = 3, 4, 5, 8
_KEY, _VALUE = 1, 2
_GROUP_COLUMNS, _GROUP_BYTES, _GROUP_ROWS = 1, 2, 3
_CHUNK_METADATA, _CHUNK_ENCRYPTION = 3, 8
_TYPE, _PATH, _CODEC, _UNCOMPRESSED_BYTES, _STATISTICS = 1, 3, 4, 6, 12
_MAX, _MIN = 5, 6
_INTEGERS: Final = (1, 2)
_BYTE_ARRAY: Final = 6
_CODECS: Final = {
    0: "UNCOMPRESSED",
    1: "SNAPPY",
    2: "GZIP",
    3: "LZO",
    4: "BROTLI",
    5: "LZ4",
    6: "ZSTD",
    7: "LZ4_RAW",
}


class BrokenFile(Exception):
    """A data file that cannot be read, with the code of the finding. The reason contains no value."""

    def __init__(self, code: FindingCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def read_footer(file: BinaryIO) -> tuple[tuple[FileColumn, ...], FileFooter]:
    """Return the columns and the footer of a Parquet file. Raise BrokenFile, or OSError if the store fails."""
    size = _check_magic(file)
    footer = _read_facts(file, size)
    try:
        return tuple(_columns(pq.read_metadata(file).schema)), footer
    except (pa.ArrowException, UnicodeDecodeError, IndexError) as error:
        # Arrow's Python side decodes names and looks up enumerations of the footer as they come.
        raise _damaged(error) from error
    except OSError as error:
        # Arrow reports a broken footer as a plain OSError without a number; the store's own errors differ.
        if type(error) is not OSError or error.errno is not None:
            raise
        raise _damaged(error) from error


def _read_facts(file: BinaryIO, size: int) -> FileFooter:
    """Read the footer's structure without Arrow, and leave the file at its start. Raise BrokenFile, OSError."""
    file.seek(size - _END_BYTES)
    length = int.from_bytes(file.read(4), "little")
    if length > size - _MIN_BYTES:
        raise BrokenFile(FindingCode.DAMAGED_FOOTER, f"its footer of {length:,} bytes is larger than the file")
    if length > MAX_FOOTER_BYTES:
        raise BrokenFile(FindingCode.NOT_CHECKED, f"its footer has {length:,} bytes")
    file.seek(size - _END_BYTES - length)
    content = file.read(length)
    file.seek(0)
    try:
        found = read_struct(content)
        if _ENCRYPTION in found or any(_CHUNK_ENCRYPTION in chunk for chunk in _chunks(found)):
            raise BrokenFile(FindingCode.ENCRYPTED_FILE, "its columns are encrypted")
        return _facts(found)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise BrokenFile(FindingCode.DAMAGED_FOOTER, "its footer is not the structure of a Parquet file") from error


def _chunks(found: Mapping[int, Any]) -> Iterator[Mapping[int, Any]]:
    return (chunk for group in found[_ROW_GROUPS] for chunk in group[_GROUP_COLUMNS])


def _check_magic(file: BinaryIO) -> int:
    """Return the size. Raise BrokenFile for a file whose first and last bytes are not those of a plain Parquet file."""
    size = file.seek(0, io.SEEK_END)
    if size == 0:
        raise BrokenFile(FindingCode.ZERO_BYTE_FILE, "the file has 0 bytes")
    file.seek(0)
    first = file.read(len(_MAGIC))
    file.seek(max(0, size - len(_MAGIC)))
    last = file.read(len(_MAGIC))
    file.seek(0)
    if _ENCRYPTED in (first, last):
        raise BrokenFile(FindingCode.ENCRYPTED_FILE, "its footer is encrypted")
    if first != _MAGIC:
        raise BrokenFile(FindingCode.NOT_PARQUET, f"it has {size:,} bytes that do not begin as Parquet does")
    if last != _MAGIC or size < _MIN_BYTES:
        raise BrokenFile(FindingCode.TRUNCATED_FILE, f"it has {size:,} bytes that do not end as Parquet does")
    return size


def _damaged(error: Exception) -> BrokenFile:
    text = (str(error).splitlines() or [type(error).__name__])[0][:_MAX_DETAIL]
    return BrokenFile(FindingCode.DAMAGED_FOOTER, text)


def _columns(schema: pq.ParquetSchema) -> Iterator[FileColumn]:
    leaves = [schema.column(position) for position in range(len(schema))]
    stored_as_int96 = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    for field in schema.to_arrow_schema():
        found = pa.timestamp("us") if field.name in stored_as_int96 else field.type
        yield FileColumn(field.name, delta_type(found), str(found), not field.nullable)


def _facts(found: Mapping[int, Any]) -> FileFooter:
    """Return the facts of a FileMetaData structure. Raise KeyError, TypeError, AttributeError for a field amiss."""
    groups = []
    codecs: set[str] = set()
    ranges: list[tuple[int, int] | None] = []
    for group in found[_ROW_GROUPS]:
        chunks = [chunk[_CHUNK_METADATA] for chunk in group[_GROUP_COLUMNS]]
        codecs.update(_CODECS.get(chunk[_CODEC], "UNKNOWN") for chunk in chunks)
        large = tuple(_name(chunk) for chunk in chunks if _can_be_large(chunk))
        ranges += [_range(chunk) for chunk in chunks if _name(chunk) == ROW_MARKER]
        groups.append(RowGroup(group[_GROUP_ROWS], group[_GROUP_BYTES], large))
    known = [ends for ends in ranges if ends is not None]
    is_known = len(known) == len(groups) > 0
    marker_range = (min(low for low, _ in known), max(high for _, high in known)) if is_known else None
    pairs = {pair[_KEY]: pair.get(_VALUE, b"") for pair in found.get(_KEY_VALUES, ())}
    identity = FileIdentity.from_footer(pairs)
    return FileFooter(found[_ROWS], tuple(groups), frozenset(codecs), marker_range, identity)


def _name(chunk: Mapping[int, Any]) -> str:
    return ".".join(part.decode(errors="replace") for part in chunk[_PATH])


def _can_be_large(chunk: Mapping[int, Any]) -> bool:
    return bool(chunk[_TYPE] == _BYTE_ARRAY and chunk[_UNCOMPRESSED_BYTES] >= MAX_CELL_BYTES)


def _range(chunk: Mapping[int, Any]) -> tuple[int, int] | None:
    """Return the lowest and highest value of a column chunk of whole numbers."""
    statistics = chunk.get(_STATISTICS, {})
    low, high = statistics.get(_MIN), statistics.get(_MAX)
    if low is None or high is None or chunk[_TYPE] not in _INTEGERS:
        return None
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)


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
