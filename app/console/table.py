"""The content of one table's pages: the head that all of them have, and how its columns and options came to be."""

import json
from dataclasses import dataclass
from types import NoneType
from typing import Any, Final

from app.console.links import table_path
from app.domain.model.table import Table
from app.domain.model.table_options import DEFAULT_OPTIONS
from app.domain.model.table_schema import TableSchema, column_changes
from app.staging.tables.schema_versions import StoredVersion

_TABS: Final = (("Status", ""), ("Files", "/files"), ("Schema", "/schema"), ("Rows", "/rows"))
_ADMIN_TABS: Final = (("Events", "/events"),)
_MAX_VALUE: Final = 2_000
"""Characters of the value of an option."""


@dataclass(frozen=True, slots=True)
class TableHead:
    """The head of each page of a table: its name, generation and state, and the tabs that the user may open."""

    name: str
    table: Table | None
    """None for a table that is gone; its events remain."""
    tab: str
    """The label of the tab that is open; empty for a page behind a button."""
    is_admin: bool

    @property
    def path(self) -> str:
        """The address of the table's first page; those of its other pages begin with it."""
        return table_path(self.name)

    @property
    def tabs(self) -> tuple[tuple[str, str], ...]:
        """The label of each tab, and what its address has behind that of the first page."""
        return (_TABS if self.table is not None else ()) + (_ADMIN_TABS if self.is_admin else ())


def note_of(column: str, table: Table) -> str:
    """Return what is special about the rows of a column."""
    if column in table.left_columns:
        return "left the source"
    since = table.late_columns.get(column)
    return "" if since is None else f"rows of batches up to {since} lack it: load the table again"


def options_of(table: Table) -> list[tuple[str, str, bool]]:
    """Return the options with their values, and whether each has its default."""
    defaults = DEFAULT_OPTIONS.of_new_table(table.schema, ()).to_json()
    values = table.options.to_json().items()
    return [(name, _shown(value), value == defaults[name]) for name, value in values]


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


def changes_of(stored: StoredVersion, before: StoredVersion | None) -> list[str]:
    """Return what a schema version changed; the first one of a generation has all columns."""
    if before is None or before.generation != stored.generation:
        keys = ", ".join(stored.schema.key_columns) or "none"
        return [f"{len(stored.schema.columns)} columns; key: {keys}"]
    return [
        *column_changes(stored.schema.columns, before.schema.columns),
        *_table_changes(stored.schema, before.schema),
    ]


def _table_changes(new: TableSchema, old: TableSchema) -> list[str]:
    found = [f"key: {', '.join(new.key_columns)}"] if new.key_columns != old.key_columns else []
    return found + (["files have a row marker from here on"] if old.bare and not new.bare else [])
