"""Commands that run the gateway or a part of it (`up`, `api`, `drain`), `emulator`, `migrate`, and `settings`."""

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, ParamSpec

import typer

from app.extras import require_extras
from mirrorgate.cli.console import CANNOT_START, ERRORS, INTERRUPTED, encoded, say
from mirrorgate.cli.options import DEFAULT_DATA_DIR, AsJson, named_values
from mirrorgate.errors import Code, Misconfigured

DataDir = Annotated[Path, typer.Option(help="Folder for the Postgres data, keys and logs of this gateway.")]
Host = Annotated[
    str | None, typer.Option(help="Address to listen on. Default: MIRRORGATE_HOST, else 127.0.0.1.", show_default=False)
]
Port = Annotated[
    int | None,
    typer.Option(help="Port of the API; 0 picks a free one. Default: MIRRORGATE_PORT, else 8480.", show_default=False),
]
LandingZone = Annotated[
    str | None,
    typer.Option(
        help="Folder or OneLake address to publish into. Default: MIRRORGATE_LANDING_ZONE.", show_default=False
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        help="postgresql://… of the gateway's database. Default: MIRRORGATE_DATABASE_URL, which keeps the password out "
        "of the process list.",
        show_default=False,
    ),
]

_SLICE_SECONDS: Final = 0.2

Parameters = ParamSpec("Parameters")


def _is_program(command: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Let a command end with CANNOT_START after Misconfigured, so that a service manager does not start it again."""

    @wraps(command)
    def run(*arguments: Parameters.args, **options: Parameters.kwargs) -> None:
        try:
            command(*arguments, **options)
        except Misconfigured as error:
            error.exit_status = CANNOT_START
            raise

    return run


@_is_program
def up(
    data_dir: DataDir = DEFAULT_DATA_DIR,
    host: Host = None,
    port: Port = None,
    landing_zone: Annotated[
        str | None,
        typer.Option(
            help="Folder or OneLake address to publish into. Default: MIRRORGATE_LANDING_ZONE, else `landing-zone` in "
            "the data directory.",
            show_default=False,
        ),
    ] = None,
    mirror: Annotated[
        bool,
        typer.Option(
            "--mirror",
            help="Also apply the landing files to Delta tables in MIRRORGATE_MIRROR_TARGET, else `mirror` in the data "
            "directory. `mirrorgate mirror --help` shows what to do with them. Requires the extra `mirror`.",
        ),
    ] = False,
) -> None:
    """Run the whole gateway on this machine: a private Postgres, the API, the drain and, on request, the mirror.

    Prints `ready http://127.0.0.1:<port>` once it serves. Ctrl-C stops everything, and the next start continues where
    this one stopped. No variable has to be set; `mirrorgate settings` lists all of them. Variables in `settings.env` of
    the data directory are read too, where the environment does not set them; `mirrorgate fabric init` writes that file.

    For example:

        mirrorgate up --data-dir /var/lib/mirrorgate --landing-zone /mnt/zone
    """
    try:
        _up(data_dir, host, port, landing_zone, mirror=mirror)
    except KeyboardInterrupt:  # during the imports; later `up` handles Ctrl-C itself and exits with 0
        say("stopped", to=ERRORS)
        raise typer.Exit(INTERRUPTED) from None


def _up(data_dir: Path, host: str | None, port: int | None, landing_zone: str | None, *, mirror: bool) -> None:
    require_extras("up --mirror" if mirror else "up", "embedded", *(["mirror"] if mirror else []))
    from app.local.data_directory import apply_settings_file
    from app.local.log_files import configure_up_logging
    from app.local.up import up as run_up
    from app.settings import Settings

    apply_settings_file(data_dir, os.environ)
    settings = Settings.from_environment(host=host, port=port)
    configure_up_logging(settings, data_dir, ERRORS)
    run_up(settings, data_dir, landing_zone, ERRORS, environment=os.environ, mirror=mirror)


@_is_program
def api(host: Host = None, port: Port = None, database_url: DatabaseUrl = None) -> None:
    """Run the API alone. Requires the extra `api`, a database and a key.

    Variables: MIRRORGATE_DATABASE_URL; MIRRORGATE_ADMIN_KEY, made with `mirrorgate keys generate`, until a key is
    stored; MIRRORGATE_API_PROCESSES for more than one process. `mirrorgate settings` lists all.
    """
    require_extras("api", "api")
    _set_variables({"HOST": host, "PORT": port, "DATABASE_URL": database_url})
    from app.main import serve
    from app.settings import Settings

    serve(Settings.from_environment())


@_is_program
def drain(
    once: Annotated[bool, typer.Option("--once", help="Publish everything pending, then exit.")] = False,
    landing_zone: LandingZone = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    print_path: Annotated[
        bool, typer.Option("--print-path", help="Print the path of the file for spark-submit, and exit.")
    ] = False,
) -> None:
    """Run the drain alone. Requires the extra `drain` and Java 17 or newer; the extra `embedded` has one.

    Variables: MIRRORGATE_DATABASE_URL, MIRRORGATE_LANDING_ZONE, AZURE_* for OneLake. `mirrorgate settings` lists all.
    On a Spark cluster: `spark-submit … $(mirrorgate drain --print-path)`.
    """
    if print_path:
        found = find_spec("spark_jobs.drain")
        typer.echo(found and found.origin)
        return
    require_extras("drain", "drain")
    _set_variables({"LANDING_ZONE": landing_zone, "DATABASE_URL": database_url})
    from app.local.embedded import find_java
    from app.settings import Settings
    from app.staging.connection.database import check_database_url
    from app.zone_settings import zone_address

    settings = Settings.from_environment()
    check_database_url(settings.require_database_url())
    zone_address(settings).check()
    environment = {**os.environ, "JAVA_HOME": str(find_java(data_dir, os.environ))}
    command = [sys.executable, "-m", "spark_jobs.drain", *(["--once"] if once else [])]
    os.execve(command[0], command, environment)


@_is_program
def emulator(
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Folder that keeps databases and files for the next start. Default: a temporary one, removed.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 picks a free one.")] = 8490,
    faults: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            metavar="NAME=VALUE",
            help="What goes wrong from the start: throttle=0.1, lost_answer=0.05, expired_token=100, "
            "paused_capacity=true, slow_replication=30. Repeatable.",
            show_default=False,
        ),
    ] = None,
    retention_days: Annotated[float, typer.Option(min=0, help="Days until applied files are deleted.")] = 7.0,
    as_json: AsJson = False,
) -> None:
    """Run Fabric open mirroring on this machine: OneLake, REST API, Delta tables, SQL. Requires the extra `emulator`.

    Prints its addresses, a token, and the variables with which a program for Fabric runs against it unchanged; with
    --json as one line. Ctrl-C stops it. One port answers everything, with TLS or plain HTTP, and is a proxy for
    Fabric's hosts. docs/operate/emulator.md says where it differs from Fabric.

    For example:

        mirrorgate emulator --directory /tmp/fabric --fault throttle=0.1
    """
    require_extras("emulator", "emulator")
    from pydantic import ValidationError

    from app.emulator.emulator import running
    from app.emulator.faults import FaultRates, Faults

    try:
        rates = FaultRates.model_validate(named_values("--fault", faults or []))
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        raise Misconfigured(
            Code.BAD_SETTING,
            f"--fault {where}: {wrong['msg']}",
            remedy=f"The faults are {', '.join(FaultRates.model_fields)}. A share is a number from 0 to 1.",
        ) from error
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with (
        suppress(KeyboardInterrupt),
        running(directory, port=port, faults=Faults(rates=rates), retention_seconds=retention_days * 86_400) as started,
    ):
        found = started.addresses
        if as_json:
            sys.stdout.write(f"{encoded(asdict(found))}\n")
        else:
            kept = "kept" if directory else "removed at the end"
            say(f"OneLake       {found.onelake}")
            say(f"Fabric REST   {found.fabric}")
            say(f"SQL           {found.sql}")
            say(f"token         {found.token}")
            say(f"landing zone  {found.landing_zone}")
            say(f"certificate   {found.certificate}")
            say(f"files         {found.directory} ({kept})\n")
            for name, value in found.environment.items():
                sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
            say("\nready. Paste these lines into the shell of a publisher. Ctrl-C stops the emulator.")
        sys.stdout.flush()
        while True:
            time.sleep(_SLICE_SECONDS)  # a slice, because a signal to another thread does not end this wait


@_is_program
def migrate(
    check: Annotated[
        bool, typer.Option("--check", help="Only report the revisions of the database and of this program.")
    ] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Migrate the database of MIRRORGATE_DATABASE_URL to the schema of this program. Safe to repeat."""
    require_extras("migrate", "server")
    from app.settings import Settings
    from app.staging.connection.schema_revision import check_revisions
    from app.staging.connection.schema_revision import migrate as run_migrations

    url = Settings.from_environment(database_url=database_url).require_database_url()
    if check:
        say(check_revisions(url), to=ERRORS)
        return
    before, after = run_migrations(url)
    if before is None:
        said = f"created {after}"
    else:
        said = f"{before} -> {after}" if before != after else f"up to date: {after}"
    say(f"database: {said}", to=ERRORS)


def list_settings() -> None:
    """List every MIRRORGATE_* variable by subject, with its default and meaning."""
    require_extras("settings", "server")
    from app.settings import PREFIX
    from app.settings.model import SUBJECTS

    for number, (subject, settings) in enumerate(SUBJECTS.items()):
        typer.echo(f"{chr(10) if number else ''}{subject}\n")
        for name, field in settings.model_fields.items():
            default = "" if field.default is None else f" ({getattr(field.default, 'value', field.default)})"
            typer.echo(f"{PREFIX}{name.upper()}{default}\n    {' '.join((field.description or '').split())}")


def _set_variables(given: Mapping[str, Any]) -> None:
    """Set the variables of given options, for this process and those it starts."""
    from app.settings import PREFIX

    os.environ.update({f"{PREFIX}{name}": str(value) for name, value in given.items() if value is not None})
