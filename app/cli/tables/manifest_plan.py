"""Ask a gateway what the registrations of a manifest would change, and present the answers.

The gateway decides, by a dry run of each registration. A difference that no registration can resolve is a rejection,
with the command that recreates or rebuilds the table.
"""

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from app.domain.model.names import TableName
from app.table_manifest import DeclaredTable
from app.yaml_text import BadFile, Misplaced
from mirrorgate.errors import Code
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.table_path import table_path

_NEEDS_ANOTHER_TABLE: Final = frozenset({Code.INCOMPATIBLE_SCHEMA, Code.BAD_OPTION})
"""Codes of differences between a declared and a present table that recreating it resolves."""


class Action(StrEnum):
    """The plan's action for a table."""

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
    generation: int | None = None
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    notes: tuple[str, ...] = ()
    request: Mapping[str, Any] | None = None

    @property
    def action(self) -> Action:
        """Action of the plan for the table."""
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


def plan_tables(client: GatewayClient, declared: Iterable[DeclaredTable], file: str) -> Plan:
    """Plan how to make the tables of a gateway match `declared`; `file` is named in the commands of rejections.

    Raises BadFile with everything that the gateway finds wrong in the declarations, with lines.
    """
    present = {TableName.parse(status["table"]).folded: status for status in client.get("/v1/tables")["tables"]}
    plans, wrong = [], list[Misplaced]()
    for table in declared:
        try:
            plans.append(_planned(client, table, present.pop(table.name.folded, None), file))
        except BadFile as error:
            wrong += error.found
    if wrong:
        raise BadFile(wrong)
    return Plan(tuple(plans), tuple(status["table"] for status in present.values()))


def _planned(client: GatewayClient, table: DeclaredTable, present: dict[str, Any] | None, file: str) -> TablePlan:
    name = str(table.name) if present is None else present["table"]
    plan = TablePlan(name, table.location, None if present is None else present["generation"])
    recreate = None if present is None else _recreate(present, file)
    request, notes = table.registration, list[str]()
    try:
        answer = client.put(table_path(name), request, dry_run=True)
        beyond = _columns(client, name, answer["undeclared_columns"])
        if beyond and answer["options"]["new_columns"] != "add_as_string":
            return replace(plan, rejections=tuple(_undeclared(column, recreate or "") for column in beyond))
        if beyond:
            request = {**request, "columns": [*request["columns"], *beyond]}
            answer = client.put(table_path(name), request, dry_run=True)
            notes = [f"{_format_column(column)} is not in the file; messages may add columns" for column in beyond]
    except RejectedByGateway as error:
        return replace(plan, rejections=_rejections(table, error, recreate))
    changes = answer["changes"]
    options = changes["options"]
    added = [
        *([f"key ({', '.join(changes['key_columns'])})"] if changes["key_columns"] else ()),
        *map(_format_column, changes["columns"]),
        *(f"option {one['option']}: {_format(one['after'])}" for one in options if present is None),
    ]
    changed = [
        *(f"column {column}: required -> nullable" for column in changes["nullable"]),
        *(
            f"option {one['option']}: {_format(one['before'])} -> {_format(one['after'])}"
            for one in options
            if present is not None
        ),
    ]
    if present is not None:
        notes += _notes(_keeps_images(present["options"]), _keeps_images(answer["options"]))
    return replace(
        plan,
        added=tuple(added),
        changed=tuple(changed),
        notes=tuple(notes),
        request=None if changes["outcome"] == "unchanged" else request,
    )


def _rejections(table: DeclaredTable, error: RejectedByGateway, recreate: str | None) -> tuple[Rejection, ...]:
    """Return the differences that only another table resolves. Raises BadFile for a declaration that no table can have.

    Which of the two a code is about depends on whether the table exists.
    """
    if recreate is not None and error.code in _NEEDS_ANOTHER_TABLE:
        return tuple(Rejection(problem["detail"], recreate) for problem in error.errors or [{"detail": error.detail}])
    wrong = []
    for problem in error.errors:
        if "pointer" in problem:
            code = Code(problem["code"]) if problem["code"] in set(Code) else Code.INTERNAL
            remedy = error.remedy if code is error.code else code.remedy
            wrong.append(table.wrong(problem["pointer"], code, problem["detail"], remedy))
    if wrong:
        raise BadFile(wrong)
    details = [problem["detail"] for problem in error.errors] or [error.detail]
    return tuple(Rejection(detail, error.remedy) for detail in details)


def _columns(client: GatewayClient, table: str, names: list[str]) -> list[dict[str, Any]]:
    """Return columns of a table, as a registration has them."""
    columns = client.get(f"{table_path(table)}/schema")["columns"] if names else []
    return [column for column in columns if column["name"] in names]


def _undeclared(column: Mapping[str, Any], recreate: str) -> Rejection:
    keep = "Add it to the file, as `mirrorgate tables export` prints it"
    if column["nullable"]:
        keep += ", or to the option `exclude`: it then remains in the files with NULL values"
    return Rejection(f"{_format_column(column)} is in the table but not in the file", f"{keep}. Or: {recreate}")


def _recreate(present: dict[str, Any], file: str) -> str:
    """Return how a table gets what no registration can change, without losing its rows where that is possible."""
    of_table = f"{shlex.quote(present['table'])} --generation {present['generation']}"
    recreate = f"ecreate it, which empties it: mirrorgate tables recreate {of_table} --file {shlex.quote(file)}"
    if _keeps_images(present["options"]):
        return f"Rebuild it, which keeps its rows: mirrorgate tables rebuild {of_table} (--help). Or r{recreate}"
    return f"Declare it in the file as it is. Or r{recreate}"


def _keeps_images(options: Mapping[str, Any]) -> bool:
    return bool(options["row_images"] == "on" or options["partial_updates"] == "complete")


def _notes(kept: bool, keeps: bool) -> list[str]:
    if kept and not keeps:
        return ["without row_images=on and partial_updates=complete the table loses all its row images"]
    if keeps and not kept:
        return ["rows that the table has already need a backfill of their row images"]
    return []


def _format_column(column: Mapping[str, Any]) -> str:
    return f"column {column['name']} {column['type']}{'' if column['nullable'] else ' required'}"


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
