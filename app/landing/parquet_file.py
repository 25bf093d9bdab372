"""Landing files as Parquet: written from record batches in bounded memory, and identified by their footers."""

import hashlib
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from app.domain.model.landing_file import FileIdentity
from app.domain.model.table_schema import TableSchema

MAX_ROW_GROUP_ROWS: Final = 1_000_000
MAX_ROW_GROUP_BYTES: Final = 64 * 2**20
"""Decoded size at which a row group is closed: with one batch, the most that a writer has in memory."""

MAX_DICTIONARY_BYTES: Final = 128 * 2**10
"""Size at which a column's dictionary ends and plain values begin. For a column of distinct values, the writer's own
limit of 1 MB made the file half as large again and took a third of the writing time."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    """How landing files are written: marker first (the 2025 layout) or last, and the Parquet codec's name."""

    marker_first: bool
    compression: str


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
    rows = 0
    with pq.ParquetWriter(
        sink,
        in_file,
        compression=layout.compression,
        version="2.6",
        coerce_timestamps="us",
        store_schema=False,
        dictionary_pagesize_limit=MAX_DICTIONARY_BYTES,
    ) as writer:
        for group in _row_groups(batches):
            table = pa.Table.from_batches([batch.select(in_file.names) for batch in group], in_file)
            writer.write_table(table, row_group_size=MAX_ROW_GROUP_ROWS)
            rows += table.num_rows
        writer.add_key_value_metadata(identity.footer())
    return WrittenFile(sink.size, sink.sha256.hexdigest(), rows)


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


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterable[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= MAX_ROW_GROUP_ROWS or size >= MAX_ROW_GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


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
