"""Commands that run the gateway or a part of it (`up`, `api`, `drain`), `migrate`, and `settings`."""

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from app.extras import require_extras
from mirrorgate.cli.console import ERRORS, INTERRUPTED, is_program, say
from mirrorgate.cli.options import DEFAULT_DATA_DIR, PrintPath

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


@is_program
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


@is_program
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


@is_program
def drain(
    once: Annotated[bool, typer.Option("--once", help="Publish everything pending, then exit.")] = False,
    landing_zone: LandingZone = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    print_path: PrintPath = False,
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
    from app.staging.connection.database import parse_database_url
    from app.zone_settings import zone_address

    settings = Settings.from_environment()
    parse_database_url(settings.require_database_url())
    zone_address(settings).check()
    environment = {**os.environ, "JAVA_HOME": str(find_java(data_dir, os.environ))}
    command = [sys.executable, "-m", "spark_jobs.drain", *(["--once"] if once else [])]
    os.execve(command[0], command, environment)


@is_program
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
