"""Rows of landing files -> typed rows of their source: the opposite of `landing_projection`, where there is one.

Renamed columns get their names back, and constants and audit columns are left out. What a mask or a filter took away is
lost. The options must have been the same since the generation began; the columns can have grown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from app.domain.model.projection.audit_columns import History
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


def lost_in_landing(schema: TableSchema, options: TableOptions, versions: Iterable[TableSchema]) -> str | None:
    """Return why the landing rows of a generation do not tell the rows of the source; None if they do.

    `versions` are the schemas that the generation has had.
    """
    if options.history is not History.OFF:
        return "its files have every version of a row (history=append_only)"
    if options.masks or options.filter is not None:
        return "masks or a filter apply to it"
    taken = _taken_names(schema, options, versions)
    if taken:
        return f"column {taken[0]!r} of its files had values of an option before it had those of the source"
    return None


def _taken_names(schema: TableSchema, options: TableOptions, versions: Iterable[TableSchema]) -> Sequence[str]:
    """Return the landing columns that were there before the source's column whose values they have now."""
    landed = landed_columns(schema.columns, options)
    return [
        landing.name
        for version in versions
        for column, landing in zip(schema.columns, landed, strict=True)
        if column.name not in version.names and landing.name in version.landing.names
    ]
