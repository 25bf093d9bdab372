"""What `tables apply` and `tables export` do: plan, show, ask and register."""

import json
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import typer
from rich.console import Console

from app.client.http import GatewayClient
from app.client.table_manifest.export import written
from app.client.table_manifest.table_plan import Action, Plan, PresentTable, TablePlan, plan_tables, registration
from app.client.table_manifest.tables_file import DeclaredTable, read_tables
from app.domain.model.names import TableName
from app.domain.model.table import Generation, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.errors import Code, MirrorgateError, RejectedInput

_STANDARD_INPUT: Final = Path("-")
_INTERRUPTED: Final = 130
_CHANGES: Final = 2

_SIGNS: Final = {
    Action.CREATE: ("+", "green"),
    Action.CHANGE: ("~", "yellow"),
    Action.REJECTED: ("!", "red"),
    Action.NOTHING: ("=", "dim"),
}

_console = Console()
_errors = Console(stderr=True)


def apply_file(
    client: GatewayClient, file: Path, *, plan_only: bool, detailed_exitcode: bool, yes: bool, as_json: bool
) -> None:
    """Make tables as a file declares them. Raises typer.Exit with the status of `tables apply`, and RejectedInput."""
    declared = _read(file)
    present, others = present_tables(client, [table.name for table in declared])
    plan = plan_tables(declared, present, str(file), others)
    if not as_json:
        _show(plan)
    if plan_only:
        _finish(plan, [], None, as_json)
        raise typer.Exit(1 if plan.rejected else _CHANGES if detailed_exitcode and plan.to_do else 0)
    if plan.rejected:
        _finish(plan, [], None, as_json)
        names = ", ".join(table.name for table in plan.rejected)
        remedy = "See the lines with ! above: correct the file, or run the command that stands there."
        raise RejectedInput(Code.INCOMPATIBLE_SCHEMA, f"nothing was done, because of {names}", remedy=remedy)
    if plan.to_do and not yes:
        _ask(len(plan.to_do), may_ask=not as_json and file != _STANDARD_INPUT)
    _carry_out(client, plan, as_json)


def exported(client: GatewayClient, names: Collection[str] | None, *, all_options: bool) -> str:
    """Tables as YAML that `apply_file` finds unchanged. Raises RejectedInput `unknown_table`."""
    wanted = [TableName.parse(name) for name in names] if names else None
    present, _ = present_tables(client, wanted)
    for missing in {name.folded for name in wanted or ()} - {TableName.parse(table.name).folded for table in present}:
        raise RejectedInput(Code.UNKNOWN_TABLE, f"there is no table {missing}", remedy="See `mirrorgate tables list`.")
    return written(present, all_options=all_options)


def declared_in(file: Path, name: str) -> dict[str, Any]:
    """The registration of this table as a file declares it. Raises RejectedInput `unknown_table`."""
    folded = TableName.parse(name).folded
    for table in _read(file):
        if table.name.folded == folded:
            return registration(table)
    raise RejectedInput(Code.UNKNOWN_TABLE, f"{file} declares no table {name}", remedy="Add it to the file.")


def present_tables(
    client: GatewayClient, names: Collection[TableName] | None = None
) -> tuple[list[PresentTable], list[str]]:
    """The tables of these names among all that the key may see, and the names of the others. Unset: all of them."""
    wanted = None if names is None else {name.folded for name in names}
    found, others = [], []
    for status in client.get("/v1/tables")["tables"]:
        if wanted is None or TableName.parse(status["table"]).folded in wanted:
            schema = client.get(f"/v1/tables/{quote(status['table'], safe='')}/schema")
            found.append(_present(status, schema))
        else:
            others.append(status["table"])
    return found, others


def _present(status: dict[str, Any], schema: dict[str, Any]) -> PresentTable:
    return PresentTable(
        status["table"],
        Generation(status["generation"]),
        TableState(status["state"]),
        TableSchema.from_json({**schema, "bare": False}),
        TableOptions.parse(status["options"]),
    )


def _read(file: Path) -> list[DeclaredTable]:
    try:
        content = sys.stdin.buffer.read() if file == _STANDARD_INPUT else file.read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        detail = f"{file}, line {line}: this is not UTF-8"
        raise RejectedInput(Code.BAD_REQUEST, detail, remedy="Save the file as UTF-8.") from None
    return read_tables(text, str(file))


def _ask(count: int, *, may_ask: bool) -> None:
    if not may_ask or not sys.stdin.isatty():
        remedy = "Give --yes to do it, or --plan to see only what would be done."
        raise RejectedInput(
            Code.BAD_REQUEST, "there are changes, and nobody to ask whether to make them", remedy=remedy
        )
    typer.confirm(f"Register or change {count} tables?", abort=True)


def _carry_out(client: GatewayClient, plan: Plan, as_json: bool) -> None:
    """Register table after table. If this process dies, those before are done, and the next run plans the rest."""
    done: list[TablePlan] = []
    end: MirrorgateError | KeyboardInterrupt | None = None
    try:
        for table in plan.to_do:
            client.put(f"/v1/tables/{quote(table.name, safe='')}", table.request)
            done.append(table)
    except (MirrorgateError, KeyboardInterrupt) as error:
        end = error
    _finish(plan, done, end, as_json)
    if isinstance(end, MirrorgateError):
        raise end
    if end is not None:
        raise typer.Exit(_INTERRUPTED)


def _finish(plan: Plan, done: list[TablePlan], end: BaseException | None, as_json: bool) -> None:
    """Say what was done and what is left."""
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
        typer.echo(json.dumps(report))
        return
    if done:
        _say(f"done: {_names(done)}")
    if end is not None:
        _errors.print(f"failed at {left[0].name}; not done: {_names(left)}", markup=False, soft_wrap=True)
        _errors.print("run the same command again to go on", markup=False)


def _reported(table: TablePlan) -> dict[str, Any]:
    return {
        "table": table.name,
        "action": table.action,
        "generation": table.generation,
        "added": table.added,
        "changed": table.changed,
        "rejections": [{"detail": rejection.detail, "remedy": rejection.remedy} for rejection in table.rejections],
        "notes": table.notes,
    }


def _show(plan: Plan) -> None:
    """The plan as people read it."""
    for table in plan.tables:
        if table.action is Action.NOTHING and not table.notes:
            continue
        sign, style = _SIGNS[table.action]
        _say(f"{sign} {table.name}", f"bold {style}")
        for text in table.added:
            _say(f"    + {text}", "green")
        for text in table.changed:
            _say(f"    ~ {text}", "yellow")
        for rejection in table.rejections:
            _say(f"    ! {rejection.detail}", "red")
            _say(f"      {rejection.remedy}")
        for text in table.notes:
            _say(f"      {text}", "dim")
    if plan.not_in_file:
        _say(f"not in the file, left alone: {', '.join(plan.not_in_file)}", "dim")
    counts = {action: sum(table.action is action for table in plan.tables) for action in Action}
    _say(
        f"{counts[Action.CREATE]} to create, {counts[Action.CHANGE]} to change, {counts[Action.NOTHING]} as declared, "
        f"{counts[Action.REJECTED]} rejected"
    )


def _names(found: Iterable[TablePlan]) -> str:
    return ", ".join(table.name for table in found)


def _say(text: str, style: str | None = None) -> None:
    _console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
