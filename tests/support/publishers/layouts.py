"""Layouts that are documented, tolerated or invented, and writes that a public publisher lost or repeated."""

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


_COLUMNS: Final = [
    {"Name": "id", "DataType": "Int64"},
    {"Name": "customer", "DataType": "String", "IsNullable": True},
    {"Name": "amount", "DataType": "Double", "IsNullable": True},
    {"Name": "changed_at", "DataType": "DateTime", "IsNullable": True},
]


def documented_csv(root: Path) -> Path:
    """Follow the documentation: a header, CRLF, a schema definition, and `N/A` for NULL."""
    folder = _folder(root)
    write_metadata(
        folder,
        "id",
        SchemaDefinition={"Columns": [*_COLUMNS, {"Name": "__rowMarker__", "DataType": "Int32"}]},
        FileFormat="CSV",
        FileExtension="csv",
        FileFormatTypeProperties={
            "FirstRowAsHeader": True,
            "RowSeparator": "\r\n",
            "ColumnSeparator": ",",
            "QuoteCharacter": '"',
            "EscapeCharacter": "\\",
            "NullValue": "N/A",
            "Encoding": "UTF-8",
        },
    )
    _write(
        folder, 1, "id,customer,amount,changed_at,__rowMarker__", '1,"a, b",1.5,2025-06-17 14:30:00,0', "2,N/A,2,N/A,0"
    )
    _write(folder, 2, "id,customer,amount,changed_at,__rowMarker__", "1,c,2.5,2025-06-18 14:30:00,1", "2,N/A,N/A,N/A,2")
    return folder


def camel_case_csv(root: Path) -> Path:
    """Write every member in camel case, `csv` as the format, quotes doubled inside quotes, and no schema definition."""
    folder = _folder(root)
    write_metadata(
        folder,
        "Id",
        fileExtension="csv",
        fileFormat="csv",
        fileFormatTypeProperties={
            "firstRowAsHeader": True,
            "rowSeparator": "\r\n",
            "columnSeparator": ",",
            "quoteCharacter": '"',
            "escapeCharacter": '"',
            "nullValue": "",
            "encoding": "UTF-8",
        },
    )
    _write(folder, 1, "Id,Name,__rowMarker__", '1,"a ""b""",4', "2,c,4")
    _write(folder, 2, "Id,Name,__rowMarker__", "1,,4", "2,,2")
    return folder


def csv_without_schema(root: Path) -> Path:
    """Write `fileFormat` alone, with a schema definition and neither extension nor properties; no marker column."""
    folder = _folder(root)
    write_metadata(folder, "id", SchemaDefinition={"Columns": _COLUMNS[:2]}, fileFormat="csv")
    _write(folder, 1, "id,customer", "1,a", "2,b")
    _write(folder, 2, "id,customer", "3,c")
    return folder


def semicolon_csv(root: Path) -> Path:
    """Separate columns by semicolons, quote by apostrophes, and encode in windows-1252."""
    folder = _folder(root)
    write_metadata(
        folder,
        "id",
        SchemaDefinition={"Columns": _COLUMNS[:2]},
        FileFormat="DelimitedText",
        FileExtension="csv",
        FileFormatTypeProperties={
            "FirstRowAsHeader": True,
            "ColumnSeparator": ";",
            "QuoteCharacter": "'",
            "Encoding": "windows-1252",
        },
    )
    _write(folder, 1, "id;customer;__rowMarker__", "1;'M\u00fcller; Sohn';0", encoding="windows-1252")
    _write(folder, 2, "id;customer;__rowMarker__", "1;M\u00fcller;1", encoding="windows-1252")
    return folder


def _folder(root: Path) -> Path:
    write_partner_events(root)
    return root / NAME


def _write(folder: Path, number: int, *lines: str, encoding: str = "utf-8") -> None:
    (folder / f"{number:020}.csv").write_bytes("".join(f"{line}\r\n" for line in lines).encode(encoding))
