"""`mirrorgate tables backfill-images`: give row images to the rows that a table had before it kept any."""

import json
import sys
from typing import TYPE_CHECKING

import typer

from app.cli.console import ERRORS, say
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir, TableName
from app.extras import require_extras

if TYPE_CHECKING:
    from app.staging.images.backfill import BackfillProgress


def backfill_images(table: TableName, as_json: AsJson = False, data_dir: LocalDataDir = DEFAULT_DATA_DIR) -> None:
    """Give a row image to every row that a table had before its option row_images=on was set.

    The command reads the staged payloads of the table from its first batch on, directly in the database, while changes
    go on. It fails if retention has deleted one. You can stop it at any time and run it again.
    """
    require_extras("tables backfill-images", "server")
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from app.cli.direct import open_database
    from app.domain.model import names
    from app.staging.images.backfill import backfill_images as run

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=ERRORS, transient=True, disable=as_json or not sys.stderr.isatty())
    task = bar.add_task("batches", total=None)

    def show(progress: "BackfillProgress") -> None:
        bar.update(task, completed=progress.through, total=progress.last)

    with open_database(data_dir) as engine, bar:
        found = run(engine, names.TableName.parse(table), show)
    if as_json:
        typer.echo(json.dumps({"table": str(found.name), "complete": found.images_complete}))
    else:
        say(f"{found.name}: every row has a row image")
