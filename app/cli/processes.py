"""Commands that run the gateway or a part of it: `up`, `api`, `drain`, `migrate`; and `settings`, which they read."""

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from app.extras import require_extras

_HOME: Final = Path(".mirrorgate")
_INTERRUPTED: Final = 130
_errors = Console(stderr=True)

DataDir = Annotated[Path, typer.Option(help="Postgres data, keys and logs of this gateway live here.")]
Host = Annotated[
    str | None, typer.Option(help="Address to listen on; unset: MIRRORGATE_HOST, else 127.0.0.1.", show_default=False)
]
Port = Annotated[
    int | None,
    typer.Option(help="Port of the API; 0 picks a free one. Unset: MIRRORGATE_PORT, else 8480.", show_default=False),
]
LandingZone = Annotated[
    str | None,
    typer.Option(help="Folder or OneLake address to publish into; unset: MIRRORGATE_LANDING_ZONE.", show_default=False),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        help="postgresql://… of the gateway's database; unset: MIRRORGATE_DATABASE_URL, which keeps a password out of "
        "the list of processes.",
        show_default=False,
    ),
]


def up(
    data_dir: DataDir = _HOME,
    host: Host = None,
    port: Port = None,
    landing_zone: Annotated[
        str | None,
        typer.Option(
            help="Folder or OneLake address to publish into; unset: MIRRORGATE_LANDING_ZONE, else `landing-zone` below "
            "the data directory.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run the whole gateway on this machine: a private Postgres, the API and the drain.

    Prints `ready http://127.0.0.1:<port>` when it serves. Ctrl-C stops everything; the next start carries on.
    `mirrorgate settings` lists the variables that change what it does; it needs none.
    """
    try:
        _up(data_dir, host, port, landing_zone)
    except KeyboardInterrupt:  # while it still imports; later `up` ends by itself, with status 0
        _errors.print("stopped")
        raise typer.Exit(_INTERRUPTED) from None


def _up(data_dir: Path, host: str | None, port: int | None, landing_zone: str | None) -> None:
    require_extras("up", "api", "drain")
    from app.local.up import configure_up_logging
    from app.local.up import up as run_up
    from app.settings import Settings

    settings = Settings.from_environment(host=host, port=port)
    configure_up_logging(settings, data_dir, _errors)
    run_up(settings, data_dir, landing_zone, _errors, environment=os.environ)


def api(host: Host = None, port: Port = None, database_url: DatabaseUrl = None) -> None:
    """Run the API alone. Needs the extra `api`, a database and a key.

    Variables: MIRRORGATE_DATABASE_URL; MIRRORGATE_ADMIN_KEY until a key is stored (`mirrorgate keys generate`);
    MIRRORGATE_API_PROCESSES for more than one process. `mirrorgate settings` lists all.
    """
    require_extras("api", "api")
    _set_variables({"HOST": host, "PORT": port, "DATABASE_URL": database_url})
    from app.main import serve
    from app.settings import Settings

    serve(Settings.from_environment())


def drain(
    once: Annotated[bool, typer.Option("--once", help="Publish what is pending now, then exit.")] = False,
    landing_zone: LandingZone = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDir = _HOME,
    print_path: Annotated[
        bool, typer.Option("--print-path", help="Print the file to give to spark-submit, and exit.")
    ] = False,
) -> None:
    """Run the drain alone. Needs the extra `drain` and Java 17 or newer, the machine's or that of the extra `embedded`.

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


def migrate(
    check: Annotated[bool, typer.Option("--check", help="Only say what the database and this program need.")] = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Bring the database of MIRRORGATE_DATABASE_URL to this program's schema; safe to repeat."""
    require_extras("migrate", "server")
    from app.settings import Settings
    from app.staging.connection.schema_revision import check_revisions
    from app.staging.connection.schema_revision import migrate as run_migrations

    url = Settings.from_environment(database_url=database_url).require_database_url()
    if check:
        _errors.print(check_revisions(url), highlight=False, soft_wrap=True)
        return
    before, after = run_migrations(url)
    if before is None:
        said = f"created {after}"
    else:
        said = f"{before} -> {after}" if before != after else f"up to date: {after}"
    _errors.print(f"database: {said}", highlight=False)


def list_settings() -> None:
    """List every MIRRORGATE_* variable by subject, with its default and meaning."""
    require_extras("settings", "server")
    from app.settings import PREFIX
    from app.settings.model import SUBJECTS

    for number, (subject, settings) in enumerate(SUBJECTS.items()):
        typer.echo(f"{chr(10) if number else ''}{subject}\n")
        for name, field in settings.model_fields.items():
            default = "" if field.default is None else f" ({getattr(field.default, 'value', field.default)})"
            typer.echo(f"{PREFIX}{name.upper()}{default}\n    {field.description}")


def _set_variables(given: Mapping[str, Any]) -> None:
    """Make options settings of this process and of those that it starts."""
    from app.settings import PREFIX

    os.environ.update({f"{PREFIX}{name}": str(value) for name, value in given.items() if value is not None})
