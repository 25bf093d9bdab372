"""`mirrorgate tables loads` and `abort-load`: the load sessions of a table, and how to end one without deletes."""

import json
from typing import Annotated

import typer

from app.cli.console import say
from app.cli.options import AsJson, Connection, TableName, with_connection
from app.client.table_path import table_path


@with_connection
def list_loads(connection: Connection, table: TableName, as_json: AsJson = False) -> None:
    """List the newest load sessions of a table, the newest first. `mirrorgate send --load` makes them.

    Example: `mirrorgate tables loads shop.prices`
    """
    from app.cli.output import Grid, moment

    with connection.client() as client:
        loads = client.get(f"{table_path(table)}/loads")["loads"]
    if as_json:
        typer.echo(json.dumps(loads))
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
    """End a load session without deletes, so that another one can begin. What it landed stays.

    Example: `mirrorgate tables abort-load shop.prices`
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
    say(f"{ended['table']}: load {ended['load']} is {ended['state']}; its {ended['rows']:,} rows stay")
