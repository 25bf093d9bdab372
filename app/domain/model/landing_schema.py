"""The columns of landing files: those of the source, then those that the gateway fills.

Invariant: the files of a generation evolve like a source. A column of files never disappears, changes its type or
becomes required, whatever the options say later; one that nothing fills any more is NULL.
"""

from dataclasses import replace

from app.domain.model.projection import History, bad_option, parsed_derive
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, TableSchema, evolve
from mirrorgate.errors import RejectedInput


def with_landing(schema: TableSchema, options: TableOptions, present: TableSchema | None = None) -> TableSchema:
    """Return the schema of a source with the schema of its files, which continues that of the `present` version.

    Raises RejectedInput `bad_option` for an option that the files of this generation cannot follow.
    """
    plain = replace(schema, lands_as=None)
    wanted = _wanted(plain, options)
    if present is not None:
        try:
            wanted = evolve(present.landing, wanted)
        except RejectedInput as error:
            if present.lands_as is None and wanted == plain:
                raise
            detail = f"the files of this generation cannot have the columns that the options ask for: {error.detail}"
            raise bad_option(detail) from None
    return plain if wanted == plain and not options.derive else replace(plain, lands_as=wanted)


def _wanted(schema: TableSchema, options: TableOptions) -> TableSchema:
    """Return the schema that files of a new generation would have."""
    names = options.rename
    types = {name: one.tree.type for name, one in parsed_derive(options.derive, schema).items()}
    replaced = [
        Column(column.name, types.pop(column.name)) if column.name in types else column for column in schema.columns
    ]
    columns = (
        *(replace(column, name=names.get(column.name, column.name)) for column in replaced),
        *(constant.column(name) for name, constant in options.constants.items()),
        *(Column(name, of_type) for name, of_type in types.items()),
        *options.audit_columns.columns,
    )
    if options.history is History.APPEND_ONLY:
        return replace(TableSchema.declare(columns, ()), bare=True)
    keys = tuple(names.get(key, key) for key in schema.key_columns)
    return replace(TableSchema.declare(columns, keys), bare=schema.bare or options.upserts_only)
