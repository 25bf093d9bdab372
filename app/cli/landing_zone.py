"""`mirrorgate landing-zone`: show which zone the database publishes into, and move it to another."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from app.extras import require_extras

LandingZone = Annotated[
    str | None,
    typer.Option("--landing-zone", help="Folder or OneLake address; unset: MIRRORGATE_LANDING_ZONE."),
]
DataDir = Annotated[Path, typer.Option(help="Data directory of a local `mirrorgate up`, running or not.")]

_HOME = Path(".mirrorgate")
_console = Console()

landing_zone = typer.Typer(help="Show or move the landing zone that the database publishes into.", no_args_is_help=True)


@landing_zone.command("show")
def show(
    zone: LandingZone = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
    data_dir: DataDir = _HOME,
) -> None:
    """Print the id of the zone, and the address under which a drain last used it."""
    require_extras("landing-zone show", "server")
    from app.cli.tables.direct import direct_parts  # it imports SQLAlchemy and Arrow
    from app.staging.connection.database import translated_errors
    from app.staging.ledger.landing_zone import known_zone

    with direct_parts(zone, data_dir) as (engine, _), translated_errors(), engine.begin() as connection:
        known = known_zone(connection)
    if as_json:
        typer.echo(json.dumps(known and {"zone_id": str(known.zone_id), "location": known.location}))
    else:
        typer.echo("no drain has started yet" if known is None else str(known))


@landing_zone.command("move")
def move(zone: LandingZone = None, data_dir: DataDir = _HOME) -> None:
    """Publish into the landing zone that is given or set from now on, instead of the one that the database remembers.

    A zone that is only mounted elsewhere needs no move: it brings its id along. A new, empty zone has no table folders,
    so each table that has published files stops with `landing_folder_lost` until it is recreated and loaded anew.
    """
    require_extras("landing-zone move", "server")
    from app.checks.zone_claim import move_landing_zone
    from app.cli.tables.direct import direct_parts  # it imports SQLAlchemy and Arrow
    from app.landing.open_zone import open_zone
    from app.landing.zone import PathKind
    from app.staging.connection.database import translated_errors
    from app.staging.ledger.files import recorded_number
    from app.staging.tables.registry import list_tables

    with direct_parts(zone, data_dir) as (engine, place):
        former, now = move_landing_zone(engine, place)
        opened = open_zone(place)
        with translated_errors(), engine.begin() as connection:
            published = [table for table in list_tables(connection) if recorded_number(connection, table.table_id)]
        missing = [str(table.name) for table in published if opened.kind(table.name.folder) is PathKind.ABSENT]
    _console.print(f"was: {former or 'none'}", highlight=False, soft_wrap=True)
    _console.print(f"now: {now}", highlight=False, soft_wrap=True)
    if missing:
        _console.print(
            f"{len(missing)} tables have published files and no folder there; recreate them: {', '.join(missing)}",
            highlight=False,
            soft_wrap=True,
        )
