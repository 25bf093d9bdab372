"""Which columns of a table are compared with its source. Imports no PyArrow, because the client needs it too."""

from collections.abc import Collection, Sequence
from typing import Final

from app.domain.model.table_schema import Column, TableSchema, TypeName
from app.errors import Code, RejectedInput

SEPARATOR: Final = "\x1f"
"""Between the texts of two columns."""

NULL_TEXT: Final = "\\N"
INCOMPARABLE: Final = frozenset({TypeName.FLOAT32, TypeName.FLOAT64, TypeName.JSON})
"""Types whose text differs between databases."""


def compared_columns(
    schema: TableSchema, chosen: Sequence[str] | None, masked: Collection[str] = (), left: Collection[str] = ()
) -> list[Column]:
    """Return the columns to compare, in the order of the table: the chosen ones, or all that can be compared.

    The key columns are always among them. Raises RejectedInput `unknown_column`, or `not_comparable` for a column whose
    type has no canonical text, whose values are masked or that has left the source, or for a table without keys.
    """
    if not schema.key_columns:
        raise RejectedInput(Code.NOT_COMPARABLE, "a table without key columns cannot be compared with its source")
    names = {column.name for column in schema.columns}
    if chosen is not None and (unknown := [name for name in chosen if name not in names]):
        raise RejectedInput(Code.UNKNOWN_COLUMN, f"the table has no column {unknown[0]!r}")
    wanted = names if chosen is None else {*chosen, *schema.key_columns}
    found = [column for column in schema.columns if column.name in wanted]
    explicit = {*schema.key_columns, *(chosen or ())}
    for column in found:
        if column.type.name in INCOMPARABLE and column.name in explicit:
            raise RejectedInput(
                Code.NOT_COMPARABLE, f"column {column.name!r} is {column.type}, which databases write differently"
            )
        if column.name in masked and column.name in explicit:
            raise RejectedInput(
                Code.NOT_COMPARABLE, f"column {column.name!r} is masked, so the source has other values"
            )
        if column.name in left and column.name in explicit:
            detail = f"column {column.name!r} has left the source or is excluded, so rows do not have its values"
            raise RejectedInput(Code.NOT_COMPARABLE, detail)
    hidden = {*masked, *left}
    return [column for column in found if column.type.name not in INCOMPARABLE and column.name not in hidden]
