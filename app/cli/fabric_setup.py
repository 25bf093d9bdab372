"""`mirrorgate fabric init`, `create` and `delete`: connect a gateway to a mirrored database, and clean up again.

`init` goes from the outside in: sign-in, workspace, capacity, database, a probe file in the landing zone, and a file of
variables in the gateway's data directory. It does not start mirroring: Fabric wants folders and files before that, so
the gateway starts it when the first table has a file (decision 0080). Invariant: every step can be repeated, and no
secret is written unless `--save-secret` asks for it.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.fabric import (
    FABRIC_DATA_DIR,
    ChangeDataFeed,
    DatabaseOption,
    FabricDataDir,
    Timeout,
    WorkspaceOption,
    Yes,
    fabric_data_dir,
    fabric_settings,
    following,
    opened,
)
from app.domain.preflight import Finding, Outcome
from mirrorgate.cli.console import ERRORS, OUTPUT, print_json, say
from mirrorgate.cli.options import AsJson
from mirrorgate.errors import Code, Misconfigured

if TYPE_CHECKING:
    from app.domain.fabric import DatabaseStatus
    from app.fabric import FabricClient
    from app.fabric.client import MirroredDatabase, Progress, Workspace
    from app.fabric.definition import Definition
    from app.settings import Settings

_DEFAULT_NAME: Final = "mirrorgate"
_SECRET: Final = "AZURE_CLIENT_SECRET"
_CARRIED: Final = (
    "AZURE_TENANT_ID",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_CERTIFICATE_PATH",
    "AZURE_AUTHORITY_HOST",
    "AZURE_TOKEN_CREDENTIALS",
    "MIRRORGATE_FABRIC_API",
    "MIRRORGATE_FABRIC_AUDIENCE",
    "MIRRORGATE_STORAGE_ENDPOINT",
    "MIRRORGATE_STORAGE_API_VERSION",
)
"""Variables without secrets that the gateway needs as this command does."""
_LANDING_ZONE: Final = "MIRRORGATE_LANDING_ZONE"
_DATABASE: Final = "MIRRORGATE_FABRIC_DATABASE"
_OF_DATABASE: Final = (_LANDING_ZONE, "MIRRORGATE_FABRIC_WORKSPACE", _DATABASE, "MIRRORGATE_FABRIC_START")
_STYLES: Final = {Outcome.OK: "green", Outcome.WARNING: "yellow", Outcome.UNSAFE: "red"}
_STARTS: Final = (
    "Mirroring has not started. Fabric wants folders and files first, so the gateway starts it, at most a minute after "
    "the first table has a file."
)
_STARTS_NOT: Final = "Mirroring has not started. Run `mirrorgate fabric start` when the tables are registered."


@dataclass
class _Report:
    """Report of the checks: prints each when it is done; with `quiet`, only collects them."""

    quiet: bool
    findings: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Print the finding. Exit 1 if it makes the next steps impossible."""
        self.findings.append(finding)
        if not self.quiet:
            OUTPUT.print(f"{finding.outcome:<8}", style=_STYLES[finding.outcome], end="", highlight=False)
            say(f" {finding.check:<18} {finding.detail}")
            if finding.remedy:
                say(f"{'':27} -> {finding.remedy}")
        if finding.outcome is Outcome.UNSAFE:
            if self.quiet:
                print_json({"checks": self.findings})
            else:
                say("Correct this, then run the command again; it continues here.", to=ERRORS)
            raise typer.Exit(1)

    def ok(self, check: str, detail: str) -> None:
        """Print a step that succeeded."""
        self.add(Finding(check, Outcome.OK, detail))


def init(
    workspace: WorkspaceOption = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME|ID",
            help="The mirrored database; created if the workspace has none of this name.",
            show_default=False,
        ),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option("--data-dir", help="Data directory of the gateway that publishes into the database.")
    ] = FABRIC_DATA_DIR,
    retention_days: Annotated[
        int | None,
        typer.Option(
            min=1, max=30, help="Days that Fabric keeps old versions. Default: that of Fabric.", show_default=False
        ),
    ] = None,
    default_schema: Annotated[
        str, typer.Option(help="Schema of tables that are registered without one, in Fabric.")
    ] = "dbo",
    change_data_feed: ChangeDataFeed = None,
    start: Annotated[
        bool,
        typer.Option(
            "--start/--no-start",
            help="Let the gateway start mirroring when the first table has a file. It never restarts a database that "
            "was stopped or paused.",
        ),
    ] = True,
    save_secret: Annotated[
        bool, typer.Option("--save-secret", help="Also write AZURE_CLIENT_SECRET into the file, which has mode 0600.")
    ] = False,
    timeout: Timeout = 600,
    as_json: AsJson = False,
) -> None:
    """Connect a gateway to Microsoft Fabric, step by step. Start here. Safe to repeat.

    Checks that you are signed in, that the workspace and its capacity are there, creates the mirrored database, writes
    and removes a probe file in its landing zone, and writes `settings.env` into the data directory, which `mirrorgate
    up` reads. Each problem is printed with its remedy; correct it and run the command again. In a terminal it asks for
    options that you leave out.

    You need: a workspace on an active capacity or a trial; the role Contributor in it; the AZURE_* variables of a
    service principal, a managed identity, or `az login`. The data directory differs from that of a quick start, whose
    gateway publishes into a local folder.

    For example:

        mirrorgate fabric init --workspace "Sales" --name orders
    """
    if save_secret and not os.environ.get(_SECRET):
        raise typer.BadParameter(f"{_SECRET} is not set", param_hint="--save-secret")
    settings = fabric_settings("init", workspace, name, data_dir)
    from app.fabric.definition import Definition

    wanted = Definition(
        default_schema=default_schema or None, retention_days=retention_days, change_data_feed=change_data_feed
    )
    _require_unused(settings, data_dir)
    report = _Report(quiet=as_json)
    with _interruptible():
        settings = _with_workspace(settings)
        with opened(settings, wait_seconds=timeout) as client:
            for finding in _workspace_findings(client):
                report.add(finding)
            settings = _with_database(settings)
        with opened(settings, wait_seconds=timeout) as client:
            wanted_name = settings.fabric_database or ""
            _require_same_database(client, wanted_name, data_dir)
            with following("creating", quiet=as_json) as progress:
                made, is_new, _ = make_database(client, wanted_name, wanted, progress=progress)
            report.ok("fabric_database", f"{'created' if is_new else 'exists'}: {made.name} ({made.id})")
            with following("preparing", quiet=as_json) as progress:
                status = _settled(client, progress)
        report.add(_state_finding(status))
        report.add(_probe(settings, made))
        report.ok("settings_file", _write_settings(data_dir, made, starts=start, with_secret=save_secret))
        if other := _overridden(made):
            report.add(other)
    command = f"{_program()} up --data-dir {shlex.quote(str(data_dir))}"
    if as_json:
        shown = {"id": made.id, "name": made.name, "workspace_id": made.workspace_id, "created": is_new}
        zone = {"landing_zone": made.landing_zone, "tables": made.tables_address}
        print_json({"checks": report.findings, **shown, **zone, "state": status.state, "start_command": command})
        return
    _say_next(status, data_dir, command, starts=start)


def _say_next(status: "DatabaseStatus", data_dir: Path, command: str, *, starts: bool) -> None:
    """Print what happens next; the last line starts the gateway."""
    from app.domain.fabric import DatabaseState
    from app.local.data_directory import read_settings_file

    say("")
    if status.state is DatabaseState.INITIALIZED:
        say(_STARTS if starts else _STARTS_NOT)
    if os.environ.get(_SECRET) and _SECRET not in read_settings_file(data_dir):
        say(f"{_SECRET} is not in the file: set it where the gateway runs, or repeat this with --save-secret.")
    say("Start the gateway:")
    say(command)


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say("stopped; nothing has to be undone. Run the command again to continue.", to=ERRORS)
        raise


def _workspace_findings(client: "FabricClient") -> Iterator[Finding]:
    from app.checks.fabric_setup import examine_workspace

    return examine_workspace(client)


def _with_workspace(settings: "Settings") -> "Settings":
    """Return the settings with a workspace; ask for it in a terminal. Raise Misconfigured without one."""
    from app.fabric.client import configured_names

    given, _ = configured_names(settings)
    if given is None:
        with opened(settings) as client:
            found = client.workspaces() if sys.stdin.isatty() else []
        given = _chosen(found)
    return settings.model_copy(update={"fabric_workspace": given})


def _chosen(found: "list[Workspace]") -> str:
    """Ask which workspace; return its id. Raise Misconfigured outside a terminal, or if there is none."""
    if not sys.stdin.isatty():
        raise Misconfigured(
            Code.BAD_SETTING, "no workspace is given", remedy="Give --workspace, or run the command in a terminal."
        )
    if not found:
        raise Misconfigured(Code.FABRIC_NOT_FOUND, "this identity sees no workspace")
    for number, one in enumerate(found, start=1):
        say(f"{number:>3}  {one.name}" + ("" if one.capacity_id else "  (no capacity)"), to=ERRORS)
    while True:
        answer: str = typer.prompt("Workspace (number or name)", default="1" if len(found) == 1 else None, err=True)
        for number, one in enumerate(found, start=1):
            if answer.strip().casefold() in (str(number), one.name.casefold(), one.id.casefold()):
                return one.id


def _with_database(settings: "Settings") -> "Settings":
    """Return the settings with the name or id of a database; ask for it in a terminal. Raise Misconfigured."""
    from app.fabric.client import configured_names

    _, given = configured_names(settings)
    if given is None:
        if not sys.stdin.isatty():
            raise Misconfigured(
                Code.BAD_SETTING, "no database is named", remedy="Give --name, or run the command in a terminal."
            )
        given = typer.prompt("Name of the mirrored database", default=_DEFAULT_NAME, err=True).strip()
    return settings.model_copy(update={"fabric_database": given})


def _settled(client: "FabricClient", progress: "Progress") -> "DatabaseStatus":
    """Return the status once Fabric has provisioned the database, which takes some minutes for a new one."""
    from app.domain.fabric import DatabaseState

    status = client.database_status()
    if status.state is not DatabaseState.INITIALIZING:
        return status
    return client.wait_until(DatabaseState.INITIALIZED, left=status.state, progress=progress)


def _state_finding(status: "DatabaseStatus") -> Finding:
    from app.domain.fabric import STATES, DatabaseState

    known = STATES[status.state]
    is_well = status.state.is_running or status.state in (DatabaseState.INITIALIZED, DatabaseState.STARTING)
    detail = f"{status.raw}: {known.meaning}" + (f" ({status.error})" if status.error else "")
    return Finding(
        "fabric_state", Outcome.OK if is_well else Outcome.WARNING, detail, None if is_well else known.remedy
    )


def _probe(settings: "Settings", made: "MirroredDatabase") -> Finding:
    from app.checks.fabric_setup import probe_landing_zone
    from app.zone_settings import storage_options

    return probe_landing_zone(made.landing_zone, storage_options(settings))


def _write_settings(data_dir: Path, made: "MirroredDatabase", *, starts: bool, with_secret: bool) -> str:
    from app.local.data_directory import SETTINGS_FILE, write_settings_file

    names = (*_CARRIED, _SECRET) if with_secret else _CARRIED
    variables = {name: value for name in names if (value := os.environ.get(name))}
    named = (made.landing_zone, made.workspace_id, made.id, str(starts).lower())
    variables |= dict(zip(_OF_DATABASE, named, strict=True))
    is_changed = write_settings_file(data_dir, variables)
    return f"{data_dir / SETTINGS_FILE} " + ("was written" if is_changed else "is up to date")


def _overridden(made: "MirroredDatabase") -> Finding | None:
    """Return a warning if this terminal sets another landing zone, which goes before the file."""
    if os.environ.get(_LANDING_ZONE, made.landing_zone) == made.landing_zone:
        return None
    detail = f"{_LANDING_ZONE} is set to another landing zone here, and the environment goes before the file"
    return Finding("environment", Outcome.WARNING, detail, f"Unset {_LANDING_ZONE} where the gateway runs.")


def _require_unused(settings: "Settings", data_dir: Path) -> None:
    """Raise Misconfigured for a data directory whose gateway was not made by this command: it publishes elsewhere."""
    from app.local.data_directory import read_settings_file

    is_used = settings.database_url is None and (data_dir / "postgres").is_dir()
    if is_used and _LANDING_ZONE not in read_settings_file(data_dir):
        raise _used(data_dir, "has a gateway that publishes into another landing zone")


def _require_same_database(client: "FabricClient", name: str, data_dir: Path) -> None:
    """Raise Misconfigured for a data directory that has been used and was made for another database."""
    from app.fabric.client import is_id
    from app.local.data_directory import read_settings_file

    known = read_settings_file(data_dir).get(_DATABASE)
    if known is None or not (data_dir / "postgres").is_dir():
        return
    found = name if is_id(name) else getattr(client.find(name), "id", "")
    if found.casefold() != known.casefold():
        raise _used(data_dir, f"has a gateway that publishes into the mirrored database {known}")


def _used(data_dir: Path, why: str) -> Misconfigured:
    return Misconfigured(
        Code.LANDING_ZONE_CHANGED,
        f"the data directory {data_dir} {why}",
        remedy="Give another --data-dir. `mirrorgate landing-zone move` moves that gateway with its tables instead.",
    )


def _program() -> str:
    """Return how this program is called here: by its name if the shell finds it, else by its path."""
    called, found = Path(sys.argv[0]), shutil.which("mirrorgate")
    if called.name == "mirrorgate" and called.exists() and (found is None or not called.samefile(found)):
        return shlex.quote(str(called))
    return "mirrorgate"


def make_database(
    client: "FabricClient", name: str, wanted: "Definition", *, description: str = "", progress: "Progress"
) -> "tuple[MirroredDatabase, bool, Definition]":
    """Create the database, or take the one of this name or id. Return it, whether it is new, and its definition.

    Raise Misconfigured for one whose source is not open mirroring.
    """
    from app.fabric.client import is_id

    if is_id(name):
        made, is_new = client.database(), False
    else:
        made, is_new = client.create(name, wanted, description=description, progress=progress)
    found = wanted if is_new else client.definition(progress)
    if found is None or not found.is_open_mirroring:
        raise Misconfigured(
            Code.FABRIC_REJECTED,
            f"{name} exists, and its source is {found.source_type if found else 'unreadable'}, not open mirroring",
            remedy="Choose another name.",
        )
    return made, is_new, found


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
    change_data_feed: ChangeDataFeed = None,
    timeout: Timeout = 600,
    as_json: AsJson = False,
) -> None:
    """Create a mirrored database for open mirroring, and print the address of its landing zone. Safe to repeat.

    A database that exists under the name is left as it is. `mirrorgate fabric init` does this and the rest. Needs the
    role Contributor in the workspace and the extras `server` and `onelake`; the credential is that of the AZURE_*
    variables, a managed identity, or `az login`.

    For example:

        mirrorgate fabric create --workspace "Sales" --name orders --retention-days 7
    """
    if not name.strip():
        raise typer.BadParameter("the name is empty", param_hint="--name")
    settings = fabric_settings("create", workspace, name)
    from app.fabric.definition import Definition

    wanted = Definition(
        default_schema=default_schema or None, retention_days=retention_days, change_data_feed=change_data_feed
    )
    with opened(settings, wait_seconds=timeout) as client, following("creating", quiet=as_json) as progress:
        made, is_new, found = make_database(client, name, wanted, description=description, progress=progress)
    if as_json:
        shown = {"id": made.id, "name": made.name, "workspace_id": made.workspace_id, "created": is_new}
        print_json({**shown, "landing_zone": made.landing_zone, "tables": made.tables_address})
        return
    if is_new:
        say(f"created the mirrored database {made.name} ({made.id})")
    else:
        say(f"the mirrored database {made.name} ({made.id}) exists; nothing was changed")
        if found != wanted:
            say(
                f"  its schema by default: {found.default_schema}; its retention in days: {found.retention_days}; "
                f"its change data feed: {'on' if found.change_data_feed else 'off'}"
            )
            say("  `mirrorgate fabric update` changes retention and change data feed")
    say(f"landing zone: {made.landing_zone}")
    if is_new:
        say(f'next: export MIRRORGATE_LANDING_ZONE="{made.landing_zone}"')
        say("then start the drain, register the tables, and run `mirrorgate fabric start`")


def delete(
    workspace: WorkspaceOption = None,
    database: DatabaseOption = None,
    yes: Yes = False,
    as_json: AsJson = False,
    data_dir: FabricDataDir = None,
) -> None:
    """Delete the mirrored database, with its landing zone, Delta tables and SQL endpoint. Asks for its name.

    Stop the gateway first. Removes the variables of `fabric init` that name the database; the data directory remains,
    because it can hold changes that Fabric has not received. Needs the role Contributor.

    For example:

        mirrorgate fabric delete --workspace "Sales" --database orders
    """
    settings = fabric_settings("delete", workspace, database, data_dir)
    from app.local.data_directory import SETTINGS_FILE, read_settings_file, write_settings_file
    from app.local.embedded import running_url

    folder = fabric_data_dir(data_dir)
    with opened(settings) as client:
        found = client.database()
        is_ours = read_settings_file(folder).get(_DATABASE, "").casefold() == found.id.casefold()
        if is_ours and running_url(folder) is not None:
            raise Misconfigured(
                Code.ALREADY_RUNNING,
                f"the gateway on {folder} publishes into this database",
                remedy="Stop it first: Ctrl-C in the terminal of `mirrorgate up`.",
            )
        if not yes:
            _confirm(found, client.workspace().name)
        client.delete()
    if is_ours:
        write_settings_file(folder, dict.fromkeys((*_CARRIED, _SECRET, *_OF_DATABASE)))
        if not read_settings_file(folder):
            (folder / SETTINGS_FILE).unlink()
    if as_json:
        print_json({"id": found.id, "name": found.name, "deleted": True})
        return
    say(f"deleted the mirrored database {found.name} ({found.id}), its landing zone and its tables")
    if is_ours:
        say(
            f"delete the folder {folder} too, unless you need what it has staged; another database needs another folder"
        )


def _confirm(database: "MirroredDatabase", workspace: str) -> None:
    """Ask for the name of the database. Abort for another answer, and without a terminal."""
    say(
        f"This deletes {database.name} in the workspace {workspace} for good: its landing zone, its Delta tables and "
        "its SQL endpoint. Reports and shortcuts that use it stop working.",
        to=ERRORS,
    )
    typed = typer.prompt("Type the name of the database to delete it", err=True)
    if typed.strip() != database.name:
        say("another name; nothing was deleted", to=ERRORS)
        raise typer.Abort
