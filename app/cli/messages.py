"""The commands `mirrorgate dead-letters …`, about rejected messages, and `mirrorgate layouts …`.

A layout says where Replicate messages of a custom format have their parts.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.domain.model.dead_letter import LetterState
from mirrorgate.cli.console import OUTPUT, print_json, say
from mirrorgate.cli.options import AsJson, Connection, TableName, with_connection
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import named_path, table_path

if TYPE_CHECKING:
    from mirrorgate.http import GatewayClient

_REPLAY_PAGE: Final = 100

LetterId = Annotated[int, typer.Argument(min=1, help="The id of the dead letter, as `dead-letters list` shows it.")]


@with_connection
def list_letters(
    connection: Connection,
    table: Annotated[
        str | None, typer.Argument(help="The table: `name` or `schema.name`. Default: all tables.")
    ] = None,
    state: Annotated[LetterState | None, typer.Option(help="List only dead letters in this state.")] = None,
    as_json: AsJson = False,
) -> None:
    """List rejected messages of one table or of all, with time and reason. Values are never shown."""
    with connection.client() as client:
        names = [table] if table is not None else [one["table"] for one in client.get("/v1/tables")["tables"]]
        found = [{"table": name, **letter} for name in names for letter in _letters(client, name, state)]
    if as_json:
        print_json(found)
        return
    if not found:
        say("no dead letters")
        return
    from mirrorgate.cli.grid import Grid, moment

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


@with_connection
def show_letter(connection: Connection, table: TableName, letter_id: LetterId) -> None:
    """Write the message to standard output, byte for byte as it was received."""
    with connection.client() as client:
        sys.stdout.buffer.write(client.download(f"{table_path(table)}/dead-letters/{letter_id}"))


@with_connection
def replay(
    connection: Connection,
    table: TableName,
    letter_id: Annotated[
        int | None, typer.Argument(min=1, help="The id of one dead letter. Default: all waiting ones, in order.")
    ] = None,
    corrected: Annotated[
        Path | None,
        typer.Option(
            "--file", exists=True, dir_okay=False, help="Accept this corrected message instead of the kept one."
        ),
    ] = None,
) -> None:
    """Accept kept messages again. They land after everything accepted since. Exit 1 if one is rejected again.

    For example:

        mirrorgate dead-letters replay sales.orders 17 --file corrected.json
    """
    if corrected is not None and letter_id is None:
        raise typer.BadParameter("--file replaces one message: give the id of its dead letter")
    content = b"" if corrected is None else corrected.read_bytes()
    if corrected is not None and not content:  # to the API, an empty body means the kept message
        raise RejectedInput(Code.EMPTY_REQUEST, f"{corrected} is empty")
    with connection.client() as client:
        if letter_id is not None:
            answer = client.post_bytes(f"{table_path(table)}/dead-letters/{letter_id}/replay", content)
            receipt = answer["receipt"]
            say(f"{receipt['table']}: dead letter {letter_id} is batch {receipt['sequence']}")
            return
        replayed, rejected = _replay_all(client, table)
    hint = f"; `mirrorgate dead-letters list {quote(table)}` says why" if rejected else ""
    say(f"{table}: {replayed:,} replayed, {rejected:,} rejected again{hint}")
    if rejected:
        raise typer.Exit(1)


@with_connection
def discard(
    connection: Connection,
    table: TableName,
    letter_id: Annotated[int | None, typer.Argument(min=1, help="The id of one dead letter.")] = None,
    through: Annotated[
        int | None, typer.Option(min=1, help="Discard all waiting ones up to this id. Needs --generation.")
    ] = None,
    generation: Annotated[
        int | None, typer.Option(min=1, help="The generation of the dead letters, as `dead-letters list` shows it.")
    ] = None,
) -> None:
    """Discard kept messages. They remain readable until retention deletes them.

    For example:

        mirrorgate dead-letters discard sales.orders --through 20 --generation 1
    """
    if (letter_id is None) == (through is None) or (through is None) != (generation is None):
        raise typer.BadParameter("give the id of a dead letter, or --through with --generation")
    with connection.client() as client:
        if letter_id is not None:
            answer = client.delete(f"{table_path(table)}/dead-letters/{letter_id}")
        else:
            path = f"{table_path(table)}/dead-letters"
            answer = client.delete(path, through=through, generation=generation)
    say(f"{table}: {answer['discarded']:,} discarded")


def _letters(client: "GatewayClient", table: str, state: LetterState | None) -> Iterator[dict[str, Any]]:
    wanted = {} if state is None else {"state": state.value}
    return client.entries(f"{table_path(table)}/dead-letters", "letters", wanted)


def _replay_all(client: "GatewayClient", table: str) -> tuple[int, int]:
    """Replay every waiting dead letter, in order. Return how many were accepted and how many rejected again."""
    replayed = rejected = 0
    after: int | None = 0
    with OUTPUT.status(f"{table}: replaying") as line:
        while after is not None:
            path = f"{table_path(table)}/dead-letters/replay"
            done = client.post(path, None, after=after, limit=_REPLAY_PAGE)
            replayed, rejected, after = replayed + done["replayed"], rejected + done["rejected"], done["next_after"]
            line.update(f"{table}: {replayed:,} replayed, {rejected:,} rejected again")
    return replayed, rejected


LayoutName = Annotated[str, typer.Argument(help="The name of the layout.")]


@with_connection
def put_layout(
    connection: Connection,
    name: LayoutName,
    file: Annotated[Path, typer.Argument(help="A JSON file with the layout; `-` reads standard input.")],
) -> None:
    """Store a layout, or replace the one of this name.

    For example:

        echo '{"data": "row", "headers": "meta_*"}' | mirrorgate layouts put flat -
    """
    wanted = read_json(file, Code.BAD_LAYOUT)
    with connection.client() as client:
        stored = client.put(named_path("layouts", name), wanted)
    say(f"{stored['name']}: {len(stored['layout'])} parts, changed by {stored['changed_by']}")


@with_connection
def list_layouts(connection: Connection, as_json: AsJson = False) -> None:
    """List all layouts with their parts."""
    from mirrorgate.cli.grid import Grid, moment

    with connection.client() as client:
        found = client.get("/v1/layouts")["layouts"]
    if as_json:
        print_json(found)
        return
    grid = Grid(("name", "parts", "changed", "by"))
    for entry in found:
        parts = ", ".join(name for name in entry["layout"])
        grid.add(entry["name"], parts, moment(entry["changed_at"]), entry.get("changed_by", ""))
    grid.print()


@with_connection
def show_layout(connection: Connection, name: LayoutName) -> None:
    """Print a layout as JSON, in the form that `layouts put` accepts."""
    with connection.client() as client:
        typer.echo(json.dumps(client.get(named_path("layouts", name))["layout"], indent=2))


@with_connection
def delete_layout(connection: Connection, name: LayoutName) -> None:
    """Delete a layout. Requests that name it are rejected from then on."""
    with connection.client() as client:
        client.delete(named_path("layouts", name))
    say(f"{name}: deleted")


def read_json(file: Path, code: Code) -> Any:
    """Return the JSON of a file, or of standard input for `-`. Raises RejectedInput with the code."""
    try:
        return json.loads(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise RejectedInput(code, f"{file} is not JSON: {error}", remedy="Write a JSON object, in UTF-8.") from None
