"""The parts of a landing zone: metadata, data files, and the clean zone of one table."""

import json
import os
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

NAME: Final = "orders"
"""The table folder that every publisher writes."""

PARTNER: Final = {"partnerName": "test", "sourceInfo": {"sourceType": "SQL", "sourceVersion": "2019"}}

COLUMNS: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("changed_at", pa.timestamp("us")),
    ]
)
MARKER: Final = pa.field("__rowMarker__", pa.int32())


def parquet_name(number: int) -> str:
    """Return the name of a numbered file."""
    return f"{number:020}.parquet"


def changes(*rows: tuple[int, int], schema: pa.Schema = COLUMNS) -> pa.Table:
    """Return the rows of a file from pairs of a marker and a key. A delete has its key only; others are full rows."""
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for position, (marker, key) in enumerate(rows):
        full = {
            "id": key,
            "customer": f"customer {key}",
            "amount": _decimal(key, position),
            "changed_at": 1_700_000_000_000_000 + 1_000 * key + position,
        }
        for name in schema.names:
            columns[name].append(full.get(name) if marker != 2 or name == "id" else None)
    table = pa.table({field.name: _column(columns[field.name], field.type) for field in schema}, schema=schema)
    return table.append_column(MARKER, pa.array([marker for marker, _ in rows], pa.int32()))


def _decimal(key: int, position: int) -> str:
    return f"{key}.{position % 100:02}"


def _column(values: list[Any], column_type: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(column_type):
        return pa.array(values, pa.string()).cast(column_type)
    return pa.array(values, column_type)


def write_metadata(folder: Path, *keys: str, **extra: object) -> None:
    """Write `_metadata.json` with key columns and further members."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"keyColumns": list(keys), **extra} if keys or extra else {}
    (folder / "_metadata.json").write_text(json.dumps(content))


def replace_metadata(folder: Path, content: str) -> None:
    """Write other metadata as if it had been there from the beginning."""
    path = folder / "_metadata.json"
    written = path.stat()
    path.write_text(content)
    os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))


def write_partner_events(root: Path) -> None:
    """Write `_partnerEvents.json` at the root of the zone."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "_partnerEvents.json").write_text(json.dumps(PARTNER))


def write_parquet(path: Path, rows: pa.Table, compression: str = "zstd") -> None:
    """Write a data file as a careful publisher does: hidden first, then by a rename."""
    hidden = path.with_name(f"_{path.name}")
    pq.write_table(rows, hidden, compression=compression)
    hidden.rename(path)


HISTORY: Final = (
    ((0, 1), (0, 2), (0, 3), (0, 4)),
    ((1, 2), (0, 5), (2, 3)),
    ((4, 6), (4, 1), (2, 5), (0, 5)),
    ((1, 5), (2, 2), (1, 4), (4, 7)),
)
"""Changes of a correct source: updates and deletes of rows that exist, inserts of rows that do not."""


def clean_zone(root: Path) -> Path:
    """Write a zone without faults: four files with every marker. Return the table folder."""
    write_partner_events(root)
    folder = root / NAME
    write_metadata(folder, "id")
    for number, rows in enumerate(HISTORY, 1):
        write_parquet(folder / parquet_name(number), changes(*rows))
    return folder
