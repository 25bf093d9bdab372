"""Table manifests: YAML that declares tables, and the registrations that it means.

Reading checks the YAML, the names of tables, and that each table and source is declared once. Everything else is for
the gateway to check, by a dry run of each registration. The place that an answer names by a JSON Pointer becomes a line
of the file.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from app.domain.model.names import TableName
from app.domain.model.table_options import CHOSEN_AT_CREATION, DEFAULT_OPTIONS, TableOptions
from app.domain.model.table_schema import Column, TableSchema
from app.yaml_text import Findings, Misplaced, YamlValue, read_yaml
from mirrorgate.errors import Code, RejectedInput


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A table as the manifest declares it."""

    name: TableName
    registration: Mapping[str, Any]
    """The body that registers it: values are strings as written; options that the manifest omits have their defaults.

    The options that can only be chosen for a new table are left to the gateway if the manifest omits them.
    """
    entry: YamlValue

    @property
    def location(self) -> str:
        """File and line."""
        return f"{self.entry.findings.file}, line {self.entry.line}"

    @property
    def sources(self) -> list[Any]:
        """The option `sources`; empty if the manifest omits it, or has no list there."""
        options = self.registration["options"]
        given = options.get("sources") if isinstance(options, dict) else None
        return given if isinstance(given, list) else []

    def wrong(self, pointer: str, code: Code, detail: str, remedy: str) -> Misplaced:
        """Return an error with the line of what a JSON Pointer into the registration names."""
        path = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
        return self.entry.below(path).wrong(code, detail, remedy)


def read_manifest(text: str, file: str) -> list[DeclaredTable]:
    """Return the tables of a manifest in order. `file` names it in errors. Raises BadFile with every error found."""
    findings = Findings(file)
    tables: dict[str, DeclaredTable] = {}
    with findings.noted():
        for entry in read_yaml(text, findings).members(["tables"], ["tables"])["tables"].items():
            with findings.noted():
                table = _table(entry)
                if table.name.folded in tables:
                    detail = f"the table is already declared at {tables[table.name.folded].location}"
                    remedy = "Declare it once. Letter case does not distinguish names."
                    raise entry.members()["name"].wrong(Code.BAD_NAME, detail, remedy)
                tables[table.name.folded] = table
    _check_sources(tables.values(), findings)
    findings.check()
    return list(tables.values())


def _check_sources(tables: Collection[DeclaredTable], findings: Findings) -> None:
    """Note each source that another table of the file has or is: the dry run of either table would accept it."""
    names, owners = {str(table.name): table for table in tables}, dict[str, DeclaredTable]()
    for table, place, source in ((one, *entry) for one in tables for entry in enumerate(one.sources)):
        owner = owners.setdefault(str(source).casefold(), table)
        other = names.get(str(source), table) if owner is table else owner
        if other is not table:
            with findings.noted():
                detail = f"is also the table at {other.location}, or one of its sources"
                raise table.wrong(f"/options/sources/{place}", Code.BAD_OPTION, detail, "Declare it once.")


def _table(entry: YamlValue) -> DeclaredTable:
    members = entry.members(required=["name", "columns"])
    text = members["name"].text()
    try:
        name = TableName.parse(text)
    except RejectedInput as error:
        raise members["name"].wrong(error.code, error.detail, error.remedy) from None
    declared = {key: member.content() for key, member in members.items() if key != "name"}
    given = declared.get("options", {})
    if isinstance(given, dict):
        omitted = CHOSEN_AT_CREATION.difference(given)
        defaults = {option: value for option, value in DEFAULT_OPTIONS.to_json().items() if option not in omitted}
        nulls = {name for name, value in given.items() if value in ("null", "~") and defaults.get(name, "") is None}
        declared["options"] = defaults | {option: value for option, value in given.items() if option not in nulls}
    return DeclaredTable(name, declared, entry)


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
    """Writer of inline lists and mappings, without aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        """Repeat equal values instead of writing YAML anchors."""
        return True


_Dumper.add_representer(
    _Inline, lambda dumper, data: dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=True)
)
_Dumper.add_representer(
    _InlineMapping, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True)
)
