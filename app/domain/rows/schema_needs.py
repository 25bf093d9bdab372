"""Find what changes need of their table's schema: new string columns, or the row marker."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from app.domain.model.change import Change, Operation
from app.domain.model.names import check_new_column_name
from app.domain.model.table import Table
from app.domain.model.table_options import NewColumns, TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema, TypeName
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.json_pointer import pointer_to

_TEXT = ColumnType(TypeName.STRING)


def needed_schema(changes: Sequence[Change], table: Table) -> TableSchema:
    """Return the table's schema, or the one that these changes need and its options allow.

    Raises RejectedInput `bad_name`, `reserved_name` or `bad_schema` for each new column that no file can have.
    """
    schema = table.schema
    if table.options.new_columns is NewColumns.ADD_AS_STRING:
        schema = _with_new_columns(changes, schema, table.options)
    if schema.can_need_marker and not _all_inserts(changes, cdc_started=table.cdc_started):
        schema = replace(schema, bare=False)
    return schema


def _with_new_columns(changes: Sequence[Change], schema: TableSchema, options: TableOptions) -> TableSchema:
    """Return the schema with a nullable column for each unknown name of a new image, in order of appearance.

    It is a string column unless the options override its type.
    """
    known = {*schema.names, *options.exclude}
    new: dict[str, Change] = {}
    for change in changes:
        if change.operation is not Operation.DELETE and change.after and not known.issuperset(change.after):
            for name in change.after:
                if name not in known:
                    new.setdefault(name, change)
    if not new:
        return schema
    problems = [*_wrong_names(new, schema)]
    if problems:
        raise RejectedInput.of(tuple(problems))
    declared = options.declared(TableSchema(tuple(Column(name, _TEXT) for name in new)))
    added = tuple(replace(column, nullable=True) for column in declared.columns)
    return replace(schema, columns=schema.columns + added)


def _wrong_names(new: dict[str, Change], schema: TableSchema) -> Iterable[Problem]:
    """Yield the problems of new columns whose names are not allowed or already taken."""
    taken = {name.casefold() for name in (*schema.names, *schema.landing.names)}
    for name, change in new.items():
        try:
            check_new_column_name(name)
            if name.casefold() in taken:
                detail = "another column has the same name (letter case does not count)"
                raise RejectedInput(Code.BAD_SCHEMA, detail)
        except RejectedInput as error:
            yield Problem(error.code, error.detail, change.index, pointer_to(change.after_at, name), name)
        taken.add(name.casefold())


def _all_inserts(changes: Sequence[Change], *, cdc_started: bool) -> bool:
    """Return True if all rows land as inserts; a snapshot row after other changes lands as an upsert."""
    for change in changes:
        if change.operation is Operation.INSERT:
            cdc_started = True
        elif cdc_started or change.operation is not Operation.SNAPSHOT:
            return False
    return True
