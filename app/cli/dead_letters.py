"""Commands for dead letters: see why messages were rejected, read them, replay or discard them."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from rich.console import Console

from app.cli.common import AsJson, DataDir, Key, TableName, Url
from app.cli.output import Grid, moment
from app.client.http import GatewayClient
from app.domain.model.dead_letter import LetterState

_HOME: Final = Path(".mirrorgate")
_PAGE: Final = 1000
_REPLAYED_AT_ONCE: Final = 100
_console = Console()

dead_letters = typer.Typer(
    help="Look at the rejected messages that tables keep, and replay or discard them.", no_args_is_help=True
)

LetterId = Annotated[int, typer.Argument(min=1, help="The id, as `dead-letters list` shows it.")]


@dead_letters.command("list")
def list_letters(
    table: Annotated[str | None, typer.Argument(help="`name` or `schema.name`; unset: all tables.")] = None,
    state: Annotated[LetterState | None, typer.Option(help="Only letters in this state.")] = None,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
    as_json: AsJson = False,
) -> None:
    """List what was rejected, when and why, of one table or of all; never with a value."""
    with GatewayClient.find(url, key, data_dir) as client:
        names = [table] if table is not None else [one["table"] for one in client.get("/v1/tables")["tables"]]
        found = [{"table": name, **letter} for name in names for letter in _letters(client, name, state)]
    if as_json:
        typer.echo(json.dumps(found))
        return
    if not found:
        _console.print("no dead letters")
        return
    several = ("table",) if table is None else ()
    titles = (*several, "id", "gen", "received", "index", "format", "state", "code", "where", "what")
    grid = Grid(titles, right=("id", "index"), text=True)
    for letter in found:
        first = letter["errors"][0]
        more = f" (and {len(letter['errors']) - 1} more)" if len(letter["errors"]) > 1 else ""
        grid.add(
            *(letter[name] for name in several),
            str(letter["id"]),
            str(letter["generation"]),
            moment(letter["received_at"]),
            str(letter["index"]),
            letter["format"],
            letter["state"],
            first["code"],
            first["pointer"] or "",
            first["detail"] + more,
        )
    grid.print()


@dead_letters.command("show")
def show(table: TableName, letter_id: LetterId, url: Url = None, key: Key = None, data_dir: DataDir = _HOME) -> None:
    """Write the message to standard output, byte for byte as it came."""
    with GatewayClient.find(url, key, data_dir) as client:
        sys.stdout.buffer.write(client.download(f"/v1/tables/{table}/dead-letters/{letter_id}"))


@dead_letters.command("replay")
def replay(
    table: TableName,
    letter_id: Annotated[int | None, typer.Argument(min=1, help="One letter; unset: all that wait, in order.")] = None,
    corrected: Annotated[
        Path | None,
        typer.Option("--file", exists=True, dir_okay=False, help="A corrected message to accept in its place."),
    ] = None,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """Accept kept messages after all. They land now, behind all that was accepted since. Exit 1 if one is rejected."""
    if corrected is not None and letter_id is None:
        raise typer.BadParameter("a corrected message is for one letter: give its id")
    with GatewayClient.find(url, key, data_dir) as client:
        if letter_id is not None:
            content = corrected.read_bytes() if corrected is not None else b""
            answer = client.post_bytes(f"/v1/tables/{table}/dead-letters/{letter_id}/replay", content)
            receipt = answer["receipt"]
            _console.print(f"{receipt['table']}: dead letter {letter_id} is batch {receipt['sequence']}")
            return
        replayed, rejected = _replay_all(client, table)
    _console.print(f"{table}: {replayed:,} replayed, {rejected:,} rejected again")
    if rejected:
        raise typer.Exit(1)


@dead_letters.command("discard")
def discard(
    table: TableName,
    letter_id: Annotated[int | None, typer.Argument(min=1, help="One letter.")] = None,
    through: Annotated[
        int | None, typer.Option(min=1, help="All that wait up to this letter; needs --generation.")
    ] = None,
    generation: Annotated[int | None, typer.Option(min=1, help="The generation that is meant.")] = None,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """Give kept messages up. They stay readable until retention purges them."""
    if (letter_id is None) == (through is None) or (through is None) != (generation is None):
        raise typer.BadParameter("give the id of a letter, or --through with --generation")
    with GatewayClient.find(url, key, data_dir) as client:
        if letter_id is not None:
            answer = client.delete(f"/v1/tables/{table}/dead-letters/{letter_id}")
        else:
            path = f"/v1/tables/{table}/dead-letters"
            answer = client.delete(path, through=through, generation=generation)
    _console.print(f"{table}: {answer['discarded']:,} discarded")


def _letters(client: GatewayClient, table: str, state: LetterState | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    wanted = {} if state is None else {"state": state.value}
    after: int | None = 0
    while after is not None:
        page = client.get(f"/v1/tables/{quote(table, safe='')}/dead-letters", after=after, limit=_PAGE, **wanted)
        found += page["letters"]
        after = page["next_after"]
    return found


def _replay_all(client: GatewayClient, table: str) -> tuple[int, int]:
    """How many were replayed and how many rejected again."""
    replayed = rejected = 0
    after: int | None = 0
    with _console.status(f"{table}: replaying") as line:
        while after is not None:
            path = f"/v1/tables/{table}/dead-letters/replay"
            done = client.post(path, None, after=after, limit=_REPLAYED_AT_ONCE)
            replayed, rejected, after = replayed + done["replayed"], rejected + done["rejected"], done["next_after"]
            line.update(f"{table}: {replayed:,} replayed, {rejected:,} rejected again")
    return replayed, rejected
