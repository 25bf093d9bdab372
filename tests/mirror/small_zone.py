"""A landing zone with a table of keys and notes, and its mirror in this process."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from app.domain.mirror_report import TableReport
from app.landing.local_zone import LocalZone
from app.mirror.table_mirror import MirrorLimits, advance_table, inspect_table
from app.mirror.target import MirrorTarget
from app.published.table_files import PublishedTable

ORDERS = PublishedTable("sales", "my orders", "sales.schema/my orders")
ONE_FILE = MirrorLimits(max_files=1)
SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string()), ("__rowMarker__", pa.int32())])

Change = tuple[int, str | None, int]
"""Key, note and row marker."""


class SmallZone:
    """A landing zone with one table, and its mirror. Those of the same place are one zone with several tables."""

    def __init__(self, place: Path, table: PublishedTable = ORDERS) -> None:
        self.root, self.table = place / "zone", table
        self.target = MirrorTarget(str(place / "mirror"))

    @property
    def folder(self) -> Path:
        return self.root / self.table.folder

    @property
    def delta_folder(self) -> Path:
        return Path(self.target.uri(self.table))

    def declare(self, **metadata: Any) -> None:
        """Create the folder with its metadata, or replace the metadata."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "_metadata.json").write_text(json.dumps({"keyColumns": ["id"], **metadata}))

    def land(self, at: int | str, rows: pa.Table | Sequence[Change]) -> Path:
        """Make a file visible under a number or another name; declare the table if it has no folder."""
        if not self.folder.exists():
            self.declare()
        if not isinstance(rows, pa.Table):
            rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
        path = self.folder / (at if isinstance(at, str) else f"{at:020d}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        hidden = path.with_name(f"_{path.name}")
        pq.write_table(rows, hidden)
        return hidden.rename(path)

    def advance(self, limits: MirrorLimits = ONE_FILE) -> TableReport:
        return advance_table(LocalZone(self.root), self.target, self.table, limits)

    def inspect(self) -> TableReport:
        return inspect_table(LocalZone(self.root), self.target, self.table)

    def delta(self, version: int | None = None) -> DeltaTable:
        found = self.target.open(self.table, version=version)
        assert found is not None
        return found

    def rows(self, version: int | None = None) -> list[dict[str, Any]]:
        return sorted(
            self.delta(version).to_pyarrow_dataset().to_table().to_pylist(),
            key=lambda row: [(value is None, str(value)) for value in row.values()],
        )


def noted(*rows: tuple[int, str | None]) -> list[dict[str, Any]]:
    """Return rows as `SmallZone.rows` does, by their keys and notes."""
    return [{"id": number, "note": note} for number, note in rows]
