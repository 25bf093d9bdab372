"""Carry out `tables apply` (plan, show, confirm, register) and `tables export`."""

import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from app.cli.tables.manifest_plan import Action, Plan, TablePlan, plan_tables
from app.domain.model.names import TableName
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import TableSchema
from app.table_manifest import DeclaredTable, PresentTable, read_manifest, to_manifest
from mirrorgate.cli.console import ERRORS, print_json, say
from mirrorgate.cli.exit_status import INTERRUPTED, PLAN_HAS_CHANGES
from mirrorgate.errors import Code, MirrorgateError, RejectedInput
from mirrorgate.http import GatewayClient
from mirrorgate.table_path import table_path

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
