"""Differences between a declared and a present table that a registration cannot resolve, each with its remedy.

`recreate` is the command that resolves any of them by recreating the table.
"""

from dataclasses import dataclass

from app.client.table_manifest.manifest import DeclaredTable
from app.client.table_manifest.present_table import PresentTable
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, TableSchema, evolve
from app.errors import RejectedInput


@dataclass(frozen=True, slots=True)
class Rejection:
    """A difference that a registration cannot resolve."""

    detail: str
    remedy: str


def key_rejections(table: DeclaredTable, present: PresentTable, recreate: str) -> list[Rejection]:
    """Return the rejection of a changed key; adding a key to a table without one is allowed."""
    now, wanted = present.schema.key_columns, table.schema.key_columns
    if not now or now == wanted:
        return []
    return [Rejection(f"its key is {format_key(now)} and cannot become {format_key(wanted)}", recreate)]


def column_rejections(wanted: tuple[Column, ...], present: PresentTable, recreate: str) -> list[Rejection]:
    """Return the rejections of columns whose name, type or nullability differs."""
    columns = {column.name: column for column in present.schema.columns}
    folded = {column.name.casefold(): column for column in present.schema.columns}
    rejections = []
    for column in wanted:
        now = columns.get(column.name)
        if now is None:
            if other := folded.get(column.name.casefold()):
                detail = f"column {column.name!r} is {other.name!r} in the table"
                rejections.append(Rejection(detail, f"Write {other.name!r} in the file."))
            elif not column.nullable:
                detail = f"column {column.name!r} is new and required, but existing rows do not have it"
                rejections.append(Rejection(detail, f"Remove `nullable: false`. Or: {recreate}"))
        elif now.type != column.type:
            detail = f"column {column.name!r} is {now.type} and cannot become {column.type}"
            rejections.append(Rejection(detail, recreate))
        elif now.nullable and not column.nullable:
            detail = f"column {column.name!r} is nullable and cannot become required"
            rejections.append(Rejection(detail, recreate))
        elif column.nullable and not now.nullable and column.name in present.schema.key_set:
            detail = f"the key column {column.name!r} is required and cannot become nullable"
            rejections.append(Rejection(detail, recreate))
    return rejections


def undeclared_column(column: Column, recreate: str) -> Rejection:
    """Return the rejection of a column that the table has and the manifest does not."""
    keep = "Add it to the file, as `mirrorgate tables export` prints it"
    if column.nullable:
        keep += ", or to the option `exclude`: it then stays in the files with NULL values"
    return Rejection(f"{format_column(column)} is in the table but not in the file", f"{keep}. Or: {recreate}")


def rule_rejections(asked: TableSchema, options: TableOptions, present: PresentTable, recreate: str) -> list[Rejection]:
    """Return what the gateway's rules for changing a table reject; `asked` are the columns it would see."""
    try:
        options.check_change(present.options)
        options.check(evolve(present.schema, asked))
    except RejectedInput as error:
        return [Rejection(error.detail, recreate)]
    return []


def format_key(names: tuple[str, ...]) -> str:
    """Format a key for people: its columns in order."""
    return f"({', '.join(names)})" if names else "none"


def format_column(column: Column) -> str:
    """Format a column for people: name, type, and whether it is required."""
    return f"column {column.name} {column.type}{'' if column.nullable else ' required'}"
