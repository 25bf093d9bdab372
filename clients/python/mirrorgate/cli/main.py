"""The command line `mirrorgate`: `send`, the commands that other packages add, and how errors are printed."""

import codecs
import errno
import json
import os
import sys
from importlib.metadata import entry_points
from io import TextIOWrapper
from typing import Annotated, Any, Final, NoReturn, cast

import typer
from typer.core import TyperGroup

from mirrorgate.cli.console import ERRORS, OUTPUT, print_json, say, working
from mirrorgate.cli.options import TO_USE, AsJson, Connection, TableName, with_connection
from mirrorgate.cli.send import send
from mirrorgate.errors import Code, MirrorgateError, RejectedInput
from mirrorgate.errors.exceptions import command_remedy
from mirrorgate.parameters import WAIT_SECONDS, Stage


@with_connection
def wait(
    connection: Connection,
    table: TableName,
    *,
    until: Annotated[
        Stage,
        typer.Option(
            help="published: in the landing zone; processed: read by Fabric; queryable: shown by queries of the SQL "
            "analytics endpoint."
        ),
    ] = Stage.PUBLISHED,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds after which the command gives up. 0: check once.")
    ] = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Wait until all that a table has accepted by now is published, processed by Fabric, or queryable.

    Run it after sending, before a query that needs the rows. Rows that are accepted during the wait do not prolong it.
    On a terminal a line shows how far the rows are. If something stops them (no drain runs, the table is paused or
    quarantined, mirroring is stopped in Fabric, the SQL endpoint cannot be refreshed), the command says so once, with
    the remedy, and continues: the rows advance after an operator acts.

    published takes seconds, processed some minutes. queryable needs `MIRRORGATE_FABRIC_REFRESH_SQL=true` at the drain,
    which then refreshes the SQL analytics endpoint after each synchronization.

    Exit status: 0 reached; 1 it cannot be reached (an unknown table, a gateway that does not publish to Fabric, a table
    that was recreated); 2 wrong usage; 3 not reached within --timeout, or no gateway answers; 130 stopped by Ctrl-C.

    For example:

        mirrorgate wait shop.orders --until queryable --timeout 900
    """
    from mirrorgate.stages import Obstacle, wait_until

    told: set[Obstacle] = set()
    with connection.client() as client, working(f"{table}: asking") as advance:

        def show(progress: str, obstacle: Obstacle | None) -> None:
            advance(f"{table}: {progress}")
            if obstacle is not None and obstacle not in told:
                told.add(obstacle)
                say(f"waiting: {obstacle}", to=ERRORS)
                sys.stderr.flush()

        status = wait_until(client, table, until, timeout=timeout, on_progress=show)
    if as_json:
        print_json({"table": status["table"], "until": until.value, "status": status})
    else:
        say(f"{status['table']}: {until.value} through batch {status['last_sequence']:,}")


COMMANDS: Final = "mirrorgate.commands"
"""Entry-point group of functions that add commands: each gets the Typer application."""


ELSEWHERE: Final = {
    **dict.fromkeys(("alerts", "api", "audit", "dead-letters", "doctor", "drain", "fabric"), "mirrorgate-gateway"),
    **dict.fromkeys(("keys", "landing-zone", "layouts", "migrate", "mirror", "settings"), "mirrorgate-gateway"),
    **dict.fromkeys(("status", "tables", "up"), "mirrorgate-gateway"),
    **dict.fromkeys(("certify", "emulator", "verify"), "mirrorgate-zone"),
    "bridge": "mirrorgate-bridge",
}
"""Commands that other distributions add, by the name that a user may try without them."""


class GroupWithHints(TyperGroup):
    """A group of commands. Its error about an unknown command names the package or the subgroup that has it."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the first argument names; fail with a hint if it belongs to a group."""
        wanted = args[0]
        if wanted not in self.commands:
            if wanted in ELSEWHERE:
                ctx.fail(f"The command {wanted!r} is in the package {ELSEWHERE[wanted]}, which is not installed.")
            groups = {name: group for name, group in self.commands.items() if isinstance(group, TyperGroup)}
            places = [repr(f"{name} {wanted}") for name, group in groups.items() if wanted in group.commands]
            if places:
                ctx.fail(f"No such command {wanted!r}. Did you mean {' or '.join(places)}?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="mirrorgate",
    cls=GroupWithHints,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("send", rich_help_panel=TO_USE)(send)
app.command("wait", rich_help_panel=TO_USE)(wait)
for _commands in sorted(entry_points(group=COMMANDS), key=lambda entry: entry.name):
    _commands.load()(app)


_VERSION_FLAGS: Final = ("--version", "-V")

_REMEDIES: Final = {
    Code.UNKNOWN_TABLE: "`mirrorgate tables list` shows the tables, `mirrorgate tables register` makes one.",
    Code.SOURCE_UNAVAILABLE: "Check the address, the network and the credentials of the source, then run the command "
    "again.",
}
"""Remedies of the command line, for codes whose own remedy names an API call or what a running bridge does."""


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"mirrorgate {version('mirrorgate')}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool,
        typer.Option(*_VERSION_FLAGS, help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Ingestion gateway for Microsoft Fabric open mirroring: change batches in, ordered Parquet files out.

    Start with `mirrorgate up`, then `mirrorgate tables register --help` and `mirrorgate send --help`.
    """


def main() -> NoReturn:
    """Run a command. A MirrorgateError prints what is wrong and what to do, and exits with its status, 1 by default."""
    codecs.register_error("escape", _escaped)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        cast("TextIOWrapper", stream).reconfigure(errors="escape")
    try:
        try:
            app()
        finally:
            OUTPUT.file.flush()
    except MirrorgateError as error:
        _print_error(error)
        sys.exit(getattr(error, "exit_status", 1))
    except UnicodeEncodeError:
        _print_error(
            RejectedInput(Code.BAD_REQUEST, "the command was given text that is not UTF-8", remedy="Write it in UTF-8.")
        )
        sys.exit(2)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EPIPE) or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it once more
        if error.errno != errno.EPIPE:
            detail = f"standard output cannot be written: {error.strerror}"
            _print_error(RejectedInput(Code.BAD_REQUEST, detail, remedy="Write to a file in a folder that has room."))
        sys.exit(1)
    sys.exit(0)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that a stream cannot encode with the escapes of JSON, which people can read, too."""
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def _print_error(error: MirrorgateError) -> None:
    """Print each problem once, with its position, and the remedy."""
    problems = getattr(error, "errors", [])
    if not problems or problems[0]["detail"] != error.detail:
        problems = [{"code": error.code, "detail": error.detail}, *problems]
    for number, problem in enumerate(problems):
        ERRORS.print(f"{'     ' if number else '[red]error[/red]'} {problem['code']}: ", end="")
        where = (
            f"message {problem['index']} {problem.get('pointer') or ''}".strip() + ": " if "index" in problem else ""
        )
        say(where + problem["detail"], to=ERRORS)
    say(f"remedy: {_remedy(error)}", to=ERRORS)


def _remedy(error: MirrorgateError) -> str:
    """Return the remedy in the words of the command line, where that of the code is about API calls."""
    is_of_the_code = error.remedy == error.code.remedy
    known = _REMEDIES.get(error.code) if is_of_the_code else None
    return known or command_remedy(error)


if __name__ == "__main__":
    main()
