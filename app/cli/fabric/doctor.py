"""`mirrorgate fabric doctor`: test everything on Fabric's side, and name what to change."""

import json

import typer

from app.cli.console import OUTPUT
from app.cli.doctor import findings_grid
from app.cli.fabric.options import DatabaseOption, WorkspaceOption, fabric_settings, opened
from app.cli.mirror.progress import working
from app.cli.options import AsJson


def doctor(workspace: WorkspaceOption = None, database: DatabaseOption = None, as_json: AsJson = False) -> None:
    """Check token, workspace, capacity, rights, definition, landing zone and mirroring. Exit 1 if one is at fault.

    Changes nothing. Each problem has its remedy below it; docs/fabric.md has the steps in the portal. Whether the
    landing zone can be written safely is checked by `mirrorgate doctor`.

    Example: `mirrorgate fabric doctor --workspace "Sales" --database orders`
    """
    settings = fabric_settings("doctor", workspace, database)
    from app.checks.fabric_setup import examine_fabric
    from app.domain.preflight.finding import unsafe_among
    from app.zone_settings import storage_options

    findings = []
    with opened(settings) as client, working("examining", quiet=as_json) as advance:
        for finding in examine_fabric(client, settings.landing_zone, storage_options(settings)):
            findings.append(finding)
            advance(finding.check)
    if as_json:
        typer.echo(json.dumps([finding.to_json() for finding in findings]))
    else:
        OUTPUT.print(findings_grid(findings))
    if unsafe_among(findings):
        raise typer.Exit(1)
