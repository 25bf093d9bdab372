"""The command line: run the gateway or its parts, and look after tables and keys of a running one."""

import sys
from importlib.metadata import version
from typing import Annotated, Final, NoReturn

import typer
from rich.console import Console

from app import cli_declare, cli_operate  # noqa: F401  # they add their commands to `tables`
from app.cli_access import audit, keys
from app.cli_dead_letters import dead_letters
from app.cli_doctor import doctor
from app.cli_parts import api, drain, list_settings, migrate, up
from app.cli_remote import status, tables
from app.cli_send import send
from app.errors import Code, MirrorgateError

app = typer.Typer(
    name="mirrorgate",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
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
