"""`mirrorgate tables export-rows`: write the present rows of a table as a Parquet file."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.console import ERRORS, say
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir, TableName
from app.errors import Code, RejectedInput
from app.extras import require_extras


def export_rows(
    table: TableName,
    to: Annotated[
        Path, typer.Option("--to", help="The file to write, or a folder, in which it is named after the table.")
    ],
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Write all present rows of a table that keeps row images into one Parquet file.

    The rows are those of one moment; changes go on meanwhile. The command reads the database directly. An existing file
    is replaced when the new one is complete.

    Example: `mirrorgate tables export-rows sales.orders --to orders.parquet`
    """
    require_extras("tables export-rows", "server")
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from app.cli.direct import open_database
    from app.domain.model import names
    from app.exports.table_rows import export_rows as write_rows
    from app.exports.table_rows import find_exportable

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with open_database(data_dir) as engine:
        found, rows = find_exportable(engine, names.TableName.parse(table))
        with Progress(*columns, console=ERRORS, transient=True, disable=as_json or not sys.stderr.isatty()) as bar:
            task = bar.add_task(str(found.name), total=rows)
            try:
                written = write_rows(engine, found, to, lambda more: bar.advance(task, more))
            except OSError as error:
                detail = f"{to} cannot be written: {error.strerror or error}"
                remedy = "Name a file in a folder that exists and has room."
                raise RejectedInput(Code.BAD_REQUEST, detail, remedy=remedy) from error
    if as_json:
        told = {"file": str(written.file), "rows": written.rows, "bytes": written.bytes, "sequence": written.sequence}
        typer.echo(json.dumps(told))
    else:
        say(f"{written.rows:,} rows, {written.bytes:,} bytes, as of batch {written.sequence}: {written.file}")
