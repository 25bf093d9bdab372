"""Plan the registrations that make the tables of a gateway match a manifest, without performing them.

Only changes that a registration can make are planned. Any other difference is a rejection that names the command which
recreates the table.
"""

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from app.client.table_manifest.manifest import DeclaredTable
from app.client.table_manifest.present_table import PresentTable
from app.client.table_manifest.rejections import (
    Rejection,
    column_rejections,
    format_column,
    format_key,
    key_rejections,
    rule_rejections,
    undeclared_column,
)
from app.domain.model.names import TableName
from app.domain.model.table import Generation
from app.domain.model.table_options import DEFAULT_OPTIONS, NewColumns, TableOptions
from app.domain.model.table_schema import Column


class Action(StrEnum):
    """What the plan does with a table."""

    CREATE = "create"
    CHANGE = "change"
    NOTHING = "nothing"
    REJECTED = "rejected"


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
    return {name: described[name] for name in ("key_columns", "columns")} | {"options": _options(table)}


def _options(table: DeclaredTable) -> dict[str, Any]:
    return {name: value for name, value in table.options.to_json().items() if name not in table.left}


def _create(table: DeclaredTable) -> TablePlan:
    columns = [format_column(column) for column in table.options.declared(table.schema).columns]
    defaults = DEFAULT_OPTIONS.of_new_table(table.schema, ()).to_json()
    options = [f"option {name}: {_format(value)}" for name, value in _options(table).items() if value != defaults[name]]
    added = (*_keys_added(table), *columns, *options)
    return TablePlan(str(table.name), table.location, added=added, request=registration(table))


def _change(table: DeclaredTable, present: PresentTable, file: str) -> TablePlan:
    table = replace(table, options=present.options.over(table.options, table.left))
    plan = TablePlan(present.name, table.location, present.generation)
    if not present.state.accepts_changes:
        wait = Rejection(
            f"the table is {present.state}", "Wait until the operation is done, then run the same command again."
        )
        return replace(plan, rejections=(wait,))
    recreate = _recreate(present, file)
    wanted = _columns_wanted(table, present)
    spoken_of = {*table.schema.names, *table.options.exclude}
    beyond = tuple(column for column in present.schema.columns if column.name not in spoken_of)
    rejections = [*key_rejections(table, present, recreate), *column_rejections(wanted, present, recreate)]
    notes = _notes(table, present)
    if table.options.new_columns is NewColumns.ADD_AS_STRING:
        notes += [f"{format_column(column)} is not in the file; messages may add columns" for column in beyond]
    else:
        rejections += [undeclared_column(column, recreate) for column in beyond]
    added = [
        *(_keys_added(table) if not present.schema.key_columns else ()),
        *(format_column(column) for column in wanted if column.name not in present.schema.names),
    ]
    relaxed = [column.name for column in wanted if column.nullable and column.name in _required(present)]
    changed = [f"column {name}: required -> nullable" for name in relaxed]
    changed += _options_changed(table.options, present.options)
    if not rejections:
        asked = table.options.declared(replace(table.schema, columns=table.schema.columns + beyond))
        rejections = rule_rejections(asked if added or relaxed else present.schema, table.options, present, recreate)
    plan = replace(plan, added=tuple(added), changed=tuple(changed), notes=tuple(notes), rejections=tuple(rejections))
    if rejections or not (added or changed):
        return plan
    return replace(plan, request=registration(table, beyond) if added or relaxed else {"options": _options(table)})


def _recreate(present: PresentTable, file: str) -> str:
    """Return how a table gets what no registration can change, without losing its rows where that is possible."""
    of_table = f"{shlex.quote(present.name)} --generation {present.generation}"
    recreate = f"ecreate it, which empties it: mirrorgate tables recreate {of_table} --file {shlex.quote(file)}"
    if present.options.keeps_images:
        return f"Rebuild it, which keeps its rows: mirrorgate tables rebuild {of_table} (--help). Or r{recreate}"
    return f"Declare it in the file as it is. Or r{recreate}"


def _notes(table: DeclaredTable, present: PresentTable) -> list[str]:
    if present.options.keeps_images and not table.options.keeps_images:
        return ["without row_images=on and partial_updates=complete the table loses all its row images"]
    if table.options.keeps_images and not present.options.keeps_images:
        return ["rows that the table has already need a backfill of their row images"]
    return []


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


def _required(present: PresentTable) -> set[str]:
    return {column.name for column in present.schema.columns if not column.nullable} - present.schema.key_set


def _options_changed(wanted: TableOptions, present: TableOptions) -> list[str]:
    before = present.to_json()
    return [
        f"option {name}: {_format(before[name])} -> {_format(value)}"
        for name, value in wanted.to_json().items()
        if value != before[name]
    ]


def _keys_added(table: DeclaredTable) -> list[str]:
    return [f"key {format_key(table.schema.key_columns)}"] if table.schema.key_columns else []


def _format(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_format(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
