"""Commands that read or write files: `tables verify` compares a landing zone, `export-rows` writes rows as Parquet."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.extras import require_extras
from mirrorgate.cli.console import print_json, say, working
from mirrorgate.cli.options import DEFAULT_DATA_DIR, AsJson, LandingZone, LocalDataDir, TableName
from mirrorgate.errors import Code, RejectedInput

if TYPE_CHECKING:
    from app.checks.landing_zone import Verified
    from app.domain.model.table import Table
    from app.staging.connection.database import Engine


def verify(
    table: Annotated[
        str | None, typer.Argument(help="The table: `name` or `schema.name`. Leave it out with --all.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Verify every table.")] = False,
    as_json: AsJson = False,
    landing_zone: LandingZone = None,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Compare published files in the landing zone with the ledger: size and SHA-256. Exit 1 if any file differs.

    The command reads the database and the landing zone directly, as a drain does, and changes nothing. Files that
    mirroring has consumed are compared as long as mirroring keeps them; files it has removed since are only counted.
    """
    require_extras("tables verify", "server")
    from app.checks.landing_zone import files_to_compare, require_own_zone, verify_table
    from app.cli.direct import open_database_and_zone

    if every == (table is not None):
        raise typer.BadParameter("name one table, or give --all")
    with open_database_and_zone(landing_zone, data_dir) as (engine, address):
        require_own_zone(engine, address)
        chosen = _chosen(engine, table)
        verified = []
        with working("comparing", steps=files_to_compare(engine, chosen), quiet=as_json) as advance:
            for one in chosen:
                advance(str(one.name))
                verified.append(verify_table(engine, address, one, partial(advance, str(one.name), done=1)))
    if as_json:
        print_json([one.to_json() for one in verified])
    else:
        for result in verified:
            _print_verified(result)
    if any(one.report is not None and one.report.differences for one in verified):
        raise typer.Exit(1)


def _chosen(engine: "Engine", table: str | None) -> "list[Table]":
    """Return the tables to compare. A table that is being dropped has nothing to compare."""
    from app.domain.model.names import TableName
    from app.domain.model.table import TableState
    from app.staging.connection.database import translated_errors
    from app.staging.tables.registry import find_table, list_tables
    from mirrorgate.errors import Code, RejectedInput

    with translated_errors(), engine.begin() as connection:
        if table is None:
            return [one for one in list_tables(connection) if one.state is not TableState.DROPPING]
        found = find_table(connection, TableName.parse(table))
    if found is None:
        raise RejectedInput(
            Code.UNKNOWN_TABLE, f"there is no table {table}", remedy="`mirrorgate tables list` shows all tables."
        )
    return [found]


def _print_verified(verified: "Verified") -> None:
    report = verified.report
    if report is None:
        line = "skipped: the table is being dropped or recreated"
    else:
        line = f"{report.compared} files compared, {report.removed} removed by mirroring"
        if report.beyond_history:
            line += f", {report.beyond_history} older than the ledger's history"
        line += f", {len(report.differences)} differences" if report.differences else ", no difference"
    say(f"{verified.table.name}: {line}")
    for one in report.differences if report is not None else ():
        say(f"  {one.problem} {one.path}: {one.detail}")


def export_rows(
    table: TableName,
    to: Annotated[
        Path, typer.Option("--to", help="The file to write, or a folder, in which it is named after the table.")
    ],
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Write all present rows of a table that keeps row images into one Parquet file.

    The rows are those of one moment; changes continue meanwhile. The command reads the database directly. An existing
    file is replaced when the new one is complete.

    For example:

        mirrorgate tables export-rows sales.orders --to orders.parquet
    """
    require_extras("tables export-rows", "server")
    from app.cli.direct import open_database
    from app.cli.tables.table_rows import export_rows as write_rows
    from app.cli.tables.table_rows import find_exportable
    from app.domain.model import names

    with open_database(data_dir) as engine:
        found, rows = find_exportable(engine, names.TableName.parse(table))
        with working(str(found.name), steps=rows, quiet=as_json) as advance:
            try:
                written = write_rows(engine, found, to, lambda more: advance(str(found.name), done=more))
            except OSError as error:
                detail = f"{to} cannot be written: {error.strerror or error}"
                remedy = "Name a file in a folder that exists and has room."
                raise RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy) from error
    if as_json:
        told = {"file": str(written.file), "rows": written.rows, "bytes": written.bytes, "sequence": written.sequence}
        print_json(told)
    else:
        say(f"{written.rows:,} rows, {written.bytes:,} bytes, as of batch {written.sequence}: {written.file}")
