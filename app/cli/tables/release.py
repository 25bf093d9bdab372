"""`mirrorgate tables release`: end the quarantine of one table, or of all tables quarantined for one reason."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.console import say
from app.cli.options import Connection, with_connection
from app.client.table_path import table_path
from app.errors import Code

if TYPE_CHECKING:
    from app.client.http import GatewayClient


@with_connection
def release(
    connection: Connection,
    reason: Annotated[str, typer.Option(help="What you found and did. Kept with the table's events.")],
    table: Annotated[
        str | None, typer.Argument(help="The table: `name` or `schema.name`. Leave it out with --all.")
    ] = None,
    generation: Annotated[
        int | None, typer.Option(min=1, help="The table's current generation, as `mirrorgate status` shows it.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Release every table that was quarantined with --code.")] = False,
    code: Annotated[
        str | None, typer.Option(help="With --all: the error code, for example `landing_folder_lost`.")
    ] = None,
    rewrite_marker: Annotated[
        bool,
        typer.Option(
            "--rewrite-marker",
            help="Write a damaged or lost `_gateway.json` again, if the folder holds the files of the ledger.",
        ),
    ] = False,
) -> None:
    """Let a quarantined table publish again, or all tables quarantined with one code. Safe to repeat.

    Example: `mirrorgate tables release sales.orders --generation 1 --reason "remounted the share"`
    """
    if every and (table is not None or generation is not None or rewrite_marker or code is None):
        raise typer.BadParameter("--all takes --code and --reason, and no table")
    if not every and (table is None or generation is None or code is not None):
        raise typer.BadParameter("name a table and its --generation, or give --all and --code")
    with connection.client() as client:
        if every:
            _release_all(client, {"code": _parse_code(code or ""), "reason": reason})
        else:
            wanted = {"reason": reason, "rewrite_marker": rewrite_marker}
            answer = client.post(f"{table_path(table or '')}/release", wanted, generation=generation)
            say(f"{answer['table']}: release accepted, state {answer['state']}")


def _release_all(client: "GatewayClient", wanted: dict[str, Any]) -> None:
    released = client.post("/v1/releases", wanted)["released"]
    for entry in released:
        say(f"{entry['table']}: released in generation {entry['generation']}; it was {entry['state_reason']}")
    say(f"{len(released)} tables released")


def _parse_code(code: str) -> Code:
    try:
        return Code(code)
    except ValueError:
        raise typer.BadParameter("--code is not an error code; docs/errors.md lists them") from None
