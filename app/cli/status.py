"""`mirrorgate status`: compare accepted, published and processed rows of every table."""

import json
from typing import Annotated

import typer

from app.cli.options import AsJson, Connection, with_connection


@with_connection
def status(
    connection: Connection,
    wide: Annotated[bool, typer.Option("--wide", help="Add columns for staged rows, files and dead letters.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show state, lag and row counts of every table: accepted, published, processed by Fabric.

    Problems of a table are printed below the list, with a remedy. The lag counts rows that are accepted and not yet
    published; `oldest` is the age of the oldest of them. `-` under processed means that Fabric has not reported on the
    table yet. A narrow terminal leaves out what says least of these; `--wide` and a pipe have all. If a Delta mirror
    runs, `mirror` is `ok`, or `-3` for a table that is three landing files behind. The last lines are about the
    mirrored database, if drains ask Fabric's API.

    Example: `MIRRORGATE_API_KEY=mg_… mirrorgate status --url https://gateway.example.com`
    """
    from app.cli.output import print_fabric, print_status

    with connection.client() as client:
        found = client.get("/v1/tables")
    if as_json:
        typer.echo(json.dumps(found["tables"]))
        return
    print_status(found["tables"], wide=wide)
    if fabric := found.get("fabric"):
        print_fabric(fabric)
