"""Blanks around the values of a CSV body: they count in texts only."""

from typing import Final

from app.domain.model.table_schema import TableSchema, TypeName

_TEXT: Final = frozenset({TypeName.STRING, TypeName.JSON})
"""Types whose values can begin or end with blanks."""


def trimmed_columns(schema: TableSchema) -> frozenset[str]:
    """Return the columns in which blanks around a value are ignored."""
    return frozenset(column.name for column in schema.columns if column.type.name not in _TEXT)
