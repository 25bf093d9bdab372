"""Commands about row images: `rebuild` lands a table again from them, `backfill-images` gives older rows theirs."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from mirrorgate.cli.console import ERRORS, print_json, say
from mirrorgate.cli.options import AsJson, Connection, GenerationOrAll, TableName, TableOrAll, with_connection
from mirrorgate.parameters import table_path

if TYPE_CHECKING:
    from mirrorgate.http import GatewayClient, RejectedByGateway

_POLL_SECONDS: Final = 0.2
_ENDED: Final = frozenset({"checked", "done", "failed", "cancelled"})
_FAILED: Final = 1

Renames = Annotated[
    list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="Give a column another name. Repeatable.")
]


@with_connection
def rebuild(
    connection: Connection,
    table: TableOrAll = None,
    generation: GenerationOrAll = None,
    key_columns: Annotated[
        list[str] | None, typer.Option("--key-column", help="A key column. Repeat it in the order of the key.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--column", help="`name:type` or `name:type:required`: another type for a column. Repeatable."),
    ] = None,
    dropped: Annotated[list[str] | None, typer.Option("--drop-column", help="A column to leave out.")] = None,
    renamed: Renames = None,
    every: Annotated[
        bool, typer.Option("--all", help="Rebuild every table that keeps row images, with its columns and keys.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; show what would not fit and how long it would take.")
    ] = False,
    wait: Annotated[
        bool, typer.Option(help="Wait until the drain has finished. Ctrl-C stops waiting, not the rebuild.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Land all rows of a table again from its row images, without its source. New changes queue behind them.

    Options name columns as they are before the rebuild, except --key-column, which takes the new names. Use it after a
    key or a type has changed at the source, after the landing zone was lost, or after a restore.

    Exit status: 0 done, or a dry run that found nothing; 1 rejected, failed, or a dry run with findings.

    For example:

        mirrorgate tables rebuild sales.orders --generation 1 --column id:int64 --dry-run
    """
    changes = bool(key_columns or types or dropped or renamed)
    if every and (table is not None or generation is not None or changes):
        raise typer.BadParameter("--all accepts no table and no change of columns or keys")
    if not every and (table is None or generation is None):
        raise typer.BadParameter("name a table and its --generation, or give --all")
    from mirrorgate.http import RejectedByGateway

    with connection.client() as client:
        chosen = _with_images(client) if every else [(table or "", generation or 1)]
        wanted: dict[str, Any] = {"dry_run": dry_run}
        if types or dropped or renamed:
            wanted["columns"] = _columns(client, table or "", types or [], dropped or [], renamed or [])
        if key_columns:
            wanted["key_columns"] = key_columns
        refused = {}
        for name, number in chosen:
            try:
                client.post(f"{table_path(name)}/rebuild", wanted, generation=number)
            except RejectedByGateway as error:
                if not every:
                    raise
                refused[name] = error
        results = [
            _refused(name, refused[name])
            if name in refused
            else _rebuilt(client, name, number, wait=wait, quiet=as_json)
            for name, number in chosen
        ]
    if as_json:
        print_json(results if every else results[0])
    else:
        for result in results:
            _say_result(result)
    if any(result["phase"] == "failed" or result["findings"] for result in results):
        raise typer.Exit(_FAILED)


def _refused(table: str, error: "RejectedByGateway") -> dict[str, Any]:
    """Return the result of a table that cannot be rebuilt, in the form of the others."""
    nothing: dict[str, Any] = {"rows_done": 0, "rows_total": None, "estimated_seconds": None, "findings": []}
    return {"table": table, "phase": "failed", "detail": f"{error.detail} ({error.code})", **nothing}


def _with_images(client: "GatewayClient") -> list[tuple[str, int]]:
    """Return the tables that can be rebuilt, and say which cannot."""
    chosen = []
    for table in client.get("/v1/tables")["tables"]:
        options = table["options"]
        if options["row_images"] == "on" or options["partial_updates"] == "complete":
            chosen.append((table["table"], table["generation"]))
        else:
            say(f"{table['table']}: skipped; it keeps no row images, so recreate it and load it again", to=ERRORS)
    return chosen


def _columns(
    client: "GatewayClient", table: str, types: Sequence[str], dropped: Sequence[str], renamed: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the present columns with the changes."""
    present = client.get(f"{table_path(table)}/schema")["columns"]
    by_name = {column["name"]: {**column, "from": column["name"]} for column in present}

    def find(name: str) -> dict[str, Any]:
        if name not in by_name:
            raise typer.BadParameter(f"{table} has no column {name}")
        return by_name[name]

    for text in types:
        name, _, rest = text.partition(":")
        declared, _, required = rest.partition(":")
        if not declared or required not in {"", "required"}:
            raise typer.BadParameter("write --column as `name:type` or `name:type:required`")
        find(name).update({"type": declared, **({"nullable": False} if required else {})})
    for text in renamed:
        old, separator, new = text.partition("=")
        if not separator or not new:
            raise typer.BadParameter("write --rename as `old=new`")
        find(old)["name"] = new
    for name in dropped:
        find(name)["dropped"] = True
    return [column for column in by_name.values() if not column.pop("dropped", False)]


def _rebuilt(client: "GatewayClient", table: str, generation: int, *, wait: bool, quiet: bool) -> dict[str, Any]:
    """Return the rebuild as the gateway shows it, at its end if `wait`."""
    found = _follow(client, table, generation, "rebuild", wait=wait, quiet=quiet)["rebuild"]
    return {"table": table, **found}


def _follow(
    client: "GatewayClient",
    table: str,
    generation: int,
    work: Literal["rebuild", "backfill"],
    *,
    wait: bool,
    quiet: bool,
) -> dict[str, Any]:
    """Show how far a rebuild or backfill is; return the status of the table at the end of it, at once unless `wait`."""
    address = table_path(table)
    with _progress(table, hidden=quiet or not wait) as show:
        while True:
            status: dict[str, Any] = client.get(address)
            found = status[work]
            if found is None or not wait or found["generation"] != generation or _state(found) in _ENDED:
                return status
            show(found)
            time.sleep(_POLL_SECONDS)  # HTTP offers no notification of progress


def _state(work: dict[str, Any]) -> str:
    return str(work["phase"] if "phase" in work else work["state"])


@contextmanager
def _progress(table: str, *, hidden: bool) -> "Iterator[Callable[[dict[str, Any]], None]]":
    """Yield what shows the rows that are copied, on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=ERRORS, transient=True, disable=hidden or not ERRORS.is_terminal) as bar:
        task = bar.add_task(table, total=None)

        def show(found: dict[str, Any]) -> None:
            bar.update(
                task,
                description=f"{table}: {_state(found)}",
                total=found["rows_total"],
                completed=found["rows_done"],
            )

        yield show


def _say_result(result: dict[str, Any]) -> None:
    rows = f"{result['rows_done']:,} of {result['rows_total'] or 0:,} rows"
    estimate = result["estimated_seconds"]
    after = "" if estimate is None else f"; copying lasts about {estimate:,.0f} s"
    say(f"{result['table']}: {result['phase']}, {rows}{after}")
    if result["detail"]:
        say(f"  {result['detail']}")
    for found in result["findings"]:
        what = "the key" if found["column"] is None else f"column {found['column']}"
        say(f"  {found['code']}: {what}, {found['rows']:,} rows, the first at position {found['first_row']:,}")


@with_connection
def backfill_images(
    connection: Connection,
    table: TableName,
    generation: GenerationOrAll = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop the backfill. Another run continues it.")] = False,
    wait: Annotated[
        bool, typer.Option(help="Wait until the drain has finished. Ctrl-C stops waiting, not the backfill.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Give a row image to every row that a table had before its option row_images=on was set.

    The drain that owns the table reads its staged payloads from the first batch on, while changes continue. If
    retention has deleted some of them, recreate the table with row_images=on and load it again.

    Exit status: 0 done, cancelled, or asked for with --no-wait; 1 rejected, failed, or cancelled meanwhile.

    For example:

        mirrorgate tables backfill-images sales.orders
    """
    with connection.client() as client:
        address = table_path(table)
        generation = generation or int(client.get(address)["generation"])
        if cancel:
            status = client.delete(f"{address}/row-images/backfill", generation=generation)
        else:
            status = client.post(f"{address}/row-images/backfill", None, generation=generation)
        if not cancel and status["backfill"] is not None:
            status = _follow(client, table, generation, "backfill", wait=wait, quiet=as_json)
    backfill, complete = status["backfill"], bool((status["row_images"] or {}).get("complete"))
    if as_json:
        print_json({"table": table, "complete": complete, "backfill": backfill})
    elif complete:
        say(f"{table}: every row has a row image")
    elif backfill is None:
        say(f"{table}: no backfill is running")
    else:
        say(f"{table}: {backfill['state']}, {backfill['rows_done']:,} of {backfill['rows_total']:,} rows")
        if backfill["detail"]:
            say(f"  {backfill['detail']}")
    if not (complete or cancel or (backfill is not None and backfill["state"] == "running")):
        raise typer.Exit(1)
