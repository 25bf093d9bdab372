"""`mirrorgate tables verify`: compare the files that are still in the landing zone with the ledger."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from app.cli.common import tables
from app.extras import require_extras

if TYPE_CHECKING:
    from app.checks.verify_tables import Verified
    from app.domain.model.table import Table
    from app.staging.connection.database import Engine

_HOME: Final = Path(".mirrorgate")
_console = Console()
_progress = Console(stderr=True)


@tables.command("verify")
def verify(
    table: Annotated[str | None, typer.Argument(help="`name` or `schema.name`; none with --all.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every table.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
    zone: Annotated[
        str | None, typer.Option("--landing-zone", help="Folder or OneLake address; unset: MIRRORGATE_LANDING_ZONE.")
    ] = None,
    data_dir: Annotated[Path, typer.Option(help="Data directory of a local `mirrorgate up`, running or not.")] = _HOME,
) -> None:
    """Compare published files that are still there with the ledger: size and SHA-256. Exit 1 if anything differs.

    It reads the database and the landing zone itself, as a drain does, and changes nothing. Files that mirroring has
    consumed count where it keeps them; those that it has removed since are only counted.
    """
    require_extras("tables verify", "server")
    from app.checks.verify_tables import files_to_compare, require_own_zone, verify_table
    from app.cli.tables.direct import direct_parts  # it imports SQLAlchemy and Arrow

    if every == (table is not None):
        raise typer.BadParameter("name a table, or give --all")
    with direct_parts(zone, data_dir) as (engine, place):
        require_own_zone(engine, place)
        chosen = _chosen(engine, table)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        verified = []
        with Progress(*columns, console=_progress, transient=True, disable=as_json or not sys.stderr.isatty()) as bar:
            task = bar.add_task("comparing", total=files_to_compare(engine, chosen))
            for one in chosen:
                bar.update(task, description=str(one.name))
                verified.append(verify_table(engine, place, one, lambda: bar.advance(task)))
    if as_json:
        typer.echo(json.dumps([one.to_json() for one in verified]))
    else:
        for result in verified:
            _print(result)
    if any(one.report is not None and one.report.differences for one in verified):
        raise typer.Exit(1)


def _chosen(engine: "Engine", table: str | None) -> "list[Table]":
    """The tables to compare; one that is being dropped has nothing to compare."""
    from app.domain.model.names import TableName
    from app.domain.model.table import TableState
    from app.errors import Code, RejectedInput
    from app.staging.connection.database import translated_errors
    from app.staging.tables.registry import find_table, list_tables

    with translated_errors(), engine.begin() as connection:
        if table is None:
            return [one for one in list_tables(connection) if one.state is not TableState.DROPPING]
        found = find_table(connection, TableName.parse(table))
    if found is None:
        raise RejectedInput(Code.UNKNOWN_TABLE, f"no table {table}", remedy="`mirrorgate tables list` shows them.")
    return [found]


def _print(verified: "Verified") -> None:
    report = verified.report
    if report is None:
        line = "skipped: it is being dropped or recreated"
    else:
        line = f"{report.compared} files compared, {report.removed} removed by mirroring"
        if report.beyond_history:
            line += f", {report.beyond_history} older than the ledger's history"
        line += f", {len(report.differences)} differences" if report.differences else ", no difference"
    _console.print(f"{verified.table.name}: {line}", markup=False, highlight=False, soft_wrap=True)
    for one in report.differences if report is not None else ():
        _console.print(f"  {one.problem} {one.path}: {one.detail}", markup=False, highlight=False, soft_wrap=True)
