"""Commands that change what becomes of a table: drop, recreate, rename, pause, resume, flush, repair."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from app.cli.common import DataDir, Key, TableName, Url, tables
from app.cli.output import Grid, moment
from app.client.http import GatewayClient, RejectedByGateway
from app.errors import Code

_HOME: Final = Path(".mirrorgate")
_POLL_SECONDS: Final = 0.2
"""Between two looks at a table that the drain is working on."""
_console = Console()

Meant = Annotated[int, typer.Option("--generation", min=1, help="The generation that is meant, as `status` shows it.")]
Wait = Annotated[bool, typer.Option(help="Wait until the drain has done it; Ctrl-C only stops the waiting.")]


@tables.command("drop")
def drop(
    table: TableName, generation: Meant, wait: Wait = True, url: Url = None, key: Key = None, data_dir: DataDir = _HOME
) -> None:
    """Delete a table and its landing folder. Batches that are not published yet are discarded and counted."""
    with GatewayClient.find(url, key, data_dir) as client:
        begin = partial(client.delete, f"/v1/tables/{table}", generation=generation)
        _drop(client, table, generation, begin, wait=wait)


@tables.command("recreate")
def recreate(
    table: TableName,
    generation: Meant,
    schema: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="JSON as `tables schema` prints it; unset: the columns stay."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="YAML as `tables apply` takes it: as it declares this table."),
    ] = None,
    wait: Wait = True,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """Delete a table's landing folder and begin a new generation, empty, with files from 1."""
    if schema is not None and file is not None:
        raise typer.BadParameter("give either --schema or --file")
    wanted = json.loads(schema.read_text()) if schema is not None else {}
    if file is not None:
        from app.cli.tables.apply import declared_in

        wanted = declared_in(file, table)
    with GatewayClient.find(url, key, data_dir) as client:
        begin = partial(client.post, f"/v1/tables/{table}/recreate", wanted, generation=generation)
        _drop(client, table, generation, begin, wait=wait)


@tables.command("rename")
def rename(
    table: TableName,
    new_name: Annotated[str, typer.Argument(help="`name` or `schema.name`")],
    generation: Meant,
    wait: Wait = True,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """Give a table another name. Its rows land again from row images where it keeps them, else the source reloads."""
    with GatewayClient.find(url, key, data_dir) as client:
        begin = partial(client.post, f"/v1/tables/{table}/rename", {"name": new_name}, generation=generation)
        _drop(client, table, generation, begin, wait=wait)


@tables.command("pause")
def pause(table: TableName, generation: Meant, url: Url = None, key: Key = None, data_dir: DataDir = _HOME) -> None:
    """Stop publishing a table; changes are still accepted."""
    _act("pause", table, generation, url, key, data_dir)


@tables.command("resume")
def resume(table: TableName, generation: Meant, url: Url = None, key: Key = None, data_dir: DataDir = _HOME) -> None:
    """Publish a paused table again."""
    _act("resume", table, generation, url, key, data_dir)


@tables.command("flush")
def flush(table: TableName, generation: Meant, url: Url = None, key: Key = None, data_dir: DataDir = _HOME) -> None:
    """Publish what is accepted so far without waiting for a full or old enough file."""
    _act("flush", table, generation, url, key, data_dir)


@tables.command("repair")
def repair(
    table: TableName,
    number: Annotated[int, typer.Argument(min=1, help="The file's number.")],
    generation: Meant,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """Write a published file that was found corrupt again, under its own number and with the same rows."""
    _act(f"repair/{number}", table, generation, url, key, data_dir)


@tables.command("events")
def show_events(table: TableName, url: Url = None, key: Key = None, data_dir: DataDir = _HOME) -> None:
    """Who did what to every table of this name, when and why."""
    grid = Grid(("when", "gen", "who", "what", "why", "details"), text=True)
    with GatewayClient.find(url, key, data_dir) as client:
        events, _ = _events(client, table, 0)
    for event in events:
        known = {name: value for name, value in event["details"].items() if value not in (None, 0)}
        grid.add(
            moment(event["happened_at"]),
            str(event["generation"]),
            event["actor"],
            event["action"],
            event["reason"] or "",
            json.dumps(known) if known else "",
        )
    grid.print()


def _act(
    act: str,
    table: str,
    generation: int,
    url: str | None,
    key: str | None,
    data_dir: Path,
    content: dict[str, Any] | None = None,
) -> None:
    with GatewayClient.find(url, key, data_dir) as client:
        answer = client.post(f"/v1/tables/{table}/{act}", content or {}, generation=generation)
    _console.print(f"{answer['table']}: {act.partition('/')[0]} accepted, state {answer['state']}")


def _drop(client: GatewayClient, table: str, generation: int, begin: Callable[[], object], *, wait: bool) -> None:
    """Begin a drop, then wait for its last event, showing why it goes on while it does."""
    seen = _events(client, table, 0)[1]
    begin()
    if not wait:
        _console.print(f"{table}: accepted; the drain deletes the landing folder")
        return
    with _console.status(f"{table}: waiting for the drain to delete the landing folder") as line:
        while True:
            events, seen = _events(client, table, seen)
            for event in events:
                if event["generation"] == generation and event["action"].endswith(" done"):
                    details = event["details"]
                    _console.print(
                        f"{table}: {event['action']}; {details['discarded_batches']:,} unpublished batches with"
                        f" {details['discarded_rows']:,} rows discarded, {details['landed_again']:,} rows land again"
                    )
                    return
            if reason := _state_reason(client, table):
                line.update(f"{table}: {reason}")
            time.sleep(_POLL_SECONDS)


def _events(client: GatewayClient, table: str, after: int) -> tuple[list[dict[str, Any]], int]:
    """The events of every table of this name beyond one, and the last of them."""
    events: list[dict[str, Any]] = []
    following: int | None = after
    while following is not None:
        page = client.get(f"/v1/tables/{table}/events", after=following, limit=1000)
        events += page["events"]
        following = page["next_after"]
    return events, events[-1]["id"] if events else after


def _state_reason(client: GatewayClient, table: str) -> str | None:
    """Why a drop goes on; None when there is nothing to tell, or no such table any more."""
    try:
        reason: str | None = client.get(f"/v1/tables/{table}")["state_reason"]
    except RejectedByGateway as error:
        if error.code is not Code.UNKNOWN_TABLE:
            raise
        return None
    return reason
