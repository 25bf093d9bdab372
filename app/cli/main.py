"""The command line: run the gateway or its parts, and look after tables and keys of a running one."""

import sys
from importlib.metadata import version
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console

from app.cli.common import status, tables
from app.cli.dead_letters import dead_letters
from app.cli.doctor import doctor
from app.cli.keys import audit, keys
from app.cli.landing_zone import landing_zone
from app.cli.processes import api, drain, list_settings, migrate, up
from app.cli.send import send
from app.cli.tables import manifest, operations, release, verify  # noqa: F401  # they add their commands to `tables`
from app.errors import Code, MirrorgateError
from app.errors.catalogue import CATALOGUE

app = typer.Typer(
    name="mirrorgate",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.add_typer(keys, name="keys")
app.add_typer(tables, name="tables")
app.add_typer(landing_zone, name="landing-zone")
app.command()(audit)
app.add_typer(dead_letters, name="dead-letters")
app.command()(doctor)
app.command()(send)
app.command()(status)
app.command()(up)
app.command()(api)
app.command()(drain)
app.command()(migrate)
app.command("settings")(list_settings)

_errors = Console(stderr=True)

_VERSION_FLAGS: Final = ("--version", "-V")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mirrorgate {version('mirrorgate')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option(*_VERSION_FLAGS, help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Ingestion gateway for Microsoft Fabric open mirroring: change batches in, ordered Parquet files out."""


_REMEDIES: Final = {
    Code.UNKNOWN_TABLE: "`mirrorgate tables list` shows the tables, `mirrorgate tables register` makes one.",
}
"""Where the API's remedy names a call, and a command does it."""


def _remedy(error: MirrorgateError) -> str:
    """What to do next; on the command line nobody sends a request again."""
    if error.code is Code.DATABASE_UNAVAILABLE:
        reason = str(error.__cause__ or "").strip().splitlines()[:1]
        return "Check that Postgres runs and that MIRRORGATE_DATABASE_URL is its address. " + "".join(reason)
    is_of_the_catalogue = error.remedy == CATALOGUE[error.code].remedy
    return _REMEDIES.get(error.code, error.remedy) if is_of_the_catalogue else error.remedy


def _print_error(error: MirrorgateError) -> None:
    """Print what is wrong, each thing once, with its place, and what to do."""
    problems = getattr(error, "errors", [])
    if not problems or problems[0]["detail"] != error.detail:
        problems = [{"code": error.code, "detail": error.detail}, *problems]
    for number, problem in enumerate(problems):
        _errors.print(f"{'     ' if number else '[red]error[/red]'} {problem['code']}: ", end="")
        where = (
            f"message {problem['index']} {problem.get('pointer') or ''}".strip() + ": " if "index" in problem else ""
        )
        _errors.print(where + problem["detail"], markup=False, highlight=False, soft_wrap=True)
    _errors.print(f"remedy: {_remedy(error)}", markup=False, highlight=False, soft_wrap=True)


def main() -> NoReturn:
    """Run a command; a deliberate error prints what is wrong and what to do, and exits 1 unless it says otherwise."""
    try:
        app()
    except MirrorgateError as error:
        _print_error(error)
        sys.exit(getattr(error, "exit_status", 1))
    sys.exit(0)


if __name__ == "__main__":
    main()
