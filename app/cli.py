"""The command line: run the gateway or its parts, and look after tables and keys of a running one."""

import os
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from app import cli_declare, cli_operate  # noqa: F401  # they add their commands to `tables`
from app.cli_access import audit, keys
from app.cli_dead_letters import dead_letters
from app.cli_doctor import doctor
from app.cli_remote import status, tables
from app.cli_send import send
from app.errors import Code, MirrorgateError
from app.settings import Settings
from app.telemetry import configure_logging

app = typer.Typer(
    name="mirrorgate",
    help="Ingestion gateway for Microsoft Fabric open mirroring: change batches in, ordered Parquet files out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.add_typer(keys, name="keys")
app.add_typer(tables, name="tables")
app.command()(audit)
app.add_typer(dead_letters, name="dead-letters")
app.command()(doctor)
app.command()(send)
app.command()(status)

_errors = Console(stderr=True)

DataDir = Annotated[Path, typer.Option(help="Postgres data, keys and logs of this gateway live here.")]


@app.command()
def up(
    data_dir: DataDir = Path(".mirrorgate"),
    port: Annotated[int | None, typer.Option(help="Port of the API; 0 picks a free one.")] = None,
    landing_zone: Annotated[
        str | None,
        typer.Option(help="Folder or OneLake address to publish into; unset: `landing-zone` below the data directory."),
    ] = None,
) -> None:
    """Run the whole gateway on this machine: a private Postgres, the API and the drain.

    Prints `ready http://127.0.0.1:<port>` when it serves. Ctrl-C stops everything; the next start carries on.
    """
    from app.up import up as run_up

    settings = Settings.from_environment(port=port)
    configure_logging(settings)
    run_up(settings, data_dir, landing_zone, _errors, environment=os.environ)


@app.command()
def api() -> None:
    """Run the API alone, against MIRRORGATE_DATABASE_URL."""
    from app.main import serve

    serve(Settings.from_environment())


@app.command()
def drain(
    once: Annotated[bool, typer.Option("--once", help="Publish what is pending now, then exit.")] = False,
    data_dir: DataDir = Path(".mirrorgate"),
) -> None:
    """Run the drain alone, against MIRRORGATE_DATABASE_URL and MIRRORGATE_LANDING_ZONE.

    It needs Java 17 or newer: the machine's, or the one that the extra `embedded` brings. On a Spark cluster use
    `spark-submit … spark_jobs/drain.py` instead.
    """
    from app.embedded import find_java

    environment = {**os.environ, "JAVA_HOME": str(find_java(data_dir, os.environ))}
    command = [sys.executable, "-m", "spark_jobs.drain", *(["--once"] if once else [])]
    os.execve(command[0], command, environment)


@app.command()
def migrate(
    check: Annotated[bool, typer.Option("--check", help="Only say what the database and this program need.")] = False,
) -> None:
    """Bring the database of MIRRORGATE_DATABASE_URL to this program's schema; safe to repeat."""
    from app.staging.schema_revision import check_revisions
    from app.staging.schema_revision import migrate as run_migrations

    url = Settings.from_environment().require_database_url()
    if check:
        _errors.print(check_revisions(url), highlight=False, soft_wrap=True)
        return
    run_migrations(url)
    _errors.print("the database is up to date")


def _remedy(error: MirrorgateError) -> str:
    """What to do next; on the command line nobody sends a request again."""
    if error.code is not Code.DATABASE_UNAVAILABLE:
        return error.remedy
    reason = str(error.__cause__ or "").strip().splitlines()[:1]
    return "Check that Postgres runs and that MIRRORGATE_DATABASE_URL is its address. " + "".join(reason)


def main() -> NoReturn:
    """Run a command; a deliberate error prints what is wrong and what to do, and exits 1 unless it says otherwise."""
    try:
        app()
    except MirrorgateError as error:
        _errors.print(f"[red]error[/red] {error.code}: ", end="")
        _errors.print(error.detail, markup=False, highlight=False, soft_wrap=True)
        for problem in getattr(error, "errors", []):
            where = f"message {problem['index']} {problem.get('pointer', '')}".strip() if "index" in problem else ""
            _errors.print(f"  {where} {problem['code']}: {problem['detail']}", markup=False, soft_wrap=True)
        _errors.print(f"remedy: {_remedy(error)}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(getattr(error, "exit_status", 1))
    sys.exit(0)


if __name__ == "__main__":
    main()
