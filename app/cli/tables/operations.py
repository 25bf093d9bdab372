"""Commands that operate a table and its load sessions, list the events that they leave, and apply manifests."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.messages import read_json
from mirrorgate.cli.console import OUTPUT, print_json, say
from mirrorgate.cli.options import (
    AsJson,
    Connection,
    GenerationOption,
    GenerationOrAll,
    TableName,
    TableOrAll,
    with_connection,
)
from mirrorgate.errors import Code
from mirrorgate.errors.site import with_addresses
from mirrorgate.parameters import table_path

if TYPE_CHECKING:
    from mirrorgate.http import GatewayClient

_PASSED_OVER: Final = frozenset({Code.UNKNOWN_TABLE, Code.GENERATION_MISMATCH, Code.WRONG_TABLE_STATE})
"""Errors of a table that another caller has released, recreated or dropped meanwhile."""

_POLL_SECONDS: Final = 0.2

Wait = Annotated[
    bool, typer.Option(help="Wait until the drain has finished the operation. Ctrl-C stops waiting, not the operation.")
]


@with_connection
def drop(connection: Connection, table: TableName, generation: GenerationOption, wait: Wait = True) -> None:
    """Delete a table and its landing folder. Unpublished batches are discarded, and their number is printed.

    For example:

        mirrorgate tables drop sales.orders --generation 1
    """
    with connection.client() as client:
        begin = partial(client.delete, table_path(table), generation=generation)
        _run_operation(client, table, generation, begin, wait=wait)


@with_connection
def recreate(
    connection: Connection,
    table: TableName,
    generation: GenerationOption,
    schema: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="New columns and keys, as the JSON that `tables schema` prints. Default: keep the columns.",
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A `tables apply` manifest (YAML); the table is recreated as it declares this table.",
        ),
    ] = None,
    wait: Wait = True,
) -> None:
    """Delete a table's landing folder and start a new, empty generation with file number 1."""
    if schema is not None and file is not None:
        raise typer.BadParameter("give either --schema or --file")
    wanted = read_json(schema, Code.BAD_SCHEMA) if schema is not None else {}
    if file is not None:
        from app.cli.tables.manifest import registration_of

        wanted = registration_of(file, table)
    with connection.client() as client:
        begin = partial(client.post, f"{table_path(table)}/recreate", wanted, generation=generation)
        _run_operation(client, table, generation, begin, wait=wait)


@with_connection
def rename(
    connection: Connection,
    table: TableName,
    new_name: Annotated[str, typer.Argument(help="The new name: `name` or `schema.name`.")],
    generation: GenerationOption,
    wait: Wait = True,
) -> None:
    """Rename a table. Its rows land again if it has complete row images and no history; otherwise reload it."""
    with connection.client() as client:
        begin = partial(client.post, f"{table_path(table)}/rename", {"name": new_name}, generation=generation)
        _run_operation(client, table, generation, begin, wait=wait)


@with_connection
def pause(connection: Connection, table: TableName, generation: GenerationOption) -> None:
    """Stop publishing a table. The gateway still accepts its changes."""
    _request(connection, "pause", table, generation)


@with_connection
def resume(connection: Connection, table: TableName, generation: GenerationOption) -> None:
    """Publish a paused table again."""
    _request(connection, "resume", table, generation)


@with_connection
def flush(connection: Connection, table: TableName, generation: GenerationOption) -> None:
    """Publish everything accepted so far, without waiting for a file to fill up or to reach its maximum age."""
    _request(connection, "flush", table, generation)


@with_connection
def repair(
    connection: Connection,
    table: TableName,
    number: Annotated[int, typer.Argument(min=1, help="The number of the file.")],
    generation: GenerationOption,
) -> None:
    """Rebuild a corrupt published file under its own number, with the same rows."""
    _request(connection, f"repair/{number}", table, generation)


@with_connection
def show_events(connection: Connection, table: TableName) -> None:
    """List who did what to the tables of this name, when and why."""
    from app.cli.output import caller
    from mirrorgate.cli.grid import Grid, moment

    grid = Grid(("when", "gen", "who", "what", "why", "details"), text=True)
    with connection.client() as client:
        events, _ = _events(client, table, 0)
    for event in events:
        known = {name: value for name, value in event["details"].items() if value not in (None, 0)}
        grid.add(
            moment(event["happened_at"]),
            str(event["generation"]),
            caller(event["actor"], event["actor_name"]),
            event["action"],
            event["reason"] or "",
            json.dumps(known) if known else "",
        )
    grid.print()


def _request(connection: Connection, operation: str, table: str, generation: int) -> None:
    with connection.client() as client:
        answer = client.post(f"{table_path(table)}/{operation}", {}, generation=generation)
    say(f"{answer['table']}: {operation.partition('/')[0]} accepted, state {answer['state']}")


def _run_operation(
    client: "GatewayClient", table: str, generation: int, begin: Callable[[], object], *, wait: bool
) -> None:
    """Start an operation that deletes the landing folder, then wait for the event that completes it."""
    seen = _events(client, table, 0)[1]
    begin()
    if not wait:
        say(f"{table}: accepted; the drain will delete the landing folder")
        return
    with OUTPUT.status(f"{table}: waiting for the drain to delete the landing folder") as line:
        while True:
            events, seen = _events(client, table, seen)
            for event in events:
                if event["generation"] == generation and event.get("completes") is not None:
                    _say_completed(table, event)
                    return
            if reason := _state_reason(client, table):
                line.update(f"{table}: {reason}")
            time.sleep(_POLL_SECONDS)  # HTTP offers no notification of an event


def _say_completed(table: str, event: dict[str, Any]) -> None:
    details = event["details"]
    say(
        f"{table}: {event['completes']} done; {details['discarded_batches']:,} unpublished batches with"
        f" {details['discarded_rows']:,} rows discarded, {details['landed_again']:,} rows land again"
    )


def _events(client: "GatewayClient", table: str, after: int) -> tuple[list[dict[str, Any]], int]:
    """Return the events after an id, of every table that had this name, and the id of the last event."""
    events = list(client.entries(f"{table_path(table)}/events", "events", start=after))
    return events, events[-1]["id"] if events else after


def _state_reason(client: "GatewayClient", table: str) -> str | None:
    """Return why the operation is still running; None if there is no reason or the table is gone."""
    from mirrorgate.http import RejectedByGateway

    try:
        reason: str | None = client.get(table_path(table))["state_reason"]
    except RejectedByGateway as error:
        if error.code is not Code.UNKNOWN_TABLE:
            raise
        return None
    return reason


@with_connection
def release(
    connection: Connection,
    reason: Annotated[str, typer.Option(help="What you found and did. Kept with the table's events.")],
    table: TableOrAll = None,
    generation: GenerationOrAll = None,
    every: Annotated[bool, typer.Option("--all", help="Release every table that was quarantined with --code.")] = False,
    code: Annotated[
        str | None, typer.Option(help="With --all: the error code, for example `landing_folder_lost`.")
    ] = None,
    rewrite_marker: Annotated[
        bool,
        typer.Option(
            "--rewrite-marker",
            help="Rewrite a damaged or lost `_gateway.json`, if the folder holds the files of the ledger.",
        ),
    ] = False,
) -> None:
    """Let a quarantined table publish again, or all tables quarantined with one code. Safe to repeat.

    For example:

        mirrorgate tables release sales.orders --generation 1 --reason "remounted the share"
    """
    if every and (table is not None or generation is not None or rewrite_marker or code is None):
        raise typer.BadParameter("--all accepts --code and --reason, and no table")
    if not every and (table is None or generation is None or code is not None):
        raise typer.BadParameter("name a table and its --generation, or give --all and --code")
    with connection.client() as client:
        if every:
            _release_all(client, _parse_code(code or ""), reason)
        else:
            wanted = {"reason": reason, "rewrite_marker": rewrite_marker}
            answer = client.post(f"{table_path(table or '')}/release", wanted, generation=generation)
            say(f"{answer['table']}: release accepted, state {answer['state']}")


def _release_all(client: "GatewayClient", code: Code, reason: str) -> None:
    from mirrorgate.http import RejectedByGateway

    released = 0
    for found in client.get("/v1/tables")["tables"]:
        why = found["state_reason"] or ""
        if found["state"] != "quarantined" or why.partition(":")[0] != code:
            continue
        try:
            client.post(f"{table_path(found['table'])}/release", {"reason": reason}, generation=found["generation"])
        except RejectedByGateway as error:
            if error.code not in _PASSED_OVER:
                raise
            continue
        say(f"{found['table']}: released in generation {found['generation']}; it was {why}")
        released += 1
    say(f"{released} tables released")


def _parse_code(code: str) -> Code:
    try:
        return Code(code)
    except ValueError:
        raise typer.BadParameter(
            with_addresses("--code is not an error code; docs/reference/errors.md lists them")
        ) from None


@with_connection
def list_loads(connection: Connection, table: TableName, as_json: AsJson = False) -> None:
    """List the newest load sessions of a table, the newest first. `mirrorgate send --load` makes them.

    For example:

        mirrorgate tables loads shop.prices
    """
    from mirrorgate.cli.grid import Grid, moment

    with connection.client() as client:
        loads = client.get(f"{table_path(table)}/loads")["loads"]
    if as_json:
        print_json(loads)
        return
    numbers = ("rows", "superseded", "deletes")
    grid = Grid(("load", "mode", "state", "started", "by", *numbers), right=numbers)
    for load in loads:
        facts = (load["load"], load["mode"], load["state"], moment(load["started_at"]), load["started_by"])
        grid.add(*facts, *(f"{load[name]:,}" for name in numbers))
    grid.print()


@with_connection
def abort_load(
    connection: Connection,
    table: TableName,
    load: Annotated[str | None, typer.Argument(help="The id of the load. Default: the open load of the table.")] = None,
) -> None:
    """End a load session without deletes, so that another one can begin. What it landed remains.

    For example:

        mirrorgate tables abort-load shop.prices
    """
    path = f"{table_path(table)}/loads"
    with connection.client() as client:
        if load is None:
            found = [one["load"] for one in client.get(path)["loads"] if one["state"] in ("open", "completing")]
            if not found:
                say(f"{table}: there is no open load")
                return
            load = found[0]
        ended = client.delete(f"{path}/{load}")
    say(f"{ended['table']}: load {ended['load']} is {ended['state']}; its {ended['rows']:,} rows remain")


@with_connection
def apply(
    connection: Connection,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The manifest: YAML as `tables export` prints it. `-` reads standard input."
        ),
    ],
    plan_only: Annotated[
        bool, typer.Option("--plan", "--dry-run", help="Show what would be done and change nothing.")
    ] = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="With --plan: exit 2 if there is something to do.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation. Required without a terminal.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Register and change tables until they match FILE. Repeating the command does nothing.

    ```yaml
    tables:
      - name: sales.orders
        key_columns: [id]
        columns:
          - {name: id, type: int64, nullable: false}
          - {name: amount, type: "decimal(12,2)"}
        options:                        # options left out have their defaults
          source_timezone: Europe/Berlin
    ```

    The plan is shown first: `+` is added, `~` is changed, `!` needs the table to be recreated, with the command for it.
    While the plan has a `!`, nothing is done. Tables that the file does not name are left alone, and no table is ever
    dropped.

    Tables are registered one by one. If one fails, the ones before it are done; run the same command again.

    Exit status: 0 the tables match, or --plan has shown the plan; 1 rejected or failed; 2 wrong usage, or changes with
    --plan --detailed-exitcode; 130 interrupted.

    For example:

        mirrorgate tables apply tables.yaml --plan
    """
    if detailed_exitcode and not plan_only:
        raise typer.BadParameter("--detailed-exitcode is for --plan")
    from app.cli.tables.manifest import apply_manifest

    with connection.client() as client:
        apply_manifest(client, file, plan_only=plan_only, detailed_exitcode=detailed_exitcode, yes=yes, as_json=as_json)


@with_connection
def export(
    connection: Connection,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Tables to export. Default: all.")
    ] = None,
    all_options: Annotated[
        bool, typer.Option("--all-options", help="Include options that have their default values.")
    ] = False,
) -> None:
    """Print tables as a manifest that `tables apply` accepts and finds unchanged.

    For example:

        mirrorgate tables export > tables.yaml
    """
    from app.cli.tables.manifest import export_manifest

    with connection.client() as client:
        typer.echo(export_manifest(client, names, all_options=all_options), nl=False)
