"""Landing files as Parquet: written from record batches in bounded memory, and identified by their footers."""

import hashlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.domain.model.landing_file import FileIdentity
from app.domain.model.table_schema import TableSchema

ROW_GROUP_ROWS: Final = 1_048_576
"""Rows of a row group at most, unless MIRRORGATE_ROW_GROUP_ROWS says otherwise."""
MAX_ROW_GROUP_BYTES: Final = 64 * 2**20
"""Decoded size at which a row group is closed: with one batch, the most that a writer has in memory."""

MAX_DICTIONARY_BYTES: Final = 128 * 2**10
"""Size at which a column's dictionary ends and plain values begin. For a column of distinct values, the writer's own
limit of 1 MB made the file half as large again and took a third of the writing time."""

SAMPLE_ROWS: Final = 1_024
MIN_SAMPLED_ROWS: Final = 16 * SAMPLE_ROWS
"""Rows from which a file is worth a sample: in a smaller one, the sample would cost as much as the dictionaries."""
_DISTINCT_SHARE: Final = 0.97
"""About 17,000 different values in random order have this share of distinct values in a sample. So many 64-bit numbers
reach MAX_DICTIONARY_BYTES."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The layout of landing files: marker first (the 2025 layout) or last, and the Parquet codec's name."""

    marker_first: bool
    compression: str
    row_group_rows: int = ROW_GROUP_ROWS


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Size in bytes, SHA-256 (hex) and row count of a file just written."""

    file_bytes: int
    file_sha256: str
    rows: int


def write_parquet(
    file: BinaryIO, schema: TableSchema, batches: Iterable[pa.RecordBatch], identity: FileIdentity, layout: FileLayout
) -> WrittenFile:
    """Write record batches of `schema.arrow` as one Parquet file whose footer states `identity`."""
    sink = _HashingSink(file)
    in_file = schema.file_schema(marker_first=layout.marker_first)
    groups = row_groups(batches, in_file, layout.row_group_rows)
    group = next(groups, None)
    rows = 0
    with open_writer(sink, in_file.empty_table() if group is None else group, layout.compression) as writer:
        while group is not None:
            writer.write_table(group, row_group_size=layout.row_group_rows)
            rows += group.num_rows
            group = None  # frees its memory before the next one is decoded
            group = next(groups, None)
        writer.add_key_value_metadata(identity.footer())
    return WrittenFile(sink.size, sink.sha256.hexdigest(), rows)


def open_writer(file: Path | io.RawIOBase, first: pa.Table, compression: str) -> pq.ParquetWriter:
    """Open a writer with the encodings of landing files; `first` is the first row group, which it does not write."""
    return pq.ParquetWriter(
        file,
        first.schema,
        compression=compression,
        version="2.6",
        coerce_timestamps="us",
        store_schema=False,
        write_page_checksum=True,
        use_dictionary=dictionary_columns(first),
        dictionary_pagesize_limit=MAX_DICTIONARY_BYTES,
    )


def dictionary_columns(first: pa.Table) -> list[str]:
    """Return the columns to encode with a dictionary: all but those whose values hardly repeat in the first rows.

    The writer hashes each value of a column until its dictionary is full. For distinct values this costs a tenth of the
    writing time and a fifth of the bytes, and gains nothing. A wrong guess costs bytes only: with a
    dictionary that fills up, the writer changes to plain values by itself.
    """
    names: list[str] = first.column_names
    if first.num_rows < MIN_SAMPLED_ROWS:
        return names
    sample = first.slice(0, SAMPLE_ROWS)
    return [name for name, column in zip(names, sample.columns, strict=True) if not _is_distinct(column)]


def _is_distinct(sample: pa.ChunkedArray) -> bool:
    values = len(sample) - int(sample.null_count)
    return values >= SAMPLE_ROWS // 2 and int(pc.count_distinct(sample).as_py()) > _DISTINCT_SHARE * values


def read_identity(file: BinaryIO) -> FileIdentity | None:
    """Return the identity in a file's footer; None for a file that is not Parquet, not whole, or not a gateway's.

    The footer's own row count must agree with the identity. Raise OSError if the store fails.
    """
    try:
        metadata = pq.read_metadata(file)
    except pa.ArrowInvalid:
        return None
    except OSError as error:
        # Arrow reports a broken footer as a plain OSError without a number; the store's own errors differ.
        if type(error) is not OSError or error.errno is not None:
            raise
        return None
    identity = FileIdentity.from_footer(metadata.metadata or {})
    return identity if identity is not None and identity.rows == metadata.num_rows else None


def row_groups(
    batches: Iterable[pa.RecordBatch], in_file: pa.Schema, row_group_rows: int = ROW_GROUP_ROWS
) -> Iterator[pa.Table]:
    """Yield the batches as row groups with the columns of a schema in its order."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch.select(in_file.names))
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= row_group_rows or size >= MAX_ROW_GROUP_BYTES:
            yield pa.Table.from_batches(group, in_file)
            group, rows, size = [], 0, 0
    if group:
        yield pa.Table.from_batches(group, in_file)


class _HashingSink(io.RawIOBase):
    """Forwards, counts and hashes writes, so that a finished file need not be read again."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0
        self.sha256 = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]  # any buffer; RawIOBase's own annotation is narrower
        self._file.write(view)
        self.sha256.update(view)
        self.size += view.nbytes
        return view.nbytes
