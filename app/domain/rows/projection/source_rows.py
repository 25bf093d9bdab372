"""Rows of landing files -> typed rows of their source: the opposite of `landing_projection`, where there is one.

Renamed columns get their names back, and constants and audit columns are left out. What a mask or a filter took away is
lost. The options must have been the same since the generation began; the columns can have grown.
"""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, TableSchema


def landed_columns(columns: Sequence[Column], options: TableOptions) -> list[Column]:
    """Return columns of a source under the names that they have in landing files."""
    return [replace(column, name=options.rename.get(column.name, column.name)) for column in columns]


def source_rows_of(landed: pa.RecordBatch, schema: TableSchema, options: TableOptions) -> pa.RecordBatch:
    """Return staged rows, which are as landing files have them, as `TableSchema.arrow` has them."""
    if schema.lands_as is None:
        return landed
    arrays = [landed.column(column.name) for column in landed_columns(schema.columns, options)]
    return pa.RecordBatch.from_arrays([*arrays, landed.column(landed.num_columns - 1)], schema=schema.arrow)
