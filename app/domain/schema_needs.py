"""What the changes themselves ask of a table's schema: new text columns, or the row marker at last."""

from collections.abc import Sequence
from dataclasses import replace

from app.domain.change import Change, Operation
from app.domain.table import Table
from app.domain.table_options import NewColumns
from app.domain.table_schema import Column, ColumnType, TableSchema, TypeName

_INSERTS = frozenset({Operation.INSERT, Operation.SNAPSHOT})


def needed_schema(changes: Sequence[Change], table: Table) -> TableSchema:
    """The table's schema, or the one that these changes need and its options allow.

    Raises RejectedInput `bad_name`, `reserved_name` or `bad_schema` for a new column that no file can have.
    """
    schema = table.schema
    if table.options.new_columns is NewColumns.ADD_AS_STRING:
        schema = _with_new_columns(changes, schema, table.options.exclude)
    if schema.bare and not _all_inserts(changes, cdc_started=table.cdc_started):
        schema = replace(schema, bare=False)
    return schema


def _with_new_columns(changes: Sequence[Change], schema: TableSchema, exclude: Sequence[str]) -> TableSchema:
    """The schema with a nullable text column for each unknown name of a new image, in order of appearance."""
    known = {*schema.names, *exclude}
    new: dict[str, None] = {}
    for change in changes:
        if change.operation is not Operation.DELETE and change.after and not known.issuperset(change.after):
            new |= dict.fromkeys(name for name in change.after if name not in known)
    if not new:
        return schema
    added = tuple(Column(name, ColumnType(TypeName.STRING)) for name in new)
    return replace(TableSchema.declare(schema.columns + added, schema.key_columns), bare=schema.bare)


def _all_inserts(changes: Sequence[Change], *, cdc_started: bool) -> bool:
    """Whether all rows land as plain inserts; a reload beside other changes lands as upserts."""
    operations = {change.operation for change in changes}
    reloads = Operation.SNAPSHOT in operations and (cdc_started or len(operations) > 1)
    return operations <= _INSERTS and not reloads
