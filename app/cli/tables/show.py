"""Commands that read what the gateway knows about tables, `mirrorgate status`, and `tables register`."""

import json
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirrorgate.cli.console import print_json, say
from mirrorgate.cli.options import AsJson, Connection, TableName, with_connection
from mirrorgate.errors import MirrorgateError
from mirrorgate.parameters import table_path

if TYPE_CHECKING:
    from app.domain.publication import ChainBlock


@with_connection
def status(
    connection: Connection,
    wide: Annotated[bool, typer.Option("--wide", help="Add columns for staged rows, files and dead letters.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show state, lag and row counts of every table: accepted, published, processed by Fabric.

    Problems of a table are printed below the list, with a remedy. The lag counts rows that are accepted and not yet
    published; `oldest` is the age of the oldest of them. `-` under processed means that Fabric has not reported on the
    table yet. A narrow terminal shows fewer columns; `--wide` and a pipe show all. If a Delta mirror
    runs, `mirror` is `ok`, or `-3` for a table that is three landing files behind. The last lines are about
    parts of the gateway that do not work, and about the mirrored database, if drains ask Fabric's API.

    For example:

        MIRRORGATE_API_KEY=mg_… mirrorgate status --url https://gateway.example.com
    """
    from app.cli.output import print_fabric, print_parts, print_status

    with connection.client() as client:
        found = client.get("/v1/tables")
        if as_json:
            print_json(found["tables"])
            return
        print_status(found["tables"], wide=wide)
        with suppress(MirrorgateError):  # a proxy may keep this address from its callers
            print_parts(client.parts())
    if fabric := found.get("fabric"):
        print_fabric(fabric)


@with_connection
def list_tables(connection: Connection) -> None:
    """Print the name of every table, one per line."""
    with connection.client() as client:
        for table in client.get("/v1/tables")["tables"]:
            typer.echo(table["table"])


@with_connection
def show_table(connection: Connection, table: TableName, as_json: AsJson = False) -> None:
    """Show what the gateway knows about a table: columns, state, counts, lag, and the options that are not the default.

    `--json` has every fact, and every option with its value.
    """
    from app.cli.output import print_table

    with connection.client() as client:
        found = client.get(table_path(table))
        if as_json:
            print_json(found)
            return
        print_table(found, client.get(f"{table_path(table)}/schema"))


@with_connection
def register_table(
    connection: Connection,
    table: TableName,
    columns: Annotated[
        list[str],
        typer.Option(
            "--column", help="`name:type` or `name:type:required`. Repeat it for each column, in the order of the file."
        ),
    ],
    key_columns: Annotated[
        list[str] | None, typer.Option("--key-column", help="A key column. Repeat it in the order of the key.")
    ] = None,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="An option of the table, its value as JSON or as text, for example `partial_updates=complete`. Repeat "
            "it for each option.",
        ),
    ] = None,
) -> None:
    """Register a table, or add nullable columns to it. Repeating the command changes nothing.

    Options that you leave out have their default in a new table, and remain as they are in an existing one.

    For example:

        mirrorgate tables register sales.orders --key-column id --column id:int64:required --option row_images=on
    """
    wanted: dict[str, Any] = {"columns": [_column(text) for text in columns], "key_columns": key_columns or []}
    if options:
        wanted["options"] = dict(map(_option, options))
    with connection.client() as client:
        registered = client.put(table_path(table), wanted)
    say(f"{registered['table']}: generation {registered['generation']}, schema {registered['schema_version']}")
    if stay := registered["undeclared_columns"]:
        say(f"columns that you left out remain in the table: {', '.join(stay)}")


def _option(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter("write an option as `name=value`", param_hint="--option")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _column(text: str) -> dict[str, Any]:
    name, separator, rest = text.partition(":")
    declared, _, required = rest.partition(":")
    if not separator or required not in {"", "required"}:
        raise typer.BadParameter("write a column as `name:type` or `name:type:required`")
    return {"name": name, "type": declared, "nullable": required != "required"}


@with_connection
def show_schema(connection: Connection, table: TableName) -> None:
    """Print the current columns and keys as JSON, in the form that `PUT /v1/tables/{table}` accepts."""
    with connection.client() as client:
        found = client.get(f"{table_path(table)}/schema")
    typer.echo(json.dumps({name: found[name] for name in ("key_columns", "columns")}, indent=2))


@with_connection
def show_files(connection: Connection, table: TableName) -> None:
    """List the files of a table with their batches and rows, from the landing ledger."""
    from mirrorgate.cli.grid import Grid, moment

    grid = Grid(("file", "batches", "rows", "bytes", "published"), right=("rows", "bytes"))
    with connection.client() as client:
        for file in client.entries(f"{table_path(table)}/files", "files"):
            batches = f"{file['first_sequence']}-{file['last_sequence']}" if file["rows"] else "seed"
            size = "" if file["bytes"] is None else f"{file['bytes']:,}"
            published = moment(file["published_at"]) or file["state"]
            grid.add(file["name"], batches, f"{file['rows']:,}", size, published)
    grid.print()


@with_connection
def show_chain(
    connection: Connection,
    table: TableName,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Check numbers, hashes and order instead of listing. Exit 1 if one is wrong."),
    ] = False,
) -> None:
    """Show the metadata chain: a hash-linked log of the content of each file, written before the file."""
    from app.domain.publication import verify_chain
    from mirrorgate.cli.grid import Grid

    with connection.client() as client:
        written = list(client.entries(f"{table_path(table)}/chain", "blocks", cursor="start"))
    blocks = [_block(one) for one in written]
    if verify:
        say(f"{verify_chain(blocks)} blocks verified")
        return
    grid = Grid(("number", "time", "event", "hash"), right=("number",))
    for block in blocks:
        number = f" {block.event['fileNumber']}" if "fileNumber" in block.event else ""
        grid.add(
            str(block.sequence_number),
            block.system_time.isoformat(timespec="seconds"),
            block.event["kind"] + number,
            block.hash[:16],
        )
    grid.print()
    for one in written:
        if one["columns"] is not None:
            _print_schema(one)


def _print_schema(block: dict[str, Any]) -> None:
    """Print what a block says of the schema: what it changed, and the columns that the files have then."""
    from mirrorgate.cli.console import OUTPUT
    from mirrorgate.cli.grid import Grid

    OUTPUT.print(
        f"\nblock {block['sequence_number']}: {'; '.join(block['changes']) or 'no change of columns'}", markup=False
    )
    grid = Grid(("column", "type", "null"))
    for column in block["columns"]:
        grid.add(column["name"], column["type"], "yes" if column["nullable"] else "no")
    grid.print()


def _block(written: dict[str, Any]) -> "ChainBlock":
    from app.domain.publication import ChainBlock

    time = datetime.fromisoformat(written["system_time"])
    return ChainBlock(written["sequence_number"], written["previous_hash"], time, written["event"])
