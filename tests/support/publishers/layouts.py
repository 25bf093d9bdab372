"""Layouts that are documented, tolerated or invented: the names and members of other publishers."""

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.publishers.files import (
    COLUMNS,
    HISTORY,
    NAME,
    changes,
    clean_zone,
    parquet_name,
    replace_metadata,
    write_metadata,
    write_parquet,
    write_partner_events,
)

_NAMES: Final = uuid.UUID("6f2f2c1e-5e0e-4a52-9d0f-0f3f2a2f4c11")


def row_marker_first(root: Path) -> Path:
    """Write the marker as the first column, as the samples of early 2025 did."""
    folder = clean_zone(root)
    for path in folder.glob("*.parquet"):
        rows = pq.read_table(path)
        pq.write_table(rows.select(["__rowMarker__", *COLUMNS.names]), path)
    return folder


def guid_names(root: Path) -> Path:
    """Name files by GUIDs without telling Fabric, so that nothing orders them and nothing reads them."""
    folder = clean_zone(root)
    for path in sorted(folder.glob("*.parquet")):
        path.rename(folder / f"{uuid.uuid5(_NAMES, path.name)}.parquet")
    return folder


def ordered_by_time(root: Path) -> Path:
    """Name files by GUIDs and order them by the time of the last update, with upserts by default.

    The second and third file have one time: two writers finished within one tick.
    """
    folder = guid_names(root)
    members = {"fileDetectionStrategy": "LastUpdateTimeFileDetection", "isUpsertDefaultRowMarker": True}
    replace_metadata(folder, json.dumps({"keyColumns": ["id"], **members}))
    written = [f"{uuid.uuid5(_NAMES, parquet_name(number))}.parquet" for number in range(1, len(HISTORY) + 1)]
    for name, second in zip(written, (0, 10, 10, 20), strict=True):
        time = (folder / "_metadata.json").stat().st_mtime + 1 + second
        os.utime(folder / name, (time, time))
    return folder


def partition_folders(root: Path) -> Path:
    """Put files into `Key=Value` folders, each numbered separately (`isPartitionEnabled`)."""
    folder = clean_zone(root)
    replace_metadata(folder, json.dumps({"keyColumns": ["id"], "isPartitionEnabled": "true"}))
    for region in ("east", "west"):
        partition = folder / f"region={region}"
        partition.mkdir()
        for path in sorted(folder.glob("*.parquet")):
            shutil.copy(path, partition / path.name)
    for path in folder.glob("*.parquet"):
        path.unlink()
    return folder


def extra_metadata(root: Path) -> Path:
    """Keep the publisher's own members in `_metadata.json`, which Fabric ignores."""
    folder = clean_zone(root)
    members = {"SourceQuery": "SELECT 1", "LastSyncedUtc": "2026-01-01T00:00:00Z", "schedule": {"minutes": 5}}
    replace_metadata(folder, json.dumps({"keyColumns": ["id"], **members}))
    return folder


def metadata_letter_case(root: Path) -> Path:
    """Write `KeyColumns`, as Microsoft's example of delimited text does."""
    folder = clean_zone(root)
    replace_metadata(folder, '{"KeyColumns": ["ID"]}')
    return folder


def missing_metadata(root: Path) -> Path:
    """Lose the metadata with a reset of the folder that the publisher's watermark survived."""
    folder = clean_zone(root)
    (folder / "_metadata.json").unlink()
    return folder


def header_only_file(root: Path) -> Path:
    """Publish a typed file without rows, so that an empty table does not fail after two weeks."""
    write_partner_events(root)
    folder = root / NAME
    write_metadata(folder, "id")
    write_parquet(folder / parquet_name(1), COLUMNS.empty_table())
    return folder


def bare_inserts(root: Path) -> Path:
    """Load a table without the marker column, then change it with it."""
    write_partner_events(root)
    folder = root / NAME
    write_metadata(folder, "id")
    write_parquet(folder / parquet_name(1), changes(*((0, key) for key in range(1, 51))).drop_columns("__rowMarker__"))
    write_parquet(folder / parquet_name(2), changes((1, 7), (2, 8), (0, 51)))
    return folder


def keyless_inserts(root: Path) -> Path:
    """Append to a table without key columns."""
    write_partner_events(root)
    folder = root / NAME
    write_metadata(folder)
    for number in (1, 2):
        write_parquet(folder / parquet_name(number), changes((0, 1), (0, 2)).drop_columns("__rowMarker__"))
    return folder


def backup_folders(root: Path) -> Path:
    """Keep copies of old files in a folder below the table, next to Fabric's own folder of consumed files."""
    folder = clean_zone(root)
    for name in ("backup", "_ProcessedFiles"):
        (folder / name).mkdir()
    shutil.copy(folder / parquet_name(1), folder / "backup" / parquet_name(1))
    (folder / parquet_name(1)).rename(folder / "_ProcessedFiles" / parquet_name(1))
    return folder


def spark_output(root: Path) -> Path:
    """Let Spark write into the table folder: names of its tasks, a `_SUCCESS` file and checksum files."""
    folder = clean_zone(root)
    for task, path in enumerate(sorted(folder.glob("*.parquet"))):
        name = f"part-{task:05}-{uuid.uuid5(_NAMES, path.name)}-c000.snappy.parquet"
        rows = pq.read_table(path).cast(pa.schema([*COLUMNS, pa.field("__rowMarker__", pa.int32())]))
        pq.write_table(rows, folder / name, compression="snappy")
        (folder / f".{name}.crc").write_bytes(b"crc\x00" + bytes(8))
        path.unlink()
    (folder / "_SUCCESS").touch()
    return folder
