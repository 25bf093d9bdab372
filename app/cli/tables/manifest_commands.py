"""The commands `tables apply` and `tables export`: keep tables as a YAML manifest declares them."""

from pathlib import Path
from typing import Annotated

import typer

from mirrorgate.cli.options import AsJson, Connection, with_connection


@with_connection
def apply(
    connection: Connection,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The manifest: YAML as `tables export` prints it. `-` reads standard input."
        ),
    ],
    plan_only: Annotated[
        bool, typer.Option("--plan", "--dry-run", help="Show what would be done and change nothing.")
    ] = False,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="With --plan: exit 2 if there is something to do.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask for confirmation. Required without a terminal.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Register and change tables until they match FILE. Repeating the command does nothing.

    ```yaml
    tables:
      - name: sales.orders
        key_columns: [id]
        columns:
          - {name: id, type: int64, nullable: false}
          - {name: amount, type: "decimal(12,2)"}
        options:                        # options left out have their defaults
          source_timezone: Europe/Berlin
    ```

    The plan is shown first: `+` is added, `~` is changed, `!` needs the table to be recreated, with the command for it.
    While the plan has a `!`, nothing is done. Tables that the file does not name are left alone, and no table is ever
    dropped.

    Tables are registered one by one. If one fails, the ones before it are done; run the same command again.

    Exit status: 0 the tables match, or --plan has shown the plan; 1 rejected or failed; 2 wrong usage, or changes with
    --plan --detailed-exitcode; 130 interrupted.

    For example:

        mirrorgate tables apply tables.yaml --plan
    """
    if detailed_exitcode and not plan_only:
        raise typer.BadParameter("--detailed-exitcode is for --plan")
    from app.cli.tables.manifest import apply_manifest

    with connection.client() as client:
        apply_manifest(client, file, plan_only=plan_only, detailed_exitcode=detailed_exitcode, yes=yes, as_json=as_json)


@with_connection
def export(
    connection: Connection,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Tables to export. Default: all.")
    ] = None,
    all_options: Annotated[
        bool, typer.Option("--all-options", help="Include options that have their default values.")
    ] = False,
) -> None:
    """Print tables as a manifest that `tables apply` accepts and finds unchanged.

    For example:

        mirrorgate tables export > tables.yaml
    """
    from app.cli.tables.manifest import export_manifest

    with connection.client() as client:
        typer.echo(export_manifest(client, names, all_options=all_options), nl=False)
