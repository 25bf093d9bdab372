"""Read a manifest: YAML to declared tables that obey the rules for names, types, keys and options."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import EnumType
from typing import TYPE_CHECKING, Any, Final, get_args, get_type_hints

from app.client.table_manifest.yaml_text import Entry, Findings, Misplaced, read_yaml
from app.domain.model.names import TableName, check_column_name
from app.domain.model.projection import AuditColumns, Comparison, Constant, Mask, RowFilter
from app.domain.model.table_options import CHOSEN_AT_CREATION, DEFAULT_OPTIONS, ColumnOverride, TableOptions
from app.domain.model.table_schema import Column, ColumnType, TableSchema, TypeName
from app.errors import Code, RejectedInput

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_TYPES: Final = [*(name.value for name in TypeName if name is not TypeName.DECIMAL), "decimal(p,s)"]
_TABLE_KEYS: Final = ("name", "key_columns", "columns", "options")
_COLUMN_KEYS: Final = ("name", "type", "nullable")
_OPTION_TYPES: Final = get_type_hints(TableOptions)
_AUDIT_COLUMNS: Final = [*AuditColumns.__dataclass_fields__]
_DECLARED: "Final[Mapping[str, type[DataclassInstance]]]" = {"constants": Constant, "masks": Mask}
_CHOICES: Final = {
    name: [*map(str, one)]
    for types in (_OPTION_TYPES, get_type_hints(ColumnOverride))
    for name, declared in types.items()
    for one in get_args(declared) or (declared,)
    if isinstance(one, EnumType)
}
"""The values of each option of a table or column that has a list of them."""


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A table as the manifest declares it. Options that the manifest omits have their defaults, apart from `left`."""

    name: TableName
    schema: TableSchema
    """The columns as listed. `options` may exclude some of them and override others."""
    options: TableOptions
    location: str
    """File and line."""
    left: frozenset[str] = frozenset()
    """Options that the manifest leaves to the gateway: a new table gets its default, an existing one keeps its own."""


def read_manifest(text: str, file: str) -> list[DeclaredTable]:
    """Return the tables of a manifest in order. `file` names it in errors. Raises BadFile with every error found."""
    findings = Findings(file)
    tables: dict[str, DeclaredTable] = {}
    with findings.noted():
        for entry in read_yaml(text, findings).members(["tables"], ["tables"])["tables"].items():
            with findings.noted():
                members = entry.members(_TABLE_KEYS, ["name", "columns"])
                table = _table(entry, members)
                if table.name.folded in tables:
                    detail = f"the table is already declared at {tables[table.name.folded].location}"
                    raise members["name"].wrong(
                        Code.BAD_NAME, detail, "Declare it once. Letter case does not distinguish names."
                    )
                tables[table.name.folded] = table
    findings.check()
    return list(tables.values())


def _table(entry: Entry, members: dict[str, Entry]) -> DeclaredTable:
    found = entry.findings.found
    before = len(found)
    with members["name"].named():
        name = TableName.parse(members["name"].text())
    columns = _columns(members["columns"])
    given = _given(members["options"]) if "options" in members else {}
    if len(found) > before:  # further errors would only be consequences of this one
        raise found.pop()
    schema = _schema(columns, members)
    options = _options(given, schema, members["options"]) if "options" in members else DEFAULT_OPTIONS
    return DeclaredTable(
        name, schema, options, f"{entry.findings.file}, line {entry.line}", CHOSEN_AT_CREATION.difference(given)
    )


def _schema(columns: tuple[Column, ...], members: dict[str, Entry]) -> TableSchema:
    keys = members["key_columns"].items() if "key_columns" in members else []
    for key in keys:
        key.choice([column.name for column in columns], Code.BAD_SCHEMA, "column of the table")
    with members["key_columns" if keys else "columns"].named():
        return TableSchema.declare(columns, tuple(key.text() for key in keys))


def _columns(entry: Entry) -> tuple[Column, ...]:
    columns: dict[str, Column] = {}
    for item in entry.items():
        with entry.findings.noted():
            members = item.members(_COLUMN_KEYS, ["name", "type"])
            name = members["name"].text()
            with members["name"].named():
                check_column_name(name)
            if name.casefold() in columns:
                detail = f"there already is a column {columns[name.casefold()].name!r}"
                raise members["name"].wrong(Code.BAD_SCHEMA, detail, "Letter case does not distinguish names.")
            nullable = members["nullable"].truth() if "nullable" in members else True
            columns[name.casefold()] = Column(name, _type(members["type"]), nullable)
    return tuple(columns.values())


def _type(entry: Entry) -> ColumnType:
    text = entry.text()
    try:
        return ColumnType.parse(text)
    except RejectedInput as error:
        if text.startswith("decimal("):
            raise entry.wrong(error.code, f"{text!r}: {error.detail}", "Write for example decimal(12,2).") from None
        entry.choice(_TYPES, error.code, "type")
        raise entry.wrong(error.code, error.detail) from None


def _given(entry: Entry) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in entry.members(list(_OPTION_TYPES)).items():
        with entry.findings.noted():
            given[name] = _option(name, value)
    return given


def _options(given: dict[str, Any], schema: TableSchema, entry: Entry) -> TableOptions:
    try:
        options = TableOptions.parse(given)
        options.check(options.declared(schema))
    except RejectedInput as error:
        raise _of_option(error, entry) from None
    return options


def _option(name: str, entry: Entry) -> Any:
    declared = _OPTION_TYPES[name]
    if name in _CHOICES:
        return entry.choice(_CHOICES[name], Code.BAD_OPTION, f"value of {name}")
    if name == "columns":
        return {column: _override(override) for column, override in entry.members().items()}
    if name == "audit_columns":
        return {value: column.text() for value, column in entry.members(_AUDIT_COLUMNS).items()}
    if name == "filter":
        return _filter(entry)
    if name == "rename":
        return {column: value.text() for column, value in entry.members().items()}
    if name in _DECLARED:
        return {column: _declaration(value, _DECLARED[name]) for column, value in entry.members().items()}
    if declared is bool:
        return entry.truth()
    return entry.text() if declared is str else [item.text() for item in entry.items()]


def _filter(entry: Entry) -> dict[str, Any]:
    members = entry.members([*RowFilter.__dataclass_fields__])
    found: dict[str, Any] = {}
    for name, value in members.items():
        if name in {"all", "any"}:
            found[name] = [_filter(part) for part in value.items()]
        elif name == "op":
            found[name] = value.choice([*map(str, Comparison)], Code.BAD_OPTION, "comparison")
        else:
            found[name] = [item.text() for item in value.items()] if name == "values" else value.text()
    return found


def _declaration(entry: Entry, of: "type[DataclassInstance]") -> dict[str, Any]:
    """Return a constant or a mask."""
    members = entry.members([member.name for member in fields(of)])
    return {name: _whole_number(value) if name == "characters" else value.text() for name, value in members.items()}


def _whole_number(entry: Entry) -> int:
    text = entry.text()
    if not (text.isascii() and text.isdigit()):
        raise entry.wrong(Code.BAD_OPTION, f"{text!r} is not a whole number", "Write digits.")
    return int(text)


def _override(entry: Entry) -> dict[str, Any]:
    readers: dict[str, Callable[[Entry], Any]] = {
        "type": lambda value: str(_type(value)),
        "nullable": Entry.truth,
        "encoding": lambda value: value.choice(_CHOICES["encoding"], Code.BAD_OPTION, "encoding"),
        "unit": lambda value: value.choice(_CHOICES["unit"], Code.BAD_OPTION, "unit"),
    }
    assert readers.keys() == ColumnOverride.__dataclass_fields__.keys()
    return {name: readers[name](value) for name, value in entry.members(list(readers)).items()}


def _of_option(error: RejectedInput, entry: Entry) -> Misplaced:
    """Return the rejection with the line of the option that it is about."""
    pointer = (error.problems[0].pointer or "" if error.problems else "").removeprefix("/options")
    path = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return entry.below(path).wrong(error.code, error.detail, error.remedy)
