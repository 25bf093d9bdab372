"""Write the tables of a gateway as a manifest that declares them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import yaml

from app.domain.model.table_options import DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import Column, TableSchema


@dataclass(frozen=True, slots=True)
class PresentTable:
    """A table as the gateway reports it."""

    name: str
    schema: TableSchema
    options: TableOptions


def to_manifest(tables: Iterable[PresentTable], *, all_options: bool = False) -> str:
    """Return a manifest that matches these tables; without `all_options` it omits options with default values."""
    content = {"tables": [_described(table, all_options) for table in tables]}
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**20)


def _described(table: PresentTable, all_options: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"name": table.name}
    if table.schema.key_columns:
        described["key_columns"] = _Inline(table.schema.key_columns)
    described["columns"] = [_column(column) for column in table.schema.columns]
    defaults = DEFAULT_OPTIONS.of_new_table(table.schema, ()).to_json()
    present = {name: value for name, value in table.options.to_json().items() if value is not None}
    options = {name: value for name, value in present.items() if all_options or value != defaults[name]}
    return described | ({"options": options} if options else {})


def _column(column: Column) -> "_InlineMapping":
    return _InlineMapping(
        {"name": column.name, "type": str(column.type)} | ({} if column.nullable else {"nullable": False})
    )


class _Inline(list[Any]):
    """A list on one line."""


class _InlineMapping(dict[str, Any]):
    """A mapping on one line."""


class _Dumper(yaml.SafeDumper):
    """Writes inline lists and mappings, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Repeat equal values instead of writing YAML anchors."""
        return True


_Dumper.add_representer(
    _Inline, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)
)
_Dumper.add_representer(
    _InlineMapping, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True)
)
