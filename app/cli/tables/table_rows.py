"""The present rows of a table as one Parquet file, typed by the table's schema, from its row images.

All rows are those of one moment, after the batch that the file names in its metadata. The file is written under another
name, synced and then renamed, so that a process that dies leaves the earlier file, and a `.partial` file that the next
export replaces.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, Table
from app.domain.rows.typed_columns import typed_images
from app.landing.parquet_file import open_writer, row_groups
from app.staging.connection.database import Engine, translated_errors
from app.staging.images import image_snapshot
from app.staging.tables.registry import find_table
from app.staging.tables.status import image_sizes
from mirrorgate.errors import Code, RejectedInput

COMPRESSION: Final = "zstd"


@dataclass(frozen=True, slots=True)
class ExportedRows:
    """A finished file."""

    file: Path
    rows: int
    bytes: int
    sequence: BatchSequence
    """The last batch whose changes are in the file."""


def find_exportable(engine: Engine, name: TableName) -> tuple[Table, int]:
    """Return a table whose rows can be exported, and about how many there are.

    Raises RejectedInput `unknown_table`, or `no_row_images` unless every row of the table has a row image.
    """
    with translated_errors(), engine.begin() as connection:
        table = find_table(connection, name)
        if table is None:
            raise RejectedInput(
                Code.UNKNOWN_TABLE, f"there is no table {name}", remedy="`mirrorgate tables list` shows all tables."
            )
        table.require_images()
        return table, image_sizes(connection, [table.table_id])[table.table_id].rows


def export_rows(engine: Engine, table: Table, to: Path, progress: Callable[[int], None]) -> ExportedRows:
    """Write all rows of a table into a file, or into `{table}.parquet` in a folder; replace the file if it exists.

    `progress` is called with the number of rows that were written since the last call. The memory that it takes does
    not grow with the table. Raises OSError if the file cannot be written.
    """
    file = to / f"{table.name}.parquet" if to.is_dir() else to
    partial = file.with_name(f"{file.name}.partial")
    rows = 0
    with image_snapshot(engine, table) as snapshot, partial.open("wb", buffering=0) as opened:
        schema = pa.schema(list(snapshot.table.schema.arrow)[:-1])  # without the row marker
        groups = row_groups(_batches(snapshot.table, schema, snapshot.images), schema)
        group = next(groups, None)
        with open_writer(opened, schema.empty_table() if group is None else group, COMPRESSION) as writer:
            while group is not None:
                writer.write_table(group)
                rows += group.num_rows
                progress(group.num_rows)
                group = next(groups, None)
            origin = {"table": table.name, "generation": table.generation, "sequence": snapshot.sequence}
            writer.add_key_value_metadata({f"mirrorgate.{name}": str(value) for name, value in origin.items()})
        os.fsync(opened.fileno())
    partial.replace(file)
    return ExportedRows(file, rows, file.stat().st_size, snapshot.sequence)


def _batches(table: Table, schema: pa.Schema, images: Iterator[Sequence[bytes]]) -> Iterator[pa.RecordBatch]:
    for chunk in images:
        arrays = typed_images(chunk, table.schema, table.options, schema.names)
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
