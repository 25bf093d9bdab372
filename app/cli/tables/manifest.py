"""Carry out `tables apply` (plan, show, confirm, register) and `tables export`.

The gateway decides what the registrations of a manifest would change, by a dry run of each. A difference that no
registration can resolve is a rejection, with the command that recreates or rebuilds the table.
"""

import json
import shlex
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import typer

from app.domain.model.names import TableName
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.table_manifest import DeclaredTable, PresentTable, read_manifest, to_manifest
from app.yaml_text import BadFile, Misplaced
from mirrorgate.cli.console import ERRORS, INTERRUPTED, PLAN_HAS_CHANGES, print_json, say
from mirrorgate.errors import Code, MirrorgateError, RejectedInput
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.parameters import table_path


class Action(StrEnum):
    """The plan's action for a table."""

    CREATE = "create"
    CHANGE = "change"
    NOTHING = "nothing"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class RegistrationConflict:
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
    rejections: tuple[RegistrationConflict, ...] = ()
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
    request, notes = table.registration, list[str]()
    try:
        answer = client.put(table_path(name), request, dry_run=True)
        beyond = _columns(client, name, answer["undeclared_columns"])
        if beyond and present and answer["options"]["new_columns"] != "add_as_string":
            return replace(plan, rejections=tuple(_undeclared(column, present, file) for column in beyond))
        if beyond:
            request = {**request, "columns": [*request["columns"], *beyond]}
            answer = client.put(table_path(name), request, dry_run=True)
            notes = [f"{_format_column(column)} is not in the file; messages may add columns" for column in beyond]
    except RejectedByGateway as error:
        return replace(plan, rejections=_rejections(table, error, present, file))
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


def _rejections(
    table: DeclaredTable, error: RejectedByGateway, present: dict[str, Any] | None, file: str
) -> tuple[RegistrationConflict, ...]:
    """Return the differences that only another table resolves. Raises BadFile for a declaration that no table can have.

    Which of the two an option is depends on its remedy: that of the code is to correct it.
    """
    details = [problem["detail"] for problem in error.errors] or [error.detail]
    if present is not None and error.code is Code.INCOMPATIBLE_SCHEMA:
        return tuple(RegistrationConflict(detail, _to_another_schema(present, file)) for detail in details)
    if present is not None and error.code is Code.BAD_OPTION and error.remedy != error.code.remedy:
        remedy = f"{error.remedy} To recreate it: {_recreate(present, file)}"
        return tuple(RegistrationConflict(detail, remedy) for detail in details)
    wrong = []
    for problem in error.errors:
        if "pointer" in problem:
            code = Code(problem["code"]) if problem["code"] in set(Code) else Code.INTERNAL
            remedy = error.remedy if code is error.code else code.remedy
            wrong.append(table.wrong(problem["pointer"], code, problem["detail"], remedy))
    if wrong:
        raise BadFile(wrong)
    return tuple(RegistrationConflict(detail, error.remedy) for detail in details)


def _columns(client: GatewayClient, table: str, names: list[str]) -> list[dict[str, Any]]:
    """Return columns of a table, as a registration has them."""
    columns = client.get(f"{table_path(table)}/schema")["columns"] if names else []
    return [column for column in columns if column["name"] in names]


def _undeclared(column: Mapping[str, Any], present: dict[str, Any], file: str) -> RegistrationConflict:
    keep = "Add it to the file, as `mirrorgate tables export` prints it"
    if column["nullable"]:
        keep += ", or to the option `exclude`: it then remains in the files with NULL values"
    return RegistrationConflict(
        f"{_format_column(column)} is in the table but not in the file",
        f"{keep}. Or: {_to_another_schema(present, file)}",
    )


def _to_another_schema(present: dict[str, Any], file: str) -> str:
    """Return how a table gets other columns or keys, without losing its rows where that is possible."""
    first = "Declare it in the file as it is"
    if _keeps_images(present["options"]):
        first = f"Rebuild it, which keeps its rows: mirrorgate tables rebuild {_named(present)} (--help)"
    return f"{first}. Or recreate it, which empties it: {_recreate(present, file)}"


def _recreate(present: dict[str, Any], file: str) -> str:
    return f"mirrorgate tables recreate {_named(present)} --file {shlex.quote(file)}"


def _named(present: dict[str, Any]) -> str:
    return f"{shlex.quote(present['table'])} --generation {present['generation']}"


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
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


_STANDARD_INPUT: Final = Path("-")
_MAX_LISTED: Final = 20
"""Tables that are not in the file and are named."""

_SIGNS: Final = {
    Action.CREATE: ("+", "green"),
    Action.CHANGE: ("~", "yellow"),
    Action.REJECTED: ("!", "red"),
    Action.NOTHING: ("=", "dim"),
}


def apply_manifest(
    client: GatewayClient, file: Path, *, plan_only: bool, detailed_exitcode: bool, yes: bool, as_json: bool
) -> None:
    """Register and change tables until they match the manifest.

    Raises typer.Exit with the exit status of `tables apply`, and RejectedInput.
    """
    plan = plan_tables(client, _read(file), str(file))
    if not as_json:
        _show(plan)
    if plan_only:
        _finish(plan, [], None, as_json)
        raise typer.Exit(1 if plan.rejected else PLAN_HAS_CHANGES if detailed_exitcode and plan.to_do else 0)
    if plan.rejected:
        _finish(plan, [], None, as_json)
        names = ", ".join(table.name for table in plan.rejected)
        remedy = "See the lines with ! above: correct the file, or run the command they name."
        raise RejectedInput(Code.INCOMPATIBLE_SCHEMA, f"nothing was done, because of {names}", remedy=remedy)
    if plan.to_do and not yes:
        _ask(len(plan.to_do), may_ask=not as_json and file != _STANDARD_INPUT)
    _carry_out(client, plan, as_json)


def export_manifest(client: GatewayClient, names: Collection[str] | None, *, all_options: bool) -> str:
    """Return tables as YAML that `apply_manifest` finds unchanged. Raises RejectedInput `unknown_table`."""
    wanted = [TableName.parse(name) for name in names] if names else None
    present = present_tables(client, wanted)
    for missing in {name.folded for name in wanted or ()} - {TableName.parse(table.name).folded for table in present}:
        raise RejectedInput(Code.UNKNOWN_TABLE, f"there is no table {missing}", remedy="See `mirrorgate tables list`.")
    return to_manifest(present, all_options=all_options)


def registration_of(file: Path, name: str) -> Mapping[str, Any]:
    """Return the registration of a table as the manifest declares it. Raises RejectedInput `unknown_table`."""
    folded = TableName.parse(name).folded
    for table in _read(file):
        if table.name.folded == folded:
            return table.registration
    raise RejectedInput(Code.UNKNOWN_TABLE, f"{file} declares no table {name}", remedy="Add it to the file.")


def present_tables(client: GatewayClient, names: Collection[TableName] | None = None) -> list[PresentTable]:
    """Return the visible tables of these names (default: all)."""
    wanted = None if names is None else {name.folded for name in names}
    return [
        PresentTable(
            status["table"],
            TableSchema.from_json({**client.get(f"{table_path(status['table'])}/schema"), "bare": False}),
            TableOptions.parse(status["options"]),
        )
        for status in client.get("/v1/tables")["tables"]
        if wanted is None or TableName.parse(status["table"]).folded in wanted
    ]


def _read(file: Path) -> list[DeclaredTable]:
    try:
        content = sys.stdin.buffer.read() if file == _STANDARD_INPUT else file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        detail = f"{file}, line {line}: not UTF-8"
        raise RejectedInput(Code.BAD_REQUEST, detail, remedy="Save the file as UTF-8.") from None
    return read_manifest(text, str(file))


def _ask(count: int, *, may_ask: bool) -> None:
    if not may_ask or not sys.stdin.isatty():
        remedy = "Give --yes to make the changes, or --plan to only see them."
        raise RejectedInput(Code.BAD_REQUEST, "there are changes, and no terminal to confirm them", remedy=remedy)
    typer.confirm(f"Register or change {count} tables?", abort=True)


def _carry_out(client: GatewayClient, plan: Plan, as_json: bool) -> None:
    """Register one table after the other. If this process dies, the next run plans the remaining tables."""
    done: list[TablePlan] = []
    end: MirrorgateError | KeyboardInterrupt | None = None
    try:
        for table in plan.to_do:
            client.put(table_path(table.name), table.request)
            done.append(table)
    except (MirrorgateError, KeyboardInterrupt) as error:
        end = error
    _finish(plan, done, end, as_json)
    if isinstance(end, MirrorgateError):
        raise end
    if end is not None:
        raise typer.Exit(INTERRUPTED)


def _finish(plan: Plan, done: list[TablePlan], end: BaseException | None, as_json: bool) -> None:
    """Report which tables are done and which are not."""
    left = plan.to_do[len(done) :]
    if as_json:
        error = {"code": end.code, "detail": end.detail} if isinstance(end, MirrorgateError) else None
        report = {
            "complete": not left and not plan.rejected,
            "tables": [_reported(table) for table in plan.tables],
            "done": [table.name for table in done],
            "left": [table.name for table in left],
            "not_in_file": list(plan.not_in_file),
            "error": error,
        }
        print_json(report)
        return
    if done:
        say(f"done: {_names(done)}")
    if end is not None:
        say(f"failed at {left[0].name}; not done: {_names(left)}", to=ERRORS)
        say("run the same command again to continue", to=ERRORS)


def _reported(table: TablePlan) -> dict[str, Any]:
    described = {name: value for name, value in asdict(table).items() if name not in ("name", "location", "request")}
    return {"table": table.name, "action": table.action, **described}


def _show(plan: Plan) -> None:
    """Print the plan for people."""
    for table in plan.tables:
        if table.action is Action.NOTHING and not table.notes:
            continue
        sign, style = _SIGNS[table.action]
        say(f"{sign} {table.name}", f"bold {style}")
        for text in table.added:
            say(f"    + {text}", "green")
        for text in table.changed:
            say(f"    ~ {text}", "yellow")
        for rejection in table.rejections:
            say(f"    ! {rejection.detail}", "red")
            say(f"      {rejection.remedy}")
        for text in table.notes:
            say(f"      {text}", "dim")
    if plan.not_in_file:
        more = len(plan.not_in_file) - _MAX_LISTED
        others = f" and {more:,} more" if more > 0 else ""
        say(f"not in the file, left alone: {', '.join(plan.not_in_file[:_MAX_LISTED])}{others}", "dim")
    counts = {action: sum(table.action is action for table in plan.tables) for action in Action}
    say(
        f"{counts[Action.CREATE]} to create, {counts[Action.CHANGE]} to change, {counts[Action.NOTHING]} as declared, "
        f"{counts[Action.REJECTED]} rejected"
    )


def _names(found: Iterable[TablePlan]) -> str:
    return ", ".join(table.name for table in found)
