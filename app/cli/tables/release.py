"""`mirrorgate tables release`: end the quarantine of one table, or of all that stopped for one reason."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from app.cli.common import DataDir, Key, Url, tables
from app.client.http import GatewayClient
from app.errors import Code

_HOME: Final = Path(".mirrorgate")
_console = Console()


@tables.command("release")
def release(
    reason: Annotated[str, typer.Option(help="What was found and done; kept with the table's events.")],
    table: Annotated[str | None, typer.Argument(help="`name` or `schema.name`; none with --all.")] = None,
    generation: Annotated[
        int | None, typer.Option(min=1, help="The generation that is meant, as `status` shows it.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every table that stopped with --code.")] = False,
    code: Annotated[str | None, typer.Option(help="With --all: a code such as `landing_folder_lost`.")] = None,
    rewrite_marker: Annotated[
        bool,
        typer.Option(
            "--rewrite-marker",
            help="Write a damaged or lost `_gateway.json` again, if the ledger's files are in the folder.",
        ),
    ] = False,
    url: Url = None,
    key: Key = None,
    data_dir: DataDir = _HOME,
) -> None:
    """Let a quarantined table publish again, or all that stopped for one reason. Safe to repeat."""
    if every and (table is not None or generation is not None or rewrite_marker or code is None):
        raise typer.BadParameter("--all takes --code and --reason, and no table")
    if not every and (table is None or generation is None or code is not None):
        raise typer.BadParameter("name a table and its --generation, or give --all and --code")
    with GatewayClient.find(url, key, data_dir) as client:
        if every:
            _release_all(client, {"code": _known(code or ""), "reason": reason})
        else:
            wanted = {"reason": reason, "rewrite_marker": rewrite_marker}
            answer = client.post(f"/v1/tables/{table}/release", wanted, generation=generation)
            _console.print(f"{answer['table']}: release accepted, state {answer['state']}")


def _release_all(client: GatewayClient, wanted: dict[str, Any]) -> None:
    released = client.post("/v1/releases", wanted)["released"]
    for entry in released:
        _console.print(
            f"{entry['table']}: released in generation {entry['generation']}; it was {entry['state_reason']}",
            markup=False,
            soft_wrap=True,
        )
    _console.print(f"{len(released)} tables released")


def _known(code: str) -> Code:
    try:
        return Code(code)
    except ValueError:
        raise typer.BadParameter("--code is no error code; docs/errors.md lists them") from None
