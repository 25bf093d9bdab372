"""Small landing zones without faults, for tests that then damage them."""

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.publishers.files import parquet_name, write_partner_events

NOW = datetime.now(UTC)


def rows(*ids: int, marker: int | None = 0, **columns: pa.Array) -> pa.Table:
    """Return rows with the columns `id` and `name`, further columns, and the row marker as the last one."""
    table = pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([f"n{one}" for one in ids]), **columns})
    if marker is None:
        return table
    return table.append_column("__rowMarker__", pa.array([marker] * len(ids), pa.int32()))


@dataclass(frozen=True)
class TableFolder:
    """A table folder under construction."""

    path: Path

    def file(self, number: int, content: pa.Table, **options: Any) -> Path:
        """Write a numbered Parquet file."""
        return self.named(parquet_name(number), content, **options)

    def named(self, name: str, content: pa.Table, **options: Any) -> Path:
        """Write a Parquet file under any name."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(content, target, **{"compression": "zstd", **options})
        return target

    def raw(self, name: str, content: bytes) -> Path:
        """Write any bytes under any name."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        return target

    def metadata(self, keys: tuple[str, ...] | None = ("id",), **more: object) -> Path:
        """Write the metadata, older than any data."""
        content = ({} if keys is None else {"keyColumns": list(keys)}) | more
        return self.raw_metadata(json.dumps(content).encode())

    def raw_metadata(self, content: bytes) -> Path:
        """Write any bytes as metadata, older than any data."""
        target = self.raw("_metadata.json", content)
        age(target, timedelta(hours=1))
        return target


@dataclass(frozen=True)
class Zone:
    """A landing zone under construction."""

    root: Path

    @classmethod
    def create(cls, root: Path) -> "Zone":
        """Make a zone with partner events and without tables."""
        write_partner_events(root)
        return cls(root)

    def folder(self, name: str = "t") -> TableFolder:
        """Return a table folder without metadata."""
        (self.root / name).mkdir(parents=True, exist_ok=True)
        return TableFolder(self.root / name)

    def table(self, name: str = "t", keys: tuple[str, ...] | None = ("id",), **metadata: object) -> TableFolder:
        """Make a table folder with metadata and without data."""
        folder = self.folder(name)
        folder.metadata(keys, **metadata)
        return folder

    def clean(self, name: str = "t") -> TableFolder:
        """Make a table of two files without a fault."""
        table = self.table(name)
        table.file(1, rows(1, 2))
        table.file(2, rows(2, marker=1))
        return table


def age(path: Path, by: timedelta) -> None:
    """Set the modification time of a file or folder."""
    moment = (NOW - by).timestamp()
    os.utime(path, (moment, moment), follow_symlinks=False)


@pytest.fixture
def zone(tmp_path: Path) -> Zone:
    """Give a zone with partner events and without tables."""
    return Zone.create(tmp_path / "zone")
