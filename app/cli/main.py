"""The command line `mirrorgate`: every command by its name, and how errors are printed."""

import sys
from typing import Annotated, Final, NoReturn

import typer

from app.cli import dead_letters, processes
from app.cli.administration import alerts, keys, landing_zone, mask_secret
from app.cli.administration.audit import audit
from app.cli.bridge.kafka import kafka as bridge_kafka
from app.cli.bridge.objects import objects as bridge_objects
from app.cli.console import ERRORS, say
from app.cli.doctor import doctor
from app.cli.fabric import create as fabric_create
from app.cli.fabric import lifecycle as fabric_lifecycle
from app.cli.fabric.doctor import doctor as fabric_doctor
from app.cli.fabric.status import status as fabric_status
from app.cli.layouts import commands as layout_commands
from app.cli.mirror import maintenance
from app.cli.mirror.difference import diff
from app.cli.mirror.health import health
from app.cli.mirror.history import history
from app.cli.mirror.query import query
from app.cli.mirror.run import run as run_mirror
from app.cli.mirror.status import mirror_status
from app.cli.misplaced_command import GroupWithHints
from app.cli.send.command import send
from app.cli.status import status
from app.cli.tables import (
    backfill_images,
    check,
    export_rows,
    loads,
    manifest_commands,
    operations,
    release,
    show,
    verify,
)
from app.cli.tables.rebuild import rebuild
from app.cli.verify.command import verify as verify_zone
from app.errors import Code, MirrorgateError
from app.errors.exceptions import command_remedy

_TO_RUN: Final = "Run the gateway"
_TO_USE: Final = "Tables and changes"
_TO_ADMINISTER: Final = "Administration"

app = typer.Typer(
    name="mirrorgate",
    cls=GroupWithHints,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("up", rich_help_panel=_TO_RUN)(processes.up)
app.command("api", rich_help_panel=_TO_RUN)(processes.api)
app.command("drain", rich_help_panel=_TO_RUN)(processes.drain)
app.command("migrate", rich_help_panel=_TO_RUN)(processes.migrate)
app.command("settings", rich_help_panel=_TO_RUN)(processes.list_settings)
app.command("doctor", rich_help_panel=_TO_RUN)(doctor)

app.command("status", rich_help_panel=_TO_USE)(status)
app.command("send", rich_help_panel=_TO_USE)(send)
app.command("verify", rich_help_panel=_TO_USE)(verify_zone)

tables = typer.Typer(help="Register, inspect and operate tables.", no_args_is_help=True)
tables.command("list")(show.list_tables)
tables.command("show")(show.show_table)
tables.command("schema")(show.show_schema)
tables.command("files")(show.show_files)
tables.command("chain")(show.show_chain)
tables.command("events")(operations.show_events)
tables.command("register")(show.register_table)
tables.command("apply")(manifest_commands.apply)
tables.command("export")(manifest_commands.export)
tables.command("drop")(operations.drop)
tables.command("recreate")(operations.recreate)
tables.command("rename")(operations.rename)
tables.command("rebuild")(rebuild)
tables.command("pause")(operations.pause)
tables.command("resume")(operations.resume)
tables.command("flush")(operations.flush)
tables.command("repair")(operations.repair)
tables.command("release")(release.release)
tables.command("loads")(loads.list_loads)
tables.command("abort-load")(loads.abort_load)
tables.command("verify")(verify.verify)
tables.command("check")(check.check)
tables.command("backfill-images")(backfill_images.backfill_images)
tables.command("export-rows")(export_rows.export_rows)
app.add_typer(tables, name="tables", rich_help_panel=_TO_USE)

letters = typer.Typer(help="List, read, replay and discard rejected messages that tables keep.", no_args_is_help=True)
letters.command("list")(dead_letters.list_letters)
letters.command("show")(dead_letters.show_letter)
letters.command("replay")(dead_letters.replay)
letters.command("discard")(dead_letters.discard)
app.add_typer(letters, name="dead-letters", rich_help_panel=_TO_USE)

alert_commands = typer.Typer(help="Try the webhook for alerts.", no_args_is_help=True)
alert_commands.command("test")(alerts.test)
app.add_typer(alert_commands, name="alerts", rich_help_panel=_TO_ADMINISTER)

layouts = typer.Typer(help="Store, list, show and delete layouts of Replicate messages.", no_args_is_help=True)
layouts.command("list")(layout_commands.list_layouts)
layouts.command("show")(layout_commands.show_layout)
layouts.command("put")(layout_commands.put_layout)
layouts.command("delete")(layout_commands.delete_layout)
app.add_typer(layouts, name="layouts", rich_help_panel=_TO_USE)

bridge = typer.Typer(
    help="Read messages from Kafka or object storage and post them to a gateway, each exactly once.",
    no_args_is_help=True,
)
bridge.command("kafka")(bridge_kafka)
bridge.command("objects")(bridge_objects)
app.add_typer(bridge, name="bridge", rich_help_panel=_TO_USE)

mirror = typer.Typer(
    help="Run the Delta mirror of a landing zone, and inspect, compare, query and maintain its tables.",
    no_args_is_help=True,
)
mirror.command("run")(run_mirror)
mirror.command("status")(mirror_status)
mirror.command("history")(history)
mirror.command("diff")(diff)
mirror.command("query")(query)
mirror.command("health")(health)
mirror.command("optimize")(maintenance.optimize)
mirror.command("vacuum")(maintenance.vacuum)
app.add_typer(mirror, name="mirror", rich_help_panel=_TO_USE)

fabric = typer.Typer(
    help="Create, start, stop and examine the mirrored database in Microsoft Fabric that reads the landing zone.",
    no_args_is_help=True,
)
fabric.command("create")(fabric_create.create)
fabric.command("start")(fabric_lifecycle.start)
fabric.command("stop")(fabric_lifecycle.stop)
fabric.command("status")(fabric_status)
fabric.command("doctor")(fabric_doctor)
app.add_typer(fabric, name="fabric", rich_help_panel=_TO_RUN)

key_commands = typer.Typer(help="Create, list, rotate, limit and delete API keys.", no_args_is_help=True)
key_commands.command("create")(keys.create_key)
key_commands.command("generate")(keys.generate_key)
key_commands.command("list")(keys.list_keys)
key_commands.command("rename")(keys.rename_key)
key_commands.command("rotate")(keys.rotate_key)
key_commands.command("limit")(keys.limit_key)
key_commands.command("delete")(keys.delete_key)
app.add_typer(key_commands, name="keys", rich_help_panel=_TO_ADMINISTER)
app.command("audit", rich_help_panel=_TO_ADMINISTER)(audit)

zone = typer.Typer(help="Show or move the landing zone that the database publishes into.", no_args_is_help=True)
zone.command("show")(landing_zone.show_zone)
zone.command("move")(landing_zone.move_zone)
app.add_typer(zone, name="landing-zone", rich_help_panel=_TO_ADMINISTER)

mask_secrets = typer.Typer(help="Change the secret of hashed columns.", no_args_is_help=True)
mask_secrets.command("change")(mask_secret.change)
app.add_typer(mask_secrets, name="mask-secret", rich_help_panel=_TO_ADMINISTER)

_VERSION_FLAGS: Final = ("--version", "-V")

_REMEDIES: Final = {
    Code.UNKNOWN_TABLE: "`mirrorgate tables list` shows the tables, `mirrorgate tables register` makes one.",
}
"""Remedies that name a command, for codes whose own remedy names an API call."""


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
    try:
        app()
    except MirrorgateError as error:
        _print_error(error)
        sys.exit(getattr(error, "exit_status", 1))
    sys.exit(0)


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
