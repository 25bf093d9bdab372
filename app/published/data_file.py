"""The rows of one data file, Parquet or delimited text, with the marker column apart from the table's columns.

`read_delimited_text` reads delimited text as `fileFormatTypeProperties` and `schemaDefinition` of the metadata describe
it. Without a schema definition, every column but the marker is text: guessed types would make the types of a table
depend on the values of its first file.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from app.domain.model.names import ROW_MARKER
from app.landing.zone import LandingZone
from app.published.table_files import DataFile
from app.published.table_metadata import TableMetadata, UnreadableFile

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "byte": pa.uint8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "single": pa.float32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "idate": pa.date32(),
    "itime": pa.time64("us"),
    "datetime": pa.timestamp("us"),
    "datetimeoffset": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "bytearray": pa.binary(),
}
_COMPRESSIONS: Final = {".gz": "gzip", ".zst": "zstd"}
_SNAPPY: Final = ".snappy"
MAX_SNAPPY_BYTES: Final = 2**30
"""Bytes that a string compressed with Snappy can become."""


def read_delimited_text(file: BinaryIO, name: str, metadata: TableMetadata) -> pa.Table:
    """Read a file of delimited text.

    Raise pa.ArrowException, UnicodeDecodeError or LookupError for content that does not fit its description.
    """
    properties = _lowered((metadata.raw or {}).get("fileformattypeproperties"))
    declared = _declared_types((metadata.raw or {}).get("schemadefinition"))
    has_header = str(properties.get("firstrowasheader", "true")).lower() != "false"
    quote = _one(properties.get("quotecharacter"), '"')
    escape = _one(properties.get("escapecharacter"), "\\")
    null = properties.get("nullvalue")
    encoding = str(properties.get("encoding") or "utf-8")
    content = _decompressed(file, name).decode(encoding).removeprefix("\ufeff").encode()
    first_line = content.partition(b"\n")[0] + b"\n"
    separator = _one(properties.get("columnseparator"), ",")
    names = _names(first_line, separator, quote) if has_header else [column for column, _ in declared]
    by_name = {column.casefold(): column_type for column, column_type in declared}
    types = {column: by_name.get(column.casefold(), pa.string()) for column in names}
    found = pa_csv.read_csv(
        io.BytesIO(content),
        read_options=pa_csv.ReadOptions(
            column_names=names or None,
            skip_rows=1 if has_header and names else 0,
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter=separator,
            quote_char=quote or False,
            escape_char=False if escape in ("", quote) else escape,  # two quotes are one quote in any case
            newlines_in_values=True,
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=types,
            null_values=[str(null)] if null is not None else [""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    for at, field in enumerate(found.schema):
        if pa.types.is_time(field.type):  # checked as a time; Delta has no such type
            found = found.set_column(at, field.name, found.column(at).cast(pa.string()))
    return found


def _names(first_line: bytes, separator: str, quote: str) -> list[str]:
    """Return the names of a header line, which Arrow's reader splits as it splits rows."""
    if not first_line.strip():
        return []
    parse = pa_csv.ParseOptions(delimiter=separator, quote_char=quote or False)
    return list(pa_csv.read_csv(io.BytesIO(first_line), parse_options=parse).column_names)


def _declared_types(definition: object) -> list[tuple[str, pa.DataType]]:
    """Return the declared columns in order, with their types; an unknown type is text."""
    columns = _lowered(definition).get("columns")
    found = [_lowered(column) for column in columns] if isinstance(columns, list) else []
    return [
        (str(column["name"]), _TYPES.get(str(column.get("datatype", "string")).lower(), pa.string()))
        for column in found
        if "name" in column
    ]


def _lowered(value: object) -> dict[str, Any]:
    return {str(name).lower(): item for name, item in value.items()} if isinstance(value, dict) else {}


def _one(value: object, default: str) -> str:
    """Return a single character; a backslash and a `t` mean a tab."""
    text = default if value is None else str(value).replace("\\t", "\t")
    return text[:1]


def _decompressed(file: BinaryIO, name: str) -> bytes:
    if name.lower().endswith(_SNAPPY):
        return unsnapped(file.read())
    ending = next((ending for ending in _COMPRESSIONS if name.lower().endswith(ending)), None)
    if ending is None:
        return file.read()
    with pa.CompressedInputStream(pa.PythonFile(file), _COMPRESSIONS[ending]) as stream:
        content: bytes = stream.read()
    return content


_SNAPPY_STREAM: Final = b"\xff\x06\x00\x00sNaPpY"
_COMPRESSED_CHUNK, _PLAIN_CHUNK, _SKIPPABLE_CHUNK = 0x00, 0x01, 0x80
_CHECKSUM_BYTES: Final = 4


def unsnapped(content: bytes) -> bytes:
    """Return bytes that Snappy compressed: framed, in Hadoop's blocks as Spark writes them, or as one block.

    Checksums are not compared. Raise pa.ArrowInvalid for anything else.
    """
    parts: list[bytes] = []
    if content.startswith(_SNAPPY_STREAM):
        for kind, chunk in _snappy_frames(content):
            if kind in (_COMPRESSED_CHUNK, _PLAIN_CHUNK):
                data = chunk[_CHECKSUM_BYTES:]
                parts.append(_snappy_block(data, parts) if kind == _COMPRESSED_CHUNK else data)
            elif kind < _SKIPPABLE_CHUNK:
                raise pa.ArrowInvalid("a Snappy frame has an unknown type")
        return b"".join(parts)
    if content[:1] != b"\0":
        return _snappy_block(content, parts)
    at = 0
    while at < len(content):  # a block: its length, then pieces with their compressed lengths
        wanted, at = int.from_bytes(content[at : at + 4], "big"), at + 4
        while wanted > 0:
            size, at = int.from_bytes(content[at : at + 4], "big"), at + 4
            parts.append(_snappy_block(content[at : at + size], parts))
            wanted, at = wanted - len(parts[-1]), at + size
            if not parts[-1]:
                raise pa.ArrowInvalid("a Snappy block is cut off")
    return b"".join(parts)


def _snappy_frames(content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(content):
        size = int.from_bytes(content[at + 1 : at + 4], "little")
        if at + 4 + size > len(content):
            raise pa.ArrowInvalid("a Snappy frame is cut off")
        yield content[at], content[at + 4 : at + 4 + size]
        at += 4 + size


def _snappy_block(block: bytes, before: Sequence[bytes]) -> bytes:
    """Return one block, which begins with its decompressed length. Raise pa.ArrowInvalid."""
    size = 0
    for at, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * at
        if byte < 0x80:  # the last byte of a length
            break
    if size + sum(map(len, before)) > MAX_SNAPPY_BYTES:
        raise pa.ArrowInvalid(f"it has more than {MAX_SNAPPY_BYTES} bytes")
    try:
        decompressed: bytes = pa.decompress(block, decompressed_size=size, codec="snappy", asbytes=True)
    except OSError as error:
        raise pa.ArrowInvalid("it is not compressed with Snappy") from error
    return decompressed


CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
"""Codecs of Parquet that open mirroring reads."""

MARKERS: Final = (0, 1, 2, 4)
"""Insert, update, delete, upsert."""

MAX_CHUNK_ROWS: Final = 65_536


@dataclass(frozen=True, slots=True)
class LandedRows:
    """The rows of a file in its order."""

    columns: pa.Table
    """Without the marker column."""
    markers: pa.ChunkedArray | None
    """int32, as long as the table; None for a file without a marker column."""


def read_rows(zone: LandingZone, file: DataFile, metadata: TableMetadata) -> LandedRows:
    """Read a whole file into memory. Raise UnreadableFile, or OSError if the store fails or the file is gone."""
    with zone.read_file(file.path) as opened, _arrow_errors(file):
        if is_delimited_text(file):
            found = read_delimited_text(opened, file.name, metadata)
        else:
            parquet = pq.ParquetFile(opened, page_checksum_verification=True)
            if unknown := _codecs(parquet.metadata) - CODECS:
                raise UnreadableFile(file.path, f"open mirroring does not read {', '.join(sorted(unknown))}")
            found = parquet.read()
            _require_rows(file, parquet.metadata.num_rows - found.num_rows)
    return split_markers(file.path, found)


def _codecs(footer: pq.FileMetaData) -> set[str]:
    groups = map(footer.row_group, range(footer.num_row_groups))
    return {group.column(at).compression for group in groups for at in range(group.num_columns)}


def read_chunks(zone: LandingZone, file: DataFile, metadata: TableMetadata) -> Iterator[pa.Table]:
    """Yield the rows of a file in its order, MAX_CHUNK_ROWS at a time; of a file without rows, one chunk without rows.

    Markers remain a column, and are not checked. Delimited text is yielded as a whole. Raise as `read_rows`, after rows
    that could be read.
    """
    with zone.read_file(file.path) as opened, _arrow_errors(file):
        if is_delimited_text(file):
            yield read_delimited_text(opened, file.name, metadata)
            return
        parquet = pq.ParquetFile(opened, page_checksum_verification=True)
        missing = parquet.metadata.num_rows
        if not missing:
            yield parquet.schema_arrow.empty_table()
        for batch in parquet.iter_batches(MAX_CHUNK_ROWS):
            missing -= batch.num_rows
            yield pa.Table.from_batches([batch])
        _require_rows(file, missing)


def _require_rows(file: DataFile, missing: int) -> None:
    """Raise UnreadableFile if rows are missing: a damaged page header can end a column without an error."""
    if missing:
        more = "fewer" if missing > 0 else "more"
        raise UnreadableFile(file.path, f"its rows are {abs(missing)} {more} than stated")


def read_schema(zone: LandingZone, file: DataFile, metadata: TableMetadata) -> pa.Schema:
    """Return the columns of a file, marker column included, from its footer.

    Of delimited text, all rows are read. Raise as `read_rows`.
    """
    with zone.read_file(file.path) as opened, _arrow_errors(file):
        if is_delimited_text(file):
            return read_delimited_text(opened, file.name, metadata).schema
        return pq.read_schema(opened)


def without_marker(schema: pa.Schema) -> pa.Schema:
    """Return the columns of the table."""
    return pa.schema([field for field in schema if field.name.casefold() != ROW_MARKER.casefold()])


def is_delimited_text(file: DataFile) -> bool:
    """Return whether a file is delimited text, by its name."""
    return not file.name.lower().endswith(".parquet")


def split_markers(path: str, rows: pa.Table) -> LandedRows:
    """Separate the marker column. Raise UnreadableFile for columns that differ in letter case only, and bad markers."""
    names = [name.casefold() for name in rows.column_names]
    if len(set(names)) < len(names):
        raise UnreadableFile(path, "two columns have one name, without regard to letter case")
    if ROW_MARKER.casefold() not in names:
        return LandedRows(rows, None)
    position = names.index(ROW_MARKER.casefold())
    return LandedRows(rows.remove_column(position), _markers(path, rows.column(position)))


def _markers(path: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return markers as int32. A publisher may write any type of whole numbers, or strings in delimited text."""
    if column.null_count:
        raise UnreadableFile(path, f"{column.null_count} rows have no value in {ROW_MARKER}")
    try:
        markers = column.cast(pa.int32())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise UnreadableFile(
            path, f"{ROW_MARKER} has type {column.type}, or values that are not whole numbers"
        ) from None
    known = pc.is_in(markers, value_set=pa.array(MARKERS, pa.int32()))
    wrong = len(markers) - (pc.sum(known).as_py() or 0)
    if wrong:
        raise UnreadableFile(path, f"{wrong} rows have a value in {ROW_MARKER} other than 0, 1, 2 and 4")
    return markers


def with_partition(rows: LandedRows, file: DataFile) -> LandedRows:
    """Return the rows with the values of the file's partition, as strings, where the file lacks their columns.

    Values in names of folders are percent-encoded. Hive's name for NULL is NULL.
    """
    columns = rows.columns
    present = {name.casefold() for name in columns.column_names}
    for folder in filter(None, file.partition.split("/")):
        name, _, value = (unquote(part) for part in folder.partition("="))
        if name.casefold() not in present:
            text = pa.scalar(None if value == _HIVE_NULL else value, pa.string())
            columns = columns.append_column(name, pa.repeat(text, columns.num_rows))
    return replace(rows, columns=columns)


_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


@contextmanager
def _arrow_errors(file: DataFile) -> Iterator[None]:
    """Turn Arrow's errors into UnreadableFile. The store's own OSErrors pass.

    Arrow reports broken content as a plain OSError without a number; the store's errors differ.
    """
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, LookupError, OSError) as error:
        if isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None):
            raise
        raise UnreadableFile(file.path, (str(error).splitlines() or [type(error).__name__])[0][:200]) from error
