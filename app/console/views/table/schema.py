"""The columns and options of a table, and how its schema came to be."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final

from app.console.views.table.head import TableHead
from app.domain.model.table import Table
from app.domain.model.table_options import DEFAULT_OPTIONS
from app.domain.model.table_schema import Column, TableSchema
from app.staging.tables.schema_versions import StoredVersion

MAX_VERSIONS: Final = 50
"""Schema versions that the page lists."""

PAGE_COLUMNS: Final = 500
"""Columns on one page."""

_MAX_NAMES: Final = 20
_MAX_VALUE: Final = 2_000
"""Characters of the value of an option."""


@dataclass(frozen=True, slots=True)
class ColumnView:
    """A column as the page lists it."""

    column: Column
    key: int | None
    """The place among the key columns, from 1."""
    note: str


@dataclass(frozen=True, slots=True)
class OptionView:
    """An option with its value."""

    name: str
    value: str
    is_default: bool


@dataclass(frozen=True, slots=True)
class VersionView:
    """A schema version and what it changed."""

    stored: StoredVersion
    changes: tuple[str, ...]
    is_current: bool


@dataclass(frozen=True, slots=True)
class SchemaView:
    """The schema page."""

    head: TableHead
    columns: tuple[ColumnView, ...]
    first: int
    """The place of the first column that is shown, from 1."""
    total: int
    previous: str | None
    following: str | None
    options: tuple[OptionView, ...]
    versions: tuple[VersionView, ...]


def schema_page(head: TableHead, table: Table, versions: Sequence[StoredVersion], page: int = 1) -> SchemaView:
    """Return a page of columns, and the schema versions, the newest first; one more than MAX_VERSIONS may be given."""
    keys, total = table.schema.key_columns, len(table.schema.columns)
    last = max(1, -(-total // PAGE_COLUMNS))
    page = min(max(page, 1), last)
    start, link = (page - 1) * PAGE_COLUMNS, f"{head.path}/schema?page="
    pairs = zip(versions, [*versions[1:], None], strict=True)
    return SchemaView(
        head=head,
        columns=tuple(
            ColumnView(
                column,
                keys.index(column.name) + 1 if column.name in keys else None,
                _note(column.name, table),
            )
            for column in table.schema.columns[start : start + PAGE_COLUMNS]
        ),
        first=start + 1,
        total=total,
        previous=f"{link}{page - 1}" if page > 1 else None,
        following=f"{link}{page + 1}" if page < last else None,
        options=_options(table),
        versions=tuple(
            VersionView(
                stored,
                tuple(_changes(stored, before)),
                (stored.generation, stored.version) == (table.generation, table.schema_version),
            )
            for stored, before in [*pairs][:MAX_VERSIONS]
        ),
    )


def _note(column: str, table: Table) -> str:
    if column in table.left_columns:
        return "left the source"
    since = table.late_columns.get(column)
    return "" if since is None else f"rows of batches up to {since} lack it: load the table again"


def _options(table: Table) -> tuple[OptionView, ...]:
    defaults = DEFAULT_OPTIONS.of_new_table(table.schema, ()).to_json()
    values = table.options.to_json().items()
    return tuple(OptionView(name, _shown(value), value == defaults[name]) for name, value in values)


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) if value else _EMPTY[type(value)]
    return text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + "…"


_EMPTY: Final[dict[type, str]] = {
    bool: "false",
    list: "none",
    tuple: "none",
    dict: "none",
    int: "0",
    NoneType: "none",
}


def _changes(stored: StoredVersion, before: StoredVersion | None) -> list[str]:
    if before is None or before.generation != stored.generation:
        keys = ", ".join(stored.schema.key_columns) or "none"
        return [f"{len(stored.schema.columns)} columns; key: {keys}"]
    return [*_column_changes(stored.schema, before.schema), *_table_changes(stored.schema, before.schema)]


def _column_changes(new: TableSchema, old: TableSchema) -> list[str]:
    known = {column.name: column for column in old.columns}
    added = [f"{column.name} {column.type}" for column in new.columns if column.name not in known]
    nullable = [
        column.name for column in new.columns if column.name in known and column.nullable > known[column.name].nullable
    ]
    return [
        f"{what}: {', '.join(names[:_MAX_NAMES])}{', …' if len(names) > _MAX_NAMES else ''}"
        for what, names in (("added", added), ("became nullable", nullable))
        if names
    ]


def _table_changes(new: TableSchema, old: TableSchema) -> list[str]:
    found = [f"key: {', '.join(new.key_columns)}"] if new.key_columns != old.key_columns else []
    return found + (["files have a row marker from here on"] if old.bare and not new.bare else [])
