"""The command line `mirrorgate`: every command by its name, and how errors are printed."""

import sys
from typing import Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

from app.cli import administration, fabric, messages, processes
from app.cli.bridge.kafka import kafka as bridge_kafka
from app.cli.bridge.objects import objects as bridge_objects
from app.cli.console import ERRORS, say
from app.cli.doctor import doctor
from app.cli.mirror import inspection, upkeep
from app.cli.mirror import rows as mirrored_rows
from app.cli.send.command import send
from app.cli.tables import check, files, images, manifest_commands, operations, show
from app.cli.verify import verify
from app.errors import Code, MirrorgateError
from app.errors.exceptions import command_remedy


class GroupWithHints(TyperGroup):
    """A group of commands. Its error about an unknown command names the subgroup that has the command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the first argument names; fail with a hint if it belongs to a group."""
        wanted = args[0]
        if wanted not in self.commands:
            groups = {name: group for name, group in self.commands.items() if isinstance(group, TyperGroup)}
            places = [repr(f"{name} {wanted}") for name, group in groups.items() if wanted in group.commands]
            if places:
                ctx.fail(f"No such command {wanted!r}. Did you mean {' or '.join(places)}?")
        return super().resolve_command(ctx, args)


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

app.command("status", rich_help_panel=_TO_USE)(show.status)
app.command("send", rich_help_panel=_TO_USE)(send)
app.command("verify", rich_help_panel=_TO_USE)(verify)

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
tables.command("rebuild")(images.rebuild)
tables.command("pause")(operations.pause)
tables.command("resume")(operations.resume)
tables.command("flush")(operations.flush)
tables.command("repair")(operations.repair)
tables.command("release")(operations.release)
tables.command("loads")(operations.list_loads)
tables.command("abort-load")(operations.abort_load)
tables.command("verify")(files.verify)
tables.command("check")(check.check)
tables.command("backfill-images")(images.backfill_images)
tables.command("export-rows")(files.export_rows)
app.add_typer(tables, name="tables", rich_help_panel=_TO_USE)

letters = typer.Typer(help="List, read, replay and discard rejected messages that tables keep.", no_args_is_help=True)
letters.command("list")(messages.list_letters)
letters.command("show")(messages.show_letter)
letters.command("replay")(messages.replay)
letters.command("discard")(messages.discard)
app.add_typer(letters, name="dead-letters", rich_help_panel=_TO_USE)

alert_commands = typer.Typer(help="Try the webhook for alerts.", no_args_is_help=True)
alert_commands.command("test")(administration.test_alerts)
app.add_typer(alert_commands, name="alerts", rich_help_panel=_TO_ADMINISTER)

layouts = typer.Typer(help="Store, list, show and delete layouts of Replicate messages.", no_args_is_help=True)
layouts.command("list")(messages.list_layouts)
layouts.command("show")(messages.show_layout)
layouts.command("put")(messages.put_layout)
layouts.command("delete")(messages.delete_layout)
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
mirror.command("run")(upkeep.run)
mirror.command("status")(inspection.mirror_status)
mirror.command("history")(inspection.history)
mirror.command("diff")(mirrored_rows.diff)
mirror.command("query")(mirrored_rows.query)
mirror.command("health")(inspection.health)
mirror.command("optimize")(upkeep.optimize)
mirror.command("vacuum")(upkeep.vacuum)
mirror.command("pin")(upkeep.pin)
mirror.command("unpin")(upkeep.unpin)
mirror.command("pins")(upkeep.pins)
app.add_typer(mirror, name="mirror", rich_help_panel=_TO_USE)

fabric_commands = typer.Typer(
    help="Create, start, stop and examine the mirrored database in Microsoft Fabric that reads the landing zone.",
    no_args_is_help=True,
)
fabric_commands.command("create")(fabric.create)
fabric_commands.command("update")(fabric.update)
fabric_commands.command("start")(fabric.start)
fabric_commands.command("stop")(fabric.stop)
fabric_commands.command("status")(fabric.status)
fabric_commands.command("refresh")(fabric.refresh)
fabric_commands.command("export")(fabric.export)
fabric_commands.command("doctor")(fabric.doctor)
app.add_typer(fabric_commands, name="fabric", rich_help_panel=_TO_RUN)

key_commands = typer.Typer(help="Create, list, rotate, limit and delete API keys.", no_args_is_help=True)
key_commands.command("create")(administration.create_key)
key_commands.command("generate")(administration.generate_key)
key_commands.command("list")(administration.list_keys)
key_commands.command("rename")(administration.rename_key)
key_commands.command("rotate")(administration.rotate_key)
key_commands.command("limit")(administration.limit_key)
key_commands.command("delete")(administration.delete_key)
app.add_typer(key_commands, name="keys", rich_help_panel=_TO_ADMINISTER)
app.command("audit", rich_help_panel=_TO_ADMINISTER)(administration.audit)

zone = typer.Typer(help="Show or move the landing zone that the database publishes into.", no_args_is_help=True)
zone.command("show")(administration.show_zone)
zone.command("move")(administration.move_zone)
app.add_typer(zone, name="landing-zone", rich_help_panel=_TO_ADMINISTER)


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
