"""Reading of a Parquet file's footer: few bytes, whatever the size of the file."""

import io
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from app.domain.model.names import ROW_MARKER
from app.verify.checked_file import FileColumn, FileFooter, RowGroup
from app.verify.codes import FindingCode
from app.verify.column_types import delta_type
from app.verify.thrift_compact import read_struct

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
_ROWS, _ROW_GROUPS, _ENCRYPTION = 3, 4, 8
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
    return FileFooter(found[_ROWS], tuple(groups), frozenset(codecs), marker_range)


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
