"""`mirrorgate fabric create`: create the mirrored database whose landing zone the gateway writes."""

import json
from typing import Annotated

import typer

from app.cli.console import say
from app.cli.fabric.options import Timeout, WorkspaceOption, fabric_settings, following, opened
from app.cli.options import AsJson


def create(
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Name of the new mirrored database.")],
    workspace: WorkspaceOption = None,
    retention_days: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=30,
            help="Days that Fabric keeps old versions of the tables. Default: Fabric's, which is 7.",
            show_default=False,
        ),
    ] = None,
    default_schema: Annotated[
        str, typer.Option(help="Schema of tables that are registered without one, in Fabric.")
    ] = "dbo",
    description: Annotated[str, typer.Option(max=256, help="Description of the database in the portal.")] = "",
    timeout: Timeout = 600,
    as_json: AsJson = False,
) -> None:
    """Create a mirrored database for open mirroring, and print the address of its landing zone. Safe to repeat.

    A database that exists under the name is left as it is. Needs the role Contributor in the workspace and the extra
    `onelake`; the credential is that of the AZURE_* variables, a managed identity, or `az login`.

    Example: `mirrorgate fabric create --workspace "Sales" --name orders --retention-days 7`
    """
    from app.errors import Code, Misconfigured
    from app.fabric.definition import Definition

    if not name.strip():
        raise typer.BadParameter("the name is empty", param_hint="--name")
    settings = fabric_settings("create", workspace, name)
    wanted = Definition(default_schema=default_schema or None, retention_days=retention_days)
    with opened(settings, wait_seconds=timeout) as client, following("creating", quiet=as_json) as progress:
        made, is_new = client.create(name, wanted, description=description, progress=progress)
        found = wanted if is_new else client.definition(progress)
    if found is None or not found.is_open_mirroring:
        raise Misconfigured(
            Code.FABRIC_REJECTED,
            f"{name} exists, and its source is {found.source_type if found else 'unreadable'}, not open mirroring",
            remedy="Choose another name.",
        )
    if as_json:
        shown = {"id": made.id, "name": made.name, "workspace_id": made.workspace_id, "created": is_new}
        typer.echo(json.dumps({**shown, "landing_zone": made.landing_zone, "tables": made.tables_address}))
        return
    if is_new:
        say(f"created the mirrored database {made.name} ({made.id})")
    else:
        say(f"the mirrored database {made.name} ({made.id}) exists; nothing was changed")
        if found != wanted:
            say(f"  its schema by default: {found.default_schema}; its retention in days: {found.retention_days}")
    say(f"landing zone: {made.landing_zone}")
    if is_new:
        say(f'next: export MIRRORGATE_LANDING_ZONE="{made.landing_zone}"')
        say("then start the drain, register the tables, and run `mirrorgate fabric start`")
