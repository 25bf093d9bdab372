"""Reading of a Parquet file's footer: few bytes, whatever the size of the file."""

import io
from collections.abc import Iterator
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from app.domain.model.names import ROW_MARKER
from app.verify.checked_file import FileColumn, FileFooter, RowGroup
from app.verify.codes import FindingCode
from app.verify.column_types import delta_type

MAX_CELL_BYTES: Final = 16 * 2**20
"""The largest text or binary value that the SQL endpoint shows."""

_MAGIC: Final = b"PAR1"
_ENCRYPTED: Final = b"PARE"
_MIN_BYTES: Final = 12
"""Both magic words and the footer's length."""
_MAX_DETAIL: Final = 200


class BrokenFile(Exception):
    """A data file that cannot be read, with the code of the finding. The reason contains no value."""

    def __init__(self, code: FindingCode, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def read_footer(file: BinaryIO) -> tuple[tuple[FileColumn, ...], FileFooter]:
    """Return the columns and the footer of a Parquet file. Raise BrokenFile, or OSError if the store fails."""
    _check_magic(file)
    try:
        metadata = pq.read_metadata(file)
        columns = tuple(_columns(metadata.schema))
        return columns, _footer(metadata)
    except pa.ArrowException as error:
        raise _damaged(error) from error
    except OSError as error:
        # Arrow reports a broken footer as a plain OSError without a number; the store's own errors differ.
        if type(error) is not OSError or error.errno is not None:
            raise
        raise _damaged(error) from error


def _check_magic(file: BinaryIO) -> None:
    """Raise BrokenFile for a file whose first and last bytes are not those of a plain Parquet file."""
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


def _damaged(error: Exception) -> BrokenFile:
    text = (str(error).splitlines() or [type(error).__name__])[0][:_MAX_DETAIL]
    code = FindingCode.ENCRYPTED_FILE if "ecrypt" in text or "ncrypt" in text else FindingCode.DAMAGED_FOOTER
    return BrokenFile(code, text)


def _columns(schema: pq.ParquetSchema) -> Iterator[FileColumn]:
    leaves = [schema.column(position) for position in range(len(schema))]
    stored_as_int96 = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    for field in schema.to_arrow_schema():
        found = pa.timestamp("us") if field.name in stored_as_int96 else field.type
        yield FileColumn(field.name, delta_type(found), str(found), not field.nullable)


def _footer(metadata: pq.FileMetaData) -> FileFooter:
    codecs: set[str] = set()
    groups = []
    lowest: list[int] = []
    highest: list[int] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        large = []
        for position in range(group.num_columns):
            chunk = group.column(position)
            codecs.add(chunk.compression)
            if chunk.physical_type == "BYTE_ARRAY" and chunk.total_uncompressed_size >= MAX_CELL_BYTES:
                large.append(chunk.path_in_schema)
            if chunk.path_in_schema == ROW_MARKER and (ends := _range(chunk)) is not None:
                lowest.append(ends[0])
                highest.append(ends[1])
        groups.append(RowGroup(group.num_rows, group.total_byte_size, tuple(large)))
    is_known = len(lowest) == len(groups) > 0
    return FileFooter(
        metadata.num_rows, tuple(groups), frozenset(codecs), (min(lowest), max(highest)) if is_known else None
    )


def _range(chunk: pq.ColumnChunkMetaData) -> tuple[int, int] | None:
    """Return the lowest and highest value of a column chunk of whole numbers."""
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max or not isinstance(statistics.min, int):
        return None
    return statistics.min, statistics.max
