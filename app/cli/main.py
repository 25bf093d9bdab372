"""The gateway's commands of `mirrorgate`, every one by its name. The entry point `mirrorgate.commands` adds them."""

from typing import Final

import typer

from app.cli import administration, fabric, fabric_setup, messages, processes
from app.cli.doctor import doctor
from app.cli.mirror import inspection, upkeep
from app.cli.mirror import rows as mirrored_rows
from app.cli.tables import check, images, operations, show
from mirrorgate.cli.options import TO_USE

_TO_RUN: Final = "Run the gateway"
_TO_ADMINISTER: Final = "Administration"

tables = typer.Typer(help="Register, inspect and operate tables.", no_args_is_help=True)
tables.command("list")(show.list_tables)
tables.command("show")(show.show_table)
tables.command("schema")(show.show_schema)
tables.command("files")(show.show_files)
tables.command("chain")(show.show_chain)
tables.command("events")(operations.show_events)
tables.command("register")(show.register_table)
tables.command("apply")(operations.apply)
tables.command("export")(operations.export)
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
tables.command("verify")(check.verify)
tables.command("check")(check.check)
tables.command("backfill-images")(images.backfill_images)
tables.command("export-rows")(check.export_rows)

letters = typer.Typer(help="List, read, replay and discard rejected messages that tables keep.", no_args_is_help=True)
letters.command("list")(messages.list_letters)
letters.command("show")(messages.show_letter)
letters.command("replay")(messages.replay)
letters.command("discard")(messages.discard)

alert_commands = typer.Typer(help="Try the webhook for alerts.", no_args_is_help=True)
alert_commands.command("test")(administration.test_alerts)

layouts = typer.Typer(help="Store, list, show and delete layouts of Replicate messages.", no_args_is_help=True)
layouts.command("list")(messages.list_layouts)
layouts.command("show")(messages.show_layout)
layouts.command("put")(messages.put_layout)
layouts.command("delete")(messages.delete_layout)

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

fabric_commands = typer.Typer(
    help="Connect a gateway to Microsoft Fabric: create, start, stop, examine and delete the mirrored database that "
    "reads the landing zone. Begin with `init`.",
    no_args_is_help=True,
)
fabric_commands.command("init")(fabric_setup.init)
fabric_commands.command("create")(fabric_setup.create)
fabric_commands.command("update")(fabric.update)
fabric_commands.command("start")(fabric.start)
fabric_commands.command("stop")(fabric.stop)
fabric_commands.command("status")(fabric.status)
fabric_commands.command("refresh")(fabric.refresh)
fabric_commands.command("export")(fabric.export)
fabric_commands.command("doctor")(fabric.doctor)
fabric_commands.command("delete")(fabric_setup.delete)

key_commands = typer.Typer(help="Create, list, rotate, limit and delete API keys.", no_args_is_help=True)
key_commands.command("create")(administration.create_key)
key_commands.command("generate")(administration.generate_key)
key_commands.command("list")(administration.list_keys)
key_commands.command("rename")(administration.rename_key)
key_commands.command("rotate")(administration.rotate_key)
key_commands.command("limit")(administration.limit_key)
key_commands.command("delete")(administration.delete_key)

zone = typer.Typer(help="Show or move the landing zone that the database publishes into.", no_args_is_help=True)
zone.command("show")(administration.show_zone)
zone.command("move")(administration.move_zone)


def add_commands(root: typer.Typer) -> None:
    """Add the commands that run a gateway, and those that operate its tables."""
    root.command("up", rich_help_panel=_TO_RUN)(processes.up)
    root.command("api", rich_help_panel=_TO_RUN)(processes.api)
    root.command("drain", rich_help_panel=_TO_RUN)(processes.drain)
    root.command("migrate", rich_help_panel=_TO_RUN)(processes.migrate)
    root.command("settings", rich_help_panel=_TO_RUN)(processes.list_settings)
    root.command("doctor", rich_help_panel=_TO_RUN)(doctor)
    root.command("status", rich_help_panel=TO_USE)(show.status)
    root.add_typer(tables, name="tables", rich_help_panel=TO_USE)
    root.add_typer(letters, name="dead-letters", rich_help_panel=TO_USE)
    root.add_typer(alert_commands, name="alerts", rich_help_panel=_TO_ADMINISTER)
    root.add_typer(layouts, name="layouts", rich_help_panel=TO_USE)
    root.add_typer(mirror, name="mirror", rich_help_panel=TO_USE)
    root.add_typer(fabric_commands, name="fabric", rich_help_panel=_TO_RUN)
    root.add_typer(key_commands, name="keys", rich_help_panel=_TO_ADMINISTER)
    root.command("audit", rich_help_panel=_TO_ADMINISTER)(administration.audit)
    root.add_typer(zone, name="landing-zone", rich_help_panel=_TO_ADMINISTER)
