"""Table schemas in one line."""

from collections.abc import Iterable, Mapping

from app.domain.model.table_schema import Column, ColumnType, TableSchema


def schema_of(columns: Mapping[str, str], keys: Iterable[str] = (), required: Iterable[str] = ()) -> TableSchema:
    """Return a schema of columns by name and declared type; `required` ones are not nullable."""
    not_null = set(required)
    return TableSchema.declare(
        tuple(Column(name, ColumnType.parse(text), name not in not_null) for name, text in columns.items()),
        tuple(keys),
    )
