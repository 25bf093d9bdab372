"""Zones whose publisher lost, repeated or broke a write. Each fault was reported by users of a public publisher."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.publishers.files import NAME, changes, clean_zone, parquet_name, write_metadata, write_parquet


def gap(root: Path) -> Path:
    """Lose file 2: one of two exporters took its number and failed."""
    folder = clean_zone(root)
    (folder / parquet_name(2)).unlink()
    return folder


def zero_byte_file(root: Path) -> Path:
    """Create file 3 and fail before its first byte: Fabric waits for ever at it."""
    folder = clean_zone(root)
    (folder / parquet_name(3)).write_bytes(b"")
    return folder


def half_written_file(root: Path) -> Path:
    """Show file 3 while it grows: its footer is missing."""
    folder = clean_zone(root)
    path = folder / parquet_name(3)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return folder


def delete_file_replaces_upserts(root: Path) -> Path:
    """Write the deletes of a run to the number that its inserts had taken a moment before.

    The inserts of 4, 5 and 6 are lost, and later files change these rows.
    """
    folder = root / NAME
    write_metadata(folder, "id")
    write_parquet(folder / parquet_name(1), changes((0, 1), (0, 2), (0, 3)))
    write_parquet(folder / parquet_name(2), changes((0, 4), (0, 5), (0, 6)))
    write_parquet(folder / parquet_name(2), changes((2, 1)))
    write_parquet(folder / parquet_name(3), changes((1, 4), (2, 5)))
    return folder


def replayed_file(root: Path) -> Path:
    """Repeat a whole file of inserts under the next number, because the answer to its rename was lost."""
    folder = clean_zone(root)
    write_parquet(folder / parquet_name(5), pq.read_table(folder / parquet_name(1)))
    return folder


def type_flip(root: Path) -> Path:
    """Let a data frame guess types: a column of whole numbers with an empty cell becomes a floating-point number."""
    folder = root / NAME
    write_metadata(folder, "id")
    guessed = pa.schema([("id", pa.int64()), ("amount", pa.int64())])
    flipped = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
    for number, schema in enumerate((guessed, guessed, flipped), 1):
        rows = {"id": [number], "amount": [None if schema is flipped else 5]}
        table = pa.table(rows, schema=schema).append_column("__rowMarker__", pa.array([0], pa.int32()))
        write_parquet(folder / parquet_name(number), table)
    return folder
