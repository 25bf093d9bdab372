"""`mirrorgate landing-zone`: show which zone the database publishes into, and move it to another."""

import json

import typer

from app.cli.console import say
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LandingZone, LocalDataDir
from app.extras import require_extras


def show_zone(as_json: AsJson = False, data_dir: LocalDataDir = DEFAULT_DATA_DIR) -> None:
    """Print the id of the zone that the database publishes into, and the address where a drain last used it."""
    require_extras("landing-zone show", "server")
    from app.cli.direct import open_database
    from app.staging.connection.database import translated_errors
    from app.staging.ledger.landing_zone import known_zone

    with open_database(data_dir) as engine, translated_errors(), engine.begin() as connection:
        known = known_zone(connection)
    if as_json:
        typer.echo(json.dumps(known and {"zone_id": str(known.zone_id), "location": known.location}))
    else:
        typer.echo("no drain has started yet" if known is None else str(known))


def move_zone(landing_zone: LandingZone = None, data_dir: LocalDataDir = DEFAULT_DATA_DIR) -> None:
    """Publish into the given landing zone from now on, instead of the one that the database remembers.

    A zone that only moved to another mount point or address needs no move: its id moves with it. A new, empty zone has
    no table folders, so each table with published files stops with `landing_folder_lost` until you rebuild it, or
    recreate it and load it again.

    Example: `mirrorgate landing-zone move --landing-zone /mnt/new-zone`
    """
    require_extras("landing-zone move", "server")
    from app.checks.zone_claim import move_landing_zone
    from app.cli.direct import open_database_and_zone
    from app.landing.open_zone import open_zone
    from app.landing.zone import PathKind
    from app.staging.connection.database import translated_errors
    from app.staging.ledger.files import recorded_number
    from app.staging.tables.registry import list_tables

    with open_database_and_zone(landing_zone, data_dir) as (engine, address):
        former, now = move_landing_zone(engine, address)
        opened = open_zone(address)
        with translated_errors(), engine.begin() as connection:
            published = [table for table in list_tables(connection) if recorded_number(connection, table.table_id)]
        missing = [str(table.name) for table in published if opened.kind(table.name.folder) is PathKind.ABSENT]
    say(f"was: {former or 'none'}")
    say(f"now: {now}")
    if missing:
        say(f"{len(missing)} tables have published files and no folder there: {', '.join(missing)}")
        say("start a drain, then run `mirrorgate tables rebuild --all`; recreate the tables that it cannot rebuild")
