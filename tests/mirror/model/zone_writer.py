"""Writes landing zones as a careful publisher does: metadata first, hidden names, one rename, 20 digits."""

import json
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from app.published.table_files import PublishedTable
from tests.mirror.model.landed import LandedFile, Metadata

ROW_MARKER = "__rowMarker__"


def file_name(number: int) -> str:
    return f"{number:020d}.parquet"


def arrow_table(file: LandedFile) -> pa.Table:
    """Return the content of a landing file, the marker column where its layout puts it."""
    fields, arrays = [], []
    for column in file.columns:
        kind = column.of_kind
        fields.append(pa.field(column.name, kind.arrow, nullable=not column.required))
        arrays.append(kind.array([row.values.get(column.name) for row in file.rows]))
    if file.has_markers:
        at = 0 if file.layout.marker_first else len(fields)
        marker_type = pa.type_for_alias(file.layout.marker_type)
        fields.insert(at, pa.field(ROW_MARKER, marker_type))
        arrays.insert(at, pa.array([row.marker for row in file.rows], marker_type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def write_landing_file(path: Path, file: LandedFile) -> None:
    pq.write_table(
        arrow_table(file),
        path,
        row_group_size=file.layout.row_group_rows,
        compression=file.layout.compression,
        store_schema=file.layout.with_arrow_schema,
    )


@dataclass(frozen=True)
class TableWriter:
    """Writes one table's folder, `X.schema/table` or `table` below the zone's root."""

    root: Path
    folder: str

    @property
    def path(self) -> Path:
        return self.root / self.folder

    @property
    def table(self) -> PublishedTable:
        return PublishedTable.at(self.folder)

    def register(self, metadata: Metadata) -> None:
        """Create the folder with its metadata, or replace the metadata."""
        self.path.mkdir(parents=True, exist_ok=True)
        content: dict[str, object] = {}
        if metadata.key_columns:
            content[metadata.keys_as] = list(metadata.key_columns)
        if metadata.upsert_by_default:
            content["isUpsertDefaultRowMarker"] = True
        hidden = self._hidden()
        hidden.write_text(json.dumps(content), encoding="utf-8")
        hidden.replace(self.path / "_metadata.json")

    def land(self, number: int, file: LandedFile) -> Path:
        """Make the file of a number visible in one step."""
        hidden, visible = self._hidden(), self.path / file_name(number)
        write_landing_file(hidden, file)
        hidden.rename(visible)
        return visible

    def drop(self) -> None:
        """Remove the folder: it disappears in one step."""
        aside = self.root / "_scratchPad" / uuid.uuid4().hex
        aside.parent.mkdir(exist_ok=True)
        self.path.rename(aside)
        shutil.rmtree(aside)

    def _hidden(self) -> Path:
        return self.path / f"_{uuid.uuid4().hex}.tmp"
