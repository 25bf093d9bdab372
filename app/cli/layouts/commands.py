"""The commands `mirrorgate layouts …`: where Replicate messages of a custom format have their parts."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.console import say
from app.cli.options import AsJson, Connection, with_connection
from app.errors import Code, RejectedInput

LayoutName = Annotated[str, typer.Argument(help="The name of the layout.")]


@with_connection
def put_layout(
    connection: Connection,
    name: LayoutName,
    file: Annotated[Path, typer.Argument(help="A JSON file with the layout; `-` reads standard input.")],
) -> None:
    """Store a layout, or replace the one of this name.

    Example: `echo '{"data": "row", "headers": "meta_*"}' | mirrorgate layouts put flat -`
    """
    wanted = _read(file)
    with connection.client() as client:
        stored = client.put(f"/v1/layouts/{name}", wanted)
    say(f"{stored['name']}: {len(stored['layout'])} parts, changed by {stored['changed_by']}")


@with_connection
def list_layouts(connection: Connection, as_json: AsJson = False) -> None:
    """List all layouts with their parts."""
    from app.cli.output import Grid, moment

    with connection.client() as client:
        found = client.get("/v1/layouts")["layouts"]
    if as_json:
        typer.echo(json.dumps(found))
        return
    grid = Grid(("name", "parts", "changed", "by"))
    for entry in found:
        parts = ", ".join(name for name in entry["layout"])
        grid.add(entry["name"], parts, moment(entry["changed_at"]), entry.get("changed_by", ""))
    grid.print()


@with_connection
def show_layout(connection: Connection, name: LayoutName) -> None:
    """Print a layout as JSON, in the form that `layouts put` takes."""
    with connection.client() as client:
        typer.echo(json.dumps(client.get(f"/v1/layouts/{name}")["layout"], indent=2))


@with_connection
def delete_layout(connection: Connection, name: LayoutName) -> None:
    """Delete a layout. Requests that name it are rejected from then on."""
    with connection.client() as client:
        client.delete(f"/v1/layouts/{name}")
    say(f"{name}: deleted")


def _read(file: Path) -> Any:
    """Return the JSON of a file. Raises RejectedInput `bad_layout`."""
    try:
        return json.loads(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RejectedInput(Code.BAD_LAYOUT, f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise RejectedInput(Code.BAD_LAYOUT, f"{file} is not JSON: {error}") from None
