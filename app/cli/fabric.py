"""`mirrorgate fabric`: start, stop, change and examine the mirrored database that reads the landing zone.

`fabric_setup` has the commands that create and delete it. Invariant: every command can be repeated; what is already so
is said and left as it is.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.doctor import findings_grid
from app.extras import require_extras
from mirrorgate.cli.console import ERRORS, OUTPUT, print_json, say, working
from mirrorgate.cli.options import DEFAULT_DATA_DIR, AsJson

if TYPE_CHECKING:
    from rich.console import RenderableType

    from app.domain.fabric import TableSync
    from app.fabric import DatabaseStatus, FabricClient, TableMirroring
    from app.fabric.client import Progress
    from app.settings import Settings

WorkspaceOption = Annotated[
    str | None,
    typer.Option(
        "--workspace",
        metavar="NAME|ID",
        help="The workspace. Default: MIRRORGATE_FABRIC_WORKSPACE, else the one in MIRRORGATE_LANDING_ZONE.",
        show_default=False,
    ),
]
DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="NAME|ID",
        help="The mirrored database. Default: MIRRORGATE_FABRIC_DATABASE, else the one in MIRRORGATE_LANDING_ZONE.",
        show_default=False,
    ),
]
Timeout = Annotated[int, typer.Option("--timeout", metavar="SECONDS", min=1, help="Seconds to wait for Fabric.")]
ChangeDataFeed = Annotated[
    bool | None,
    typer.Option(
        "--change-data-feed/--no-change-data-feed",
        help="Let Fabric write Delta's change data feed for all tables. Default: Fabric's, which is off.",
        show_default=False,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
FABRIC_DATA_DIR: Final = Path(".mirrorgate-fabric")
"""Data directory for `fabric init`: not that of a quick start, whose gateway publishes into a local folder."""
FabricDataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="Data directory of the gateway. Default: .mirrorgate-fabric if `fabric init` has made one here, else "
        ".mirrorgate.",
        show_default=False,
    ),
]


def fabric_settings(
    command: str, workspace: str | None, database: str | None, data_dir: Path | None = None
) -> "Settings":
    """Return the settings with the given names, and of the data directory: its file, and a gateway running on it.

    Raise Misconfigured.
    """
    require_extras(f"fabric {command}", "server", "onelake")
    from app.local.data_directory import apply_settings_file
    from app.local.embedded import running_url
    from app.observability.telemetry import configure_logging
    from app.settings import Settings

    folder = fabric_data_dir(data_dir)
    apply_settings_file(folder, os.environ)
    given: dict[str, object] = {"fabric_workspace": workspace, "fabric_database": database}
    settings = Settings.from_environment(**given)
    if settings.database_url is None:
        settings = Settings.from_environment(**given, database_url=running_url(folder))
    configure_logging(settings, is_command=True)
    return settings


def fabric_data_dir(given: Path | None) -> Path:
    """Return the data directory of the gateway: the given one, else that of `fabric init` here, else that of `up`."""
    from app.local.data_directory import SETTINGS_FILE

    if given is not None:
        return given
    return FABRIC_DATA_DIR if (FABRIC_DATA_DIR / SETTINGS_FILE).is_file() else DEFAULT_DATA_DIR


def opened(settings: "Settings", *, wait_seconds: float = 600.0) -> "FabricClient":
    """Return the client, which is a context manager."""
    from app.fabric import open_fabric

    return open_fabric(settings, wait_seconds=wait_seconds)


@contextmanager
def following(description: str, *, quiet: bool = False) -> "Iterator[Progress]":
    """Show a bar with Fabric's word for the state, in a terminal. On Ctrl-C say that Fabric continues."""
    try:
        with working(description, quiet=quiet) as advance:
            yield lambda state, percent: advance(
                f"{description}: {state}" + ("" if percent is None else f", {percent} %")
            )
    except KeyboardInterrupt:
        say("Fabric continues what it has begun; `mirrorgate fabric status` shows it", to=ERRORS)
        raise


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation on standard error. Abort on no, and without a terminal."""
    if not yes:
        typer.confirm(question, abort=True, err=True)


def update(
    workspace: WorkspaceOption = None,
    database: DatabaseOption = None,
    change_data_feed: ChangeDataFeed = None,
    retention_days: Annotated[
        int | None,
        typer.Option(min=1, max=30, help="Days that Fabric keeps old versions of the tables.", show_default=False),
    ] = None,
    timeout: Timeout = 600,
    as_json: AsJson = False,
    data_dir: FabricDataDir = None,
) -> None:
    """Change the definition of the mirrored database: only what is given. Safe to repeat.

    The change data feed is an extended capability of mirroring, which Microsoft can bill. It holds for all tables.

    For example:

        mirrorgate fabric update --database orders --change-data-feed
    """
    if retention_days is None and change_data_feed is None:
        raise typer.BadParameter("nothing to change is given", param_hint="--change-data-feed / --retention-days")
    settings = fabric_settings("update", workspace, database, data_dir)
    from app.fabric.definition import Definition

    change = Definition(retention_days=retention_days, change_data_feed=change_data_feed)
    with opened(settings, wait_seconds=timeout) as client, following("updating", quiet=as_json) as progress:
        is_changed = client.change_definition(change, progress)
        found = client.definition(progress) or change
        shown = {"id": client.database_id, "changed": is_changed}
    if as_json:
        feed = {"change_data_feed": bool(found.change_data_feed), "retention_days": found.retention_days}
        print_json({**shown, **feed})
        return
    say("the definition was changed" if is_changed else "the definition says so already; nothing was changed")
    say(f"  change data feed: {'on' if found.change_data_feed else 'off'}; retention in days: {found.retention_days}")


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
    data_dir: FabricDataDir = None,
) -> None:
    """Start mirroring, and wait until it runs. Safe to repeat: a running database is left as it is.

    First checks that every registered table has its `_metadata.json` and a file in the landing zone, as Microsoft
    advises: Fabric pauses the whole database for a table that remains empty for about two weeks.

    For example:

        mirrorgate fabric start --workspace "Sales" --database orders
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
            _require_prepared(client, settings)
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
    data_dir: FabricDataDir = None,
) -> None:
    """Stop mirroring, and wait until it is stopped. Asks first, because a later start reads everything again.

    Safe to repeat. Tables that you want to load again after a start: `mirrorgate tables recreate`.

    For example:

        mirrorgate fabric stop --workspace "Sales" --database orders --yes
    """
    settings = fabric_settings("stop", workspace, database, data_dir)
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


def _require_prepared(client: "FabricClient", settings: "Settings") -> None:
    """Raise Misconfigured `fabric_not_prepared` while tables lack metadata or files, or if there are none."""
    from app.checks.fabric_setup import is_of_another, registered_tables, unprepared_tables
    from app.landing.open_zone import ZoneAddress, open_zone
    from app.published.table_files import list_tables
    from app.zone_settings import storage_options
    from mirrorgate.errors import Code, Misconfigured

    configured, database, registry = settings.landing_zone or "", client.database(), settings.database_url
    if is_of_another(configured, client.workspace(), database):
        configured, registry = "", None
    location = configured if "://" in configured else database.landing_zone
    address = ZoneAddress(location, storage_options(settings))
    address.check()
    try:
        zone = open_zone(address)
        tables = registered_tables(registry.get_secret_value()) if registry else list_tables(zone)
        wrong = [*unprepared_tables(zone, tables)] if tables else ["there is no table yet"]
    except OSError as failed:
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"{location} cannot be read: {failed}") from failed
    if wrong:
        more = f", and {len(wrong) - _MAX_NAMED} more" if len(wrong) > _MAX_NAMED else ""
        raise Misconfigured(Code.FABRIC_NOT_PREPARED, "; ".join(wrong[:_MAX_NAMED]) + more)


def _require(status: "DatabaseStatus", *states: str) -> None:
    """Raise Misconfigured `fabric_not_running` for another state, with what Fabric says and the state's remedy."""
    from app.domain.fabric import STATES
    from mirrorgate.errors import Code, Misconfigured

    if status.state not in states:
        error = f" ({status.error})" if status.error else ""
        known = STATES[status.state]
        raise Misconfigured(
            Code.FABRIC_NOT_RUNNING, f"the database is {status.raw}{error}: {known.meaning}", remedy=known.remedy
        )


def _report(client: "FabricClient", status: "DatabaseStatus", what: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"database_id": client.database_id, "state": status.state, "raw": status.raw})
    else:
        say(f"{client.database().name} {what} ({status.raw})")


def status(
    workspace: WorkspaceOption = None,
    database: DatabaseOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it repeatedly until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Seconds between two checks.")] = 10,
    as_json: AsJson = False,
    data_dir: FabricDataDir = None,
) -> None:
    """Show the state of the mirrored database, and of each table while it runs. Exit 1 if it does not run.

    Exit 1 also if a table has failed. Counts are Fabric's, and cumulative. The state Paused means that the capacity
    was paused or a table remained empty; the remedy is printed with it. With --watch and --json: one object a line.

    For example:

        mirrorgate fabric status --watch
    """
    settings = fabric_settings("status", workspace, database, data_dir)
    with opened(settings) as client:
        if watch:
            _watch(client, interval, as_json=as_json)
            return
        found, tables = _read(client)
    if as_json:
        print_json(_to_json(found, tables))
    else:
        OUTPUT.print(_rendered(found, tables), soft_wrap=True)
    if not found.state.is_running or any(table.has_failed for table in tables):
        raise typer.Exit(1)


def _read(client: "FabricClient") -> "tuple[DatabaseStatus, list[TableMirroring]]":
    found = client.database_status()
    return found, client.tables_status() if found.state.is_running else []


def _watch(client: "FabricClient", interval: float, *, as_json: bool) -> None:
    """Show the state until Ctrl-C: in place in a terminal, else when it has changed."""
    from rich.live import Live

    in_place = not as_json and sys.stdout.isatty()
    last: object = None
    with Live(console=OUTPUT, auto_refresh=False) if in_place else nullcontext() as live:
        while True:
            now = _read(client)
            if live is not None:
                live.update(_rendered(*now), refresh=True)
            elif as_json:
                print_json(_to_json(*now))
            elif now != last:
                OUTPUT.print(_rendered(*now), soft_wrap=True)
            last = now
            time.sleep(interval)  # Fabric's API has no notifications; Ctrl-C ends the pause


def _to_json(found: "DatabaseStatus", tables: "list[TableMirroring]") -> dict[str, Any]:
    def shown(table: "TableMirroring") -> dict[str, Any]:
        last = table.last_sync.isoformat() if table.last_sync else None
        return asdict(table) | {"last_sync": last, "failed": table.has_failed}

    return {**asdict(found), "tables": [shown(table) for table in tables]}


def _rendered(found: "DatabaseStatus", tables: "list[TableMirroring]") -> "RenderableType":
    """Lay out the state, the tables, and below them each trouble with its remedy."""
    from rich.text import Text

    from app.domain.fabric import STATES, remedy_for, table_trouble
    from mirrorgate.cli.grid import Grid
    from mirrorgate.text import ago, count

    known = STATES[found.state]
    style = "green" if found.state.is_running else "yellow" if found.state.is_passing else "red"
    text = Text.assemble((found.raw or "no state", style), f": {known.meaning}")
    if found.error:
        text.append(f"\n  {found.error} ({found.error.whose})")
    if known.remedy:
        text.append(f"\n  remedy: {known.remedy}")
    if tables:
        numbers = ("rows", "bytes")
        grid = Grid(("table", "state", *numbers, "last sync"), right=numbers)
        for table in tables:
            counts = (count(table.processed_rows), count(table.processed_bytes))
            style = "red" if table.has_failed else ""
            grid.add(_name(table), table.state or "", *counts, ago(table.last_sync, datetime.now(UTC)), style=style)
        text.append("\n\n").append_text(grid.rendered(OUTPUT))
    for table in tables:
        if trouble := table_trouble(table):
            remedy = remedy_for(table.error.whose if table.error else "unknown")
            text.append(f"\n\n{_name(table)}: {trouble}", "red").append(f"\n  remedy: {remedy}")
    return text


def _name(table: "TableMirroring") -> str:
    return f"{table.schema}.{table.name}" if table.schema else table.name


def refresh(
    workspace: WorkspaceOption = None,
    database: DatabaseOption = None,
    recreate: Annotated[
        bool, typer.Option("--recreate", help="Drop and recreate all tables of the SQL analytics endpoint.")
    ] = False,
    timeout: Timeout = 900,
    as_json: AsJson = False,
    data_dir: FabricDataDir = None,
) -> None:
    """Let the SQL analytics endpoint show what Fabric has mirrored, and print the result of each table.

    The endpoint does that by itself some minutes later. Exit 1 if it failed for a table. Needs the role Contributor.
    With --json: one list of the tables.

    For example:

        mirrorgate fabric refresh --database orders
    """
    settings = fabric_settings("refresh", workspace, database, data_dir)
    with opened(settings, wait_seconds=timeout) as client, following("refreshing", quiet=as_json) as progress:
        tables = client.refresh_sql_endpoint(recreate=recreate, progress=progress)
    if as_json:
        shown = [
            asdict(one) | {"synced": one.synced.isoformat() if one.synced else None, "failed": one.has_failed}
            for one in tables
        ]
        print_json(shown)
    else:
        _show_synced(tables)
    if any(one.has_failed for one in tables):
        raise typer.Exit(1)


def _show_synced(tables: "list[TableSync]") -> None:
    from mirrorgate.cli.grid import Grid
    from mirrorgate.text import ago

    if not tables:
        say("the SQL analytics endpoint has no table yet")
        return
    grid = Grid(("table", "result", "last sync", "error"))
    for one in sorted(tables, key=lambda table: table.name):
        error = str(one.error) if one.error else ""
        grid.add(one.name, one.status, ago(one.synced, datetime.now(UTC)), error, style="red" if one.has_failed else "")
    OUTPUT.print(grid.rendered(OUTPUT), soft_wrap=True)


def export(
    folder: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="Where to write the folder of the item.")],
    workspace: WorkspaceOption = None,
    database: DatabaseOption = None,
    timeout: Timeout = 600,
    as_json: AsJson = False,
    data_dir: FabricDataDir = None,
) -> None:
    """Write the mirrored database as a folder for Git, fabric-cicd and Terraform. Safe to repeat.

    The folder NAME.MirroredDatabase has the files of Fabric's Git integration. Landing zone, tables and state are not
    in it: start mirroring after each deployment of a new database.

    For example:

        mirrorgate fabric export --database orders --to fabric
    """
    from mirrorgate.errors import Code, Misconfigured

    settings = fabric_settings("export", workspace, database, data_dir)
    with opened(settings, wait_seconds=timeout) as client, following("exporting", quiet=as_json) as progress:
        name = client.database().name
        try:
            files = client.item_files(progress)
        except ValueError as error:
            raise Misconfigured(Code.FABRIC_REJECTED, f"the definition cannot be read: {error}") from None
    item = folder / f"{name.replace('/', '_')}.MirroredDatabase"
    written = []
    for path, content in sorted(files.items()):
        target = item / path
        if not target.resolve().is_relative_to(item.resolve()):
            raise Misconfigured(Code.FABRIC_REJECTED, "a file of the definition lies outside the item's folder")
        try:
            if not target.is_file() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
                written.append(path)
        except OSError as error:
            raise typer.BadParameter(f"{target} cannot be written: {error.strerror}", param_hint="--to") from None
    if as_json:
        print_json({"folder": str(item), "files": sorted(files), "written": written})
        return
    say(f"wrote {', '.join(written)} in {item}" if written else f"{item} is up to date; nothing was written")
    say("after a deployment: `mirrorgate fabric start`")


def doctor(
    workspace: WorkspaceOption = None,
    database: DatabaseOption = None,
    as_json: AsJson = False,
    data_dir: FabricDataDir = None,
) -> None:
    """Check token, workspace, capacity, rights, definition, landing zone and mirroring. Exit 1 if one is at fault.

    Changes nothing. Each problem has its remedy below it. Without a database, it checks what is needed before one.
    Whether the landing zone can be written safely is checked by `mirrorgate doctor`.

    For example:

        mirrorgate fabric doctor --workspace "Sales" --database orders
    """
    settings = fabric_settings("doctor", workspace, database, data_dir)
    from app.checks.fabric_setup import examine_fabric
    from app.domain.preflight import unsafe_among
    from app.zone_settings import storage_options

    findings = []
    with opened(settings) as client, working("examining", quiet=as_json) as advance:
        for finding in examine_fabric(client, settings.landing_zone, storage_options(settings)):
            findings.append(finding)
            advance(finding.check)
    if as_json:
        print_json(findings)
    else:
        OUTPUT.print(findings_grid(findings))
    if unsafe_among(findings):
        raise typer.Exit(1)
