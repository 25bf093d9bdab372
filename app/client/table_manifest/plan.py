"""Plan the registrations that make the tables of a gateway match a manifest, without performing them.

Only changes that a registration can make are planned. Any other difference is a rejection that names the command which
recreates the table.
"""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from app.client.table_manifest.manifest import DeclaredTable
from app.domain.model.names import TableName
from app.domain.model.table import Generation, TableState
from app.domain.model.table_options import DEFAULT_OPTIONS, NewColumns, TableOptions
from app.domain.model.table_schema import Column, TableSchema, evolve
from app.errors import RejectedInput


@dataclass(frozen=True, slots=True)
class PresentTable:
    """A table as the gateway reports it."""

    name: str
    generation: Generation
    state: TableState
    schema: TableSchema
    options: TableOptions


class Action(StrEnum):
    """What the plan does with a table."""

    CREATE = "create"
    CHANGE = "change"
    NOTHING = "nothing"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Rejection:
    """A difference that a registration cannot resolve."""

    detail: str
    remedy: str


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The plan for one table. `request` is the body of its registration, None if there is nothing to do."""

    name: str
    location: str
    """File and line."""
    generation: Generation | None = None
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    notes: tuple[str, ...] = ()
    request: Mapping[str, Any] | None = None

    @property
    def action(self) -> Action:
        """What the plan does with the table."""
        if self.rejections:
            return Action.REJECTED
        if self.request is None:
            return Action.NOTHING
        return Action.CREATE if self.generation is None else Action.CHANGE


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for all tables, in the order of the manifest, and the tables that the manifest does not name."""

    tables: tuple[TablePlan, ...]
    not_in_file: tuple[str, ...]

    @property
    def rejected(self) -> list[TablePlan]:
        """The tables that cannot match without being recreated."""
        return [table for table in self.tables if table.action is Action.REJECTED]

    @property
    def to_do(self) -> list[TablePlan]:
        """The tables to register or change."""
        return [table for table in self.tables if table.action in (Action.CREATE, Action.CHANGE)]


def plan_tables(
    declared: Iterable[DeclaredTable], present: Iterable[PresentTable], file: str, others: Iterable[str] = ()
) -> Plan:
    """Plan how to make `present` match `declared`.

    `file` is named in the commands that rejections propose. `others` are names of tables that are not declared.
    """
    left = {TableName.parse(table.name).folded: table for table in present}
    plans = []
    for table in declared:
        found = left.pop(table.name.folded, None)
        plans.append(_create(table) if found is None else _change(table, found, file))
    return Plan(tuple(plans), (*(table.name for table in left.values()), *others))


def registration(table: DeclaredTable, beyond: tuple[Column, ...] = ()) -> dict[str, Any]:
    """Return the body that registers a table; `beyond` are columns that the table has and the manifest does not."""
    described = replace(table.schema, columns=table.schema.columns + beyond).to_json()
    return {name: described[name] for name in ("key_columns", "columns")} | {"options": table.options.to_json()}


def _create(table: DeclaredTable) -> TablePlan:
    columns = [_describe(column) for column in table.options.declared(table.schema).columns]
    defaults = DEFAULT_OPTIONS.to_json()
    options = [
        f"option {name}: {_format(value)}" for name, value in table.options.to_json().items() if value != defaults[name]
    ]
    added = (*_keys_added(table), *columns, *options)
    return TablePlan(str(table.name), table.location, added=added, request=registration(table))


def _change(table: DeclaredTable, present: PresentTable, file: str) -> TablePlan:
    plan = TablePlan(present.name, table.location, present.generation)
    if not present.state.accepts_changes:
        wait = Rejection(
            f"the table is {present.state}", "Wait until the operation is done, then run the same command again."
        )
        return replace(plan, rejections=(wait,))
    recreate = (
        f"Recreate it, which empties it: mirrorgate tables recreate {shlex.quote(present.name)} "
        f"--generation {present.generation} --file {shlex.quote(file)}"
    )
    wanted = _columns_wanted(table, present)
    spoken_of = {*table.schema.names, *table.options.exclude}
    beyond = tuple(column for column in present.schema.columns if column.name not in spoken_of)
    rejections = [*_key_rejections(table, present, recreate), *_column_rejections(wanted, present, recreate)]
    notes = _notes(table, present)
    if table.options.new_columns is NewColumns.ADD_AS_STRING:
        notes += [f"{_describe(column)} is not in the file; messages may add columns" for column in beyond]
    else:
        rejections += [_left_out(column, recreate) for column in beyond]
    added = [
        *(_keys_added(table) if not present.schema.key_columns else ()),
        *(_describe(column) for column in wanted if column.name not in present.schema.names),
    ]
    relaxed = [column.name for column in wanted if column.nullable and column.name in _required(present)]
    changed = [f"column {name}: required -> nullable" for name in relaxed]
    changed += _options_changed(table.options, present.options)
    if not rejections:
        asked = table.options.declared(replace(table.schema, columns=table.schema.columns + beyond))
        rejections = _rejected_by_rules(asked if added or relaxed else present.schema, table.options, present, recreate)
    plan = replace(plan, added=tuple(added), changed=tuple(changed), notes=tuple(notes), rejections=tuple(rejections))
    if rejections or not (added or changed):
        return plan
    return replace(
        plan, request=registration(table, beyond) if added or relaxed else {"options": table.options.to_json()}
    )


def _notes(table: DeclaredTable, present: PresentTable) -> list[str]:
    if table.options.partial_updates is present.options.partial_updates:
        return []
    return ["changing partial_updates deletes all row images of the table"]


def _columns_wanted(table: DeclaredTable, present: PresentTable) -> tuple[Column, ...]:
    """Return the columns that the manifest wants.

    A column that the manifest lists exactly as the table has it is unchanged, even if an override was added later:
    overrides do not change existing columns.
    """
    listed = {column.name: column for column in table.schema.columns}
    return tuple(
        listed[column.name] if listed[column.name] in present.schema.columns else column
        for column in table.options.declared(table.schema).columns
    )


def _key_rejections(table: DeclaredTable, present: PresentTable, recreate: str) -> list[Rejection]:
    now, wanted = present.schema.key_columns, table.schema.key_columns
    if not now or now == wanted:
        return []
    return [Rejection(f"its key is {_keys(now)} and cannot become {_keys(wanted)}", recreate)]


def _column_rejections(wanted: tuple[Column, ...], present: PresentTable, recreate: str) -> list[Rejection]:
    columns = {column.name: column for column in present.schema.columns}
    folded = {column.name.casefold(): column for column in present.schema.columns}
    rejections = []
    for column in wanted:
        now = columns.get(column.name)
        if now is None:
            if other := folded.get(column.name.casefold()):
                detail = f"column {column.name!r} is {other.name!r} in the table"
                rejections.append(Rejection(detail, f"Write {other.name!r} in the file."))
            elif not column.nullable:
                detail = f"column {column.name!r} is new and required, but existing rows do not have it"
                rejections.append(Rejection(detail, f"Remove `nullable: false`. Or: {recreate}"))
        elif now.type != column.type:
            detail = f"column {column.name!r} is {now.type} and cannot become {column.type}"
            rejections.append(Rejection(detail, recreate))
        elif now.nullable and not column.nullable:
            detail = f"column {column.name!r} is nullable and cannot become required"
            rejections.append(Rejection(detail, recreate))
        elif column.nullable and not now.nullable and column.name in present.schema.key_set:
            detail = f"the key column {column.name!r} is required and cannot become nullable"
            rejections.append(Rejection(detail, recreate))
    return rejections


def _required(present: PresentTable) -> set[str]:
    return {column.name for column in present.schema.columns if not column.nullable} - present.schema.key_set


def _left_out(column: Column, recreate: str) -> Rejection:
    keep = "Add it to the file, as `mirrorgate tables export` prints it"
    if column.nullable:
        keep += ", or to the option `exclude`: it then stays in the files with NULL values"
    return Rejection(f"{_describe(column)} is in the table but not in the file", f"{keep}. Or: {recreate}")


def _rejected_by_rules(
    asked: TableSchema, options: TableOptions, present: PresentTable, recreate: str
) -> list[Rejection]:
    """Return what the gateway's rules for changing a table reject; `asked` are the columns it would see."""
    try:
        options.check_change(present.options)
        options.check(evolve(present.schema, asked))
    except RejectedInput as error:
        return [Rejection(error.detail, recreate)]
    return []


def _options_changed(wanted: TableOptions, present: TableOptions) -> list[str]:
    before = present.to_json()
    return [
        f"option {name}: {_format(before[name])} -> {_format(value)}"
        for name, value in wanted.to_json().items()
        if value != before[name]
    ]


def _keys_added(table: DeclaredTable) -> list[str]:
    return [f"key {_keys(table.schema.key_columns)}"] if table.schema.key_columns else []


def _keys(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})" if names else "none"


def _describe(column: Column) -> str:
    return f"column {column.name} {column.type}{'' if column.nullable else ' required'}"


def _format(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_format(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
