"""`mirrorgate fabric status`: what Fabric says about the mirrored database and its tables."""

import json
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.console import OUTPUT
from app.cli.fabric.options import DatabaseOption, WorkspaceOption, fabric_settings, opened
from app.cli.options import AsJson

if TYPE_CHECKING:
    from rich.console import RenderableType

    from app.fabric import DatabaseStatus, FabricClient, TableMirroring


def status(
    workspace: WorkspaceOption = None,
    database: DatabaseOption = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Seconds between two looks.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show the state of the mirrored database, and of each table while it runs. Exit 1 if it does not run.

    Exit 1 also if a table has failed. Counts are Fabric's, and cumulative. The state Paused means that the capacity
    was paused or a table stayed empty; the remedy is printed with it. With --watch and --json: one object a line.

    Example: `mirrorgate fabric status --watch`
    """
    settings = fabric_settings("status", workspace, database)
    with opened(settings) as client:
        if watch:
            _watch(client, interval, as_json=as_json)
            return
        found, tables = _read(client)
    if as_json:
        typer.echo(json.dumps(_to_json(found, tables)))
    else:
        OUTPUT.print(_rendered(found, tables), soft_wrap=True)
    if not found.state.is_running or any(table.has_failed for table in tables):
        raise typer.Exit(1)


def _read(client: "FabricClient") -> "tuple[DatabaseStatus, list[TableMirroring]]":
    found = client.database_status()
    return found, client.tables_status() if found.state.is_running else []


def _watch(client: "FabricClient", interval: float, *, as_json: bool) -> None:
    """Show the state until Ctrl-C: in place in a terminal, else when it has changed."""
    from rich.live import Live

    in_place = not as_json and sys.stdout.isatty()
    last: object = None
    with Live(console=OUTPUT, auto_refresh=False) if in_place else nullcontext() as live:
        while True:
            now = _read(client)
            if live is not None:
                live.update(_rendered(*now), refresh=True)
            elif as_json:
                sys.stdout.write(json.dumps(_to_json(*now)) + "\n")
                sys.stdout.flush()
            elif now != last:
                OUTPUT.print(_rendered(*now), soft_wrap=True)
            last = now
            time.sleep(interval)  # Fabric's API has no notifications; Ctrl-C ends the pause


def _to_json(found: "DatabaseStatus", tables: "list[TableMirroring]") -> dict[str, Any]:
    def shown(table: "TableMirroring") -> dict[str, Any]:
        last = table.last_sync.isoformat() if table.last_sync else None
        return asdict(table) | {"last_sync": last, "failed": table.has_failed}

    return {**asdict(found), "tables": [shown(table) for table in tables]}


def _rendered(found: "DatabaseStatus", tables: "list[TableMirroring]") -> "RenderableType":
    """Lay out the state, the tables, and below them each trouble with its remedy."""
    from rich.console import Group
    from rich.text import Text

    from app.cli.output import Grid
    from app.domain.fabric.remedies import STATES, remedy_for, table_trouble

    known = STATES[found.state]
    style = "green" if found.state.is_running else "yellow" if found.state.is_passing else "red"
    text = Text.assemble((found.raw or "no state", style), f": {known.meaning}")
    if found.error:
        text.append(f"\n  {found.error} ({found.error.whose})")
    if known.remedy:
        text.append(f"\n  remedy: {known.remedy}")
    below: list[RenderableType] = [text]
    if tables:
        text.append("\n")
        numbers = ("rows", "bytes")
        grid = Grid(("table", "state", *numbers, "last sync"), right=numbers)
        for table in tables:
            counts = (_count(table.processed_rows), _count(table.processed_bytes))
            style = "red" if table.has_failed else ""
            grid.add(_name(table), table.state, *counts, _ago(table.last_sync), style=style)
        below.append(grid.fitted(OUTPUT.width))
    for table in tables:
        if trouble := table_trouble(table):
            remedy = remedy_for(table.error.whose if table.error else "unknown")
            below.append(Text.assemble((f"\n{_name(table)}: {trouble}", "red"), f"\n  remedy: {remedy}"))
    return Group(*below)


def _name(table: "TableMirroring") -> str:
    return f"{table.schema}.{table.name}" if table.schema else table.name


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _ago(moment: datetime | None) -> str:
    if moment is None:
        return "-"
    seconds = max(0, round((datetime.now(UTC) - moment).total_seconds()))
    days, rest = divmod(seconds, 86_400)
    if days:
        return f"{days:,} d ago"
    hours, rest = divmod(rest, 3_600)
    return f"{hours} h {rest // 60} min ago" if hours else f"{rest // 60} min {rest % 60} s ago"
