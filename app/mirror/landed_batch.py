"""The rows of the next landing files of a table, read in order until a limit is reached."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from app.errors import Code, InvariantBroken
from app.landing.zone import LandingZone
from app.mirror.delta_columns import Column, conform, grown
from app.mirror.fold import INSERT, UPSERT
from app.published.data_file import read_rows
from app.published.table_files import DataFile
from app.published.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class LandedBatch:
    """The rows of files that follow each other without a gap."""

    last_file: int
    columns: list[Column]
    """The table's columns after the last file."""
    rows: pa.Table
    """With these columns, in the order of the files and of their rows."""
    markers: pa.ChunkedArray
    """int32, one per row; a file without markers has those that the metadata gives its rows."""
    counts: Counter[int]
    """Rows by marker."""

    def key_columns(self, declared: Sequence[str]) -> list[str]:
        """Return the declared key columns as the table spells them; none if the table does not have them all."""
        by_name = {column.name.casefold(): column.name for column in self.columns}
        found = [by_name[name.casefold()] for name in declared if name.casefold() in by_name]
        return found if len(found) == len(declared) else []


def read_batch(
    zone: LandingZone,
    pending: Sequence[DataFile],
    metadata: TableMetadata,
    known: Sequence[Column],
    *,
    max_bytes: int,
) -> LandedBatch:
    """Read files until `max_bytes` of decoded rows are there. A file that cannot be applied ends the batch.

    If that is the first file, raise what is wrong with it: InvariantBroken, or OSError if the store fails.
    """
    columns = list(known)
    tables: list[pa.Table] = []
    markers: list[pa.ChunkedArray] = []
    size = last_file = 0
    for file in pending:
        try:
            rows, marks, columns = _read_one(zone, file, metadata, columns)
        except (InvariantBroken, OSError):
            if not tables:
                raise
            break
        tables.append(rows)
        markers.append(marks)
        size, last_file = size + rows.nbytes, file.number or last_file
        if size >= max_bytes:
            break
    rows = pa.concat_tables([conform(table, columns) for table in tables])
    joined = pa.chunked_array([chunk for marks in markers for chunk in marks.chunks], pa.int32())
    counts = Counter({item["values"]: item["counts"] for item in pc.value_counts(joined).to_pylist()})
    return LandedBatch(last_file, columns, rows, joined, counts)


def _read_one(
    zone: LandingZone, file: DataFile, metadata: TableMetadata, known: list[Column]
) -> tuple[pa.Table, pa.ChunkedArray, list[Column]]:
    """Return a file's rows, their markers, and the table's columns after the file."""
    landed = read_rows(zone, file, metadata)
    columns = grown(known, file.path, landed.columns.schema)
    markers = landed.markers
    if markers is None:
        marker = UPSERT if metadata.upsert_by_default else INSERT
        markers = pa.chunked_array([pa.repeat(pa.scalar(marker, pa.int32()), landed.columns.num_rows)])
    if pc.any(pc.not_equal(markers, INSERT)).as_py():
        _require_keys(file, metadata, landed.columns.column_names)
    return conform(landed.columns, columns), markers, columns


def _require_keys(file: DataFile, metadata: TableMetadata, names: Sequence[str]) -> None:
    """Raise InvariantBroken `mirror_key_missing` unless a file with updates, deletes or upserts has all keys."""
    if not metadata.key_columns:
        raise InvariantBroken(
            Code.MIRROR_KEY_MISSING, f"{file.path}: it has updates, deletes or upserts of a table without key columns"
        )
    found = {name.casefold() for name in names}
    for name in metadata.key_columns:
        if name.casefold() not in found:
            raise InvariantBroken(
                Code.MIRROR_KEY_MISSING, f"{file.path}: it has updates, deletes or upserts and lacks key column {name}"
            )
