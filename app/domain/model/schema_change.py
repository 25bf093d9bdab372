"""Schema changes as a table's events record them: what a registration, a metadata message or changes did."""

from collections.abc import Mapping
from typing import Any

from app.domain.model.table import Table


def schema_change(before: Table, after: Table) -> Mapping[str, Any]:
    """Return the differences by kind, empty if the columns are the same."""
    old = {column.name: column for column in before.schema.columns}
    new = {column.name: column for column in after.schema.columns}
    found: dict[str, Any] = {
        "added": [{"name": name, "type": str(column.type)} for name, column in new.items() if name not in old],
        "nullable": [name for name, column in new.items() if name in old and column.nullable > old[name].nullable],
        "left": sorted(after.left_columns - before.left_columns),
        "returned": sorted(before.left_columns - after.left_columns),
        "rows_lack": sorted(name for name in after.late_columns if name not in old),
        "key_columns": list(after.schema.key_columns) if after.schema.key_columns != before.schema.key_columns else [],
        "row_marker": before.schema.bare and not after.schema.bare,
    }
    changed = {name: value for name, value in found.items() if value}
    return changed and {"schema_version": after.schema_version, **changed}
