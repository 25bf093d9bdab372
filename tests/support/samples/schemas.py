"""Table schemas in one line, and tables that no database has."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Never

from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table, TableId, TableState
from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import Column, ColumnType, SchemaVersion, TableSchema


def schema_of(columns: Mapping[str, str], keys: Iterable[str] = (), required: Iterable[str] = ()) -> TableSchema:
    """Return a schema of columns by name and declared type; `required` ones are not nullable."""
    not_null = set(required)
    return TableSchema.declare(
        tuple(Column(name, ColumnType.parse(text), name not in not_null) for name, text in columns.items()),
        tuple(keys),
    )


ID: Final = schema_of({"id": "int64"}, ["id"])
"""The one column `id`, which is the key."""

EVERY_TYPE: Final = schema_of(
    {
        "id": "int64",
        "flag": "boolean",
        "small": "int16",
        "medium": "int32",
        "single": "float32",
        "double": "float64",
        "total": "decimal(38,2)",
        "day": "date",
        "moment": "timestamp",
        "name": "string",
        "bytes": "binary",
        "document": "json",
    },
    ["id"],
)
"""A column of each type, and the key `id`."""

FULL_ROW: Final[dict[str, Any]] = {
    "id": 1,
    "flag": True,
    "small": 2,
    "medium": 3,
    "single": "1.5",
    "double": "2.5",
    "total": "9" * 36 + ".99",
    "day": "2024-02-29",
    "moment": "2024-02-29 01:02:03.123456+01:00",
    "name": "é",
    "bytes": "00ff",
    "document": "{}",
}
"""A row of EVERY_TYPE."""


def active_table(
    schema: TableSchema,
    options: TableOptions = DEFAULT_OPTIONS,
    name: str | TableName = "t",
    number: int = 1,
    **members: Any,
) -> Table:
    """Return an active table in its first generation, with the first version of a schema."""
    known = TableName.parse(name) if isinstance(name, str) else name
    return Table(TableId(number), known, Generation(1), TableState.ACTIVE, SchemaVersion(1), schema, options, **members)


def no_database() -> Never:
    """Fail as the connections of a cache that has all tables."""
    raise AssertionError("no query is needed: all tables are cached")
