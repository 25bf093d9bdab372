"""`mirrorgate fabric start` and `mirrorgate fabric stop`: have Fabric read the landing zone, or not."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.console import ERRORS, say
from app.cli.fabric.options import (
    DatabaseOption,
    Timeout,
    WorkspaceOption,
    Yes,
    confirm,
    fabric_settings,
    following,
    opened,
)
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir

if TYPE_CHECKING:
    from app.fabric import DatabaseStatus, FabricClient
    from app.settings import Settings

_MAX_NAMED: Final = 20
_ABOUT_STOPPING: Final = (
    "Fabric stops replication and keeps the Delta tables. A later start copies everything: Fabric reads every table "
    "from its first file again, and it has purged the files that it processed more than 7 days ago."
)
_ABOUT_PAUSED: Final = (
    "The database is Paused. Microsoft documents Resume replication in the portal for this, which continues where it "
    "was paused. Whether a start by the API continues or begins at the first file is not documented."
)


def start(
    workspace: WorkspaceOption = None,
    database: DatabaseOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Start even if tables have no metadata or no file in the landing zone yet.")
    ] = False,
    yes: Yes = False,
    timeout: Timeout = 600,
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Start mirroring, and wait until it runs. Safe to repeat: a running database is left as it is.

    First checks that every registered table has its `_metadata.json` and a file in the landing zone, as Microsoft
    advises: Fabric pauses the whole database for a table that stays empty for about two weeks.

    Example: `mirrorgate fabric start --workspace "Sales" --database orders`
    """
    settings = fabric_settings("start", workspace, database, data_dir)
    from app.fabric import DatabaseState

    with opened(settings, wait_seconds=timeout) as client:
        status = client.database_status()
        if status.state.is_running:
            _report(client, status, "is running already; nothing was changed", as_json=as_json)
            return
        if status.state is DatabaseState.PAUSED and not yes:
            say(_ABOUT_PAUSED, to=ERRORS)
            confirm("Start it by the API?", yes=yes)
        if not force:
            _require_prepared(client, settings, data_dir)
        with following("starting", quiet=as_json) as progress:
            if status.state in (DatabaseState.INITIALIZING, DatabaseState.STOPPING):
                startable = (DatabaseState.INITIALIZED, DatabaseState.STOPPED)
                status = client.wait_until(*startable, left=status.state, progress=progress)
            if status.state is not DatabaseState.STARTING:
                client.start()
            running = (DatabaseState.RUNNING, DatabaseState.RUNNING_WITH_WARNING)
            status = client.wait_until(*running, left=status.state, progress=progress)
        _require(status, *running)
        _report(client, status, "is running", as_json=as_json)


def stop(
    workspace: WorkspaceOption = None,
    database: DatabaseOption = None,
    yes: Yes = False,
    timeout: Timeout = 600,
    as_json: AsJson = False,
) -> None:
    """Stop mirroring, and wait until it is stopped. Asks first, because a later start reads everything again.

    Safe to repeat. Tables that you want to load again after a start: `mirrorgate tables recreate`.

    Example: `mirrorgate fabric stop --workspace "Sales" --database orders --yes`
    """
    settings = fabric_settings("stop", workspace, database)
    from app.fabric import DatabaseState

    with opened(settings, wait_seconds=timeout) as client:
        status = client.database_status()
        if status.state in (DatabaseState.STOPPED, DatabaseState.INITIALIZED, DatabaseState.INITIALIZING):
            _report(client, status, "does not run; nothing was changed", as_json=as_json)
            return
        if not yes:
            say(_ABOUT_STOPPING, to=ERRORS)
            confirm("Stop mirroring?", yes=yes)
        with following("stopping", quiet=as_json) as progress:
            if status.state is not DatabaseState.STOPPING:
                client.stop()
            status = client.wait_until(DatabaseState.STOPPED, left=status.state, progress=progress)
        _require(status, DatabaseState.STOPPED)
        _report(client, status, "is stopped", as_json=as_json)


def _require_prepared(client: "FabricClient", settings: "Settings", data_dir: Path) -> None:
    """Raise Misconfigured `fabric_not_prepared` while tables lack metadata or files, or if there are none."""
    from app.checks.fabric_setup import registered_tables, unprepared_tables
    from app.errors import Code, Misconfigured
    from app.landing.open_zone import ZoneAddress, open_zone
    from app.published.table_folders import list_tables
    from app.zone_settings import storage_options

    configured = settings.landing_zone or ""
    location = configured if "://" in configured else client.database().landing_zone
    address = ZoneAddress(location, storage_options(settings))
    address.check()
    try:
        zone = open_zone(address)
        tables = (
            registered_tables(settings.database_url.get_secret_value()) if settings.database_url else list_tables(zone)
        )
        wrong = [*unprepared_tables(zone, tables)] if tables else ["there is no table yet"]
    except OSError as failed:
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"{location} cannot be read: {failed}") from failed
    if wrong:
        more = f", and {len(wrong) - _MAX_NAMED} more" if len(wrong) > _MAX_NAMED else ""
        raise Misconfigured(Code.FABRIC_NOT_PREPARED, "; ".join(wrong[:_MAX_NAMED]) + more)


def _require(status: "DatabaseStatus", *states: str) -> None:
    """Raise Misconfigured `fabric_not_running` for another state, with what Fabric says and the state's remedy."""
    from app.domain.fabric.remedies import STATES
    from app.errors import Code, Misconfigured

    if status.state not in states:
        error = f" ({status.error})" if status.error else ""
        known = STATES[status.state]
        raise Misconfigured(
            Code.FABRIC_NOT_RUNNING, f"the database is {status.raw}{error}: {known.meaning}", remedy=known.remedy
        )


def _report(client: "FabricClient", status: "DatabaseStatus", what: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"database_id": client.database_id, "state": status.state, "raw": status.raw}))
    else:
        say(f"{client.database().name} {what} ({status.raw})")
