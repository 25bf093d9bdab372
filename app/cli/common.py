"""Commands that talk to a running gateway: its tables and their status."""

import json
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Console

from app.cli.output import Grid, moment, print_facts, print_status
from app.client.http import GatewayClient

Url = Annotated[
    str | None,
    typer.Option(envvar="MIRRORGATE_URL", help="The gateway; unset: the one that runs on the data directory."),
]
Key = Annotated[
    str | None,
    typer.Option(
        envvar="MIRRORGATE_API_KEY", help="API key; unset: the data directory's admin key.", show_default=False
    ),
]
DataDir = Annotated[Path, typer.Option(help="Data directory of a local `mirrorgate up`.")]
TableName = Annotated[str, typer.Argument(help="`name` or `schema.name`")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

_HOME = Path(".mirrorgate")
_console = Console()

tables = typer.Typer(
    help="Register tables, look at them, and drop, recreate, pause or repair them.", no_args_is_help=True
)


def status(
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
    wide: Annotated[bool, typer.Option("--wide", help="Also staged rows, files and dead letters.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every table: state, lag, and whether accepted = published = processed (by Fabric), in rows.

    What is wrong with a table is printed below. Lag is what is accepted and not published yet, and the age of the
    oldest of it. `-` for processed: Fabric has not said anything about the table.
    """
    with GatewayClient.find(url, key, data_dir) as client:
        found = client.get("/v1/tables")["tables"]
    if as_json:
        typer.echo(json.dumps(found))
    else:
        print_status(found, wide=wide)


@tables.command("show")
def show_table(
    table: TableName, url: Url = None, key: Key = None, data_dir: DataDir = _HOME, as_json: AsJson = False
) -> None:
    """Show everything that the gateway knows about a table: counts, lag, state, options."""
    with GatewayClient.find(url, key, data_dir) as client:
        found = client.get(f"/v1/tables/{quote(table, safe='')}")
    if as_json:
        typer.echo(json.dumps(found))
    else:
        print_facts(found)


@tables.command("list")
def list_tables(url: Url = None, key: Key = None, data_dir: DataDir = _HOME) -> None:
    """Names of all tables, one a line."""
    with GatewayClient.find(url, key, data_dir) as client:
        for table in client.get("/v1/tables")["tables"]:
            typer.echo(table["table"])


@tables.command("register")
def register_table(
    table: TableName,
    columns: Annotated[
        list[str],
        typer.Option("--column", help="`name:type`, or `name:type:required`; once per column, in file order."),
    ],
    key_columns: Annotated[list[str] | None, typer.Option("--key-column", help="A key column, in key order.")] = None,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """Register a table, or add nullable columns to it. The same again changes nothing."""
    wanted = {"columns": [_column(text) for text in columns], "key_columns": key_columns or []}
    with GatewayClient.find(url, key, data_dir) as client:
        registered = client.put(f"/v1/tables/{table}", wanted)
    _console.print(
        f"{registered['table']}: generation {registered['generation']}, schema {registered['schema_version']}"
    )


def _column(text: str) -> dict[str, Any]:
    name, separator, rest = text.partition(":")
    declared, _, required = rest.partition(":")
    if not separator or required not in {"", "required"}:
        raise typer.BadParameter("a column is `name:type` or `name:type:required`")
    return {"name": name, "type": declared, "nullable": required != "required"}


@tables.command("schema")
def show_schema(table: TableName, url: Url = None, key: Key = None, data_dir: DataDir = _HOME) -> None:
    """The current columns and keys, as JSON that PUT /v1/tables/{table} takes."""
    with GatewayClient.find(url, key, data_dir) as client:
        found = client.get(f"/v1/tables/{table}/schema")
    typer.echo(json.dumps({name: found[name] for name in ("key_columns", "columns")}, indent=2))


@tables.command("files")
def show_files(table: TableName, url: Url = None, key: Key = None, data_dir: DataDir = _HOME) -> None:
    """The landing ledger: every file, its batches and rows."""
    grid = Grid(("file", "batches", "rows", "bytes", "published"), right=("rows", "bytes"))
    with GatewayClient.find(url, key, data_dir) as client:
        after: int | None = 0
        while after is not None:
            page = client.get(f"/v1/tables/{table}/files", after=after, limit=1000)
            for file in page["files"]:
                batches = f"{file['first_sequence']}-{file['last_sequence']}" if file["rows"] else "seed"
                size = "" if file["bytes"] is None else f"{file['bytes']:,}"
                published = moment(file["published_at"]) or file["state"]
                grid.add(file["name"], batches, f"{file['rows']:,}", size, published)
            after = page["next_after"]
    grid.print()


@tables.command("chain")
def show_chain(
    table: TableName,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check numbers, hashes and order; exit 1 if broken.")
    ] = False,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """The metadata chain: what the files hold, told before they are written, each block bound to the last by hash."""
    from app.domain.publication.metadata_chain import Block, verify_chain

    blocks: list[Block] = []
    with GatewayClient.find(url, key, data_dir) as client:
        start: int | None = 0
        while start is not None:
            page = client.get(f"/v1/tables/{table}/chain", start=start, limit=1000)
            for block in page["blocks"]:
                moment = datetime.fromisoformat(block["system_time"])
                blocks.append(Block(block["sequence_number"], block["previous_hash"], moment, block["event"]))
            start = page["next_start"]
    if verify:
        _console.print(f"{verify_chain(blocks)} blocks hold together")
        return
    grid = Grid(("number", "time", "event", "hash"), right=("number",))
    for entry in blocks:
        number = f" {entry.event['fileNumber']}" if "fileNumber" in entry.event else ""
        grid.add(
            str(entry.sequence_number),
            entry.system_time.isoformat(timespec="seconds"),
            entry.event["kind"] + number,
            entry.hash[:16],
        )
    grid.print()
