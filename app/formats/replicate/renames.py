"""Renamed columns: metadata that drops a column of the table and adds one in its place.

Mirroring cannot rename a column. Treated as one column that left and one that was added, all earlier rows would keep
NULL under the new name.
"""

from collections.abc import Iterable

from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.errors import Code, Problem
from app.errors.json_pointer import pointer_to
from app.formats.replicate.history import SourceVersion
from app.formats.replicate.metadata import TableMetadata


def renamed_columns(
    entry: TableMetadata, previous: SourceVersion | None, present: TableSchema, options: TableOptions
) -> Iterable[Problem]:
    """Return the columns new to the table that have the ordinal and the type of one that the metadata drops.

    `previous` is the version that the source had before. Columns that the table already has are not new: they were
    registered. Options are applied to the metadata as at registration.
    """
    known = {column.name: column for column in present.columns}
    added = [column for column in options.declared(entry.schema).columns if column.name not in known]
    before = {} if previous is None else {column.ordinal: name for name, column in previous.columns.items()}
    for column in added:
        old = known.get(before.get(entry.columns[column.name].ordinal, ""))
        if old is not None and old.name not in entry.columns and old.type == column.type:
            yield _problem(entry, column.name, f"column {old.name!r} seems to have been renamed to {column.name!r}")


def columns_in_another_case(entry: TableMetadata, present: TableSchema, options: TableOptions) -> Iterable[Problem]:
    """Return the columns that the table has in another letter case, which no file can hold beside them."""
    known = {name.casefold(): name for name in present.names}
    for column in options.declared(entry.schema).columns:
        old = known.get(column.name.casefold(), column.name)
        if old != column.name:
            yield _problem(
                entry, column.name, f"column {old!r} of the table is now {column.name!r}, in another letter case"
            )


def _problem(entry: TableMetadata, column: str, detail: str) -> Problem:
    pointer = pointer_to(f"{entry.at}/tableStructure/tableColumns", column)
    return Problem(Code.COLUMN_RENAMED, detail, entry.index, pointer, column)
