"""`mirrorgate tables backfill-images`: give row images to the rows that a table had before it kept any."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.console import ERRORS, say
from app.cli.mirror.target import StorageOptions, To, open_target
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir, TableName
from app.extras import require_extras

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.domain.model import names
    from app.staging.images.backfill.mirrored import MirroredRows, MirrorReader
    from app.staging.images.backfill.progress import Backfill


def backfill_images(
    table: TableName,
    to: To = None,
    storage_options: StorageOptions = None,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Stop a backfill that runs elsewhere. Another run continues it.")
    ] = False,
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Give a row image to every row that a table had before its option row_images=on was set.

    The command works directly in the database, while changes go on. It reads the staged payloads of the table from its
    first batch on. If retention has deleted some, it reads the rows of the table's Delta mirror, then the payloads of
    later batches. You can stop it at any time and run it again: it continues where it was.

    Example: `mirrorgate tables backfill-images sales.orders --to /srv/mirror`
    """
    require_extras("tables backfill-images", "server")
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from app.cli.direct import open_database
    from app.domain.model import names
    from app.staging.images.backfill import run

    name = names.TableName.parse(table)
    if cancel:
        with open_database(data_dir) as engine:
            found = run.cancel(engine, name)
        if as_json:
            typer.echo(json.dumps({"table": str(name), "cancelled": found}))
        else:
            say(f"{name}: the backfill is cancelled" if found else f"{name}: no backfill is running")
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=ERRORS, transient=True, disable=as_json or not sys.stderr.isatty())
    task = bar.add_task(f"{table}: rows", total=None)

    def show(backfill: "Backfill") -> None:
        total = max(backfill.rows_total, backfill.rows_done)
        bar.update(task, description=f"{table}: {backfill.step}", completed=backfill.rows_done, total=total)

    with open_database(data_dir) as engine, bar:
        complete = run.backfill_images(engine, name, show, _mirror(to, data_dir, storage_options))
    if as_json:
        typer.echo(json.dumps({"table": str(complete.name), "complete": complete.images_complete}))
    else:
        say(f"{complete.name}: every row has a row image")


def _mirror(to: str | None, data_dir: Path, storage_options: "Sequence[str] | None") -> "MirrorReader | None":
    """Return what opens the tables of the mirror that the options, the settings or the data directory name."""
    from app.settings import Settings

    if to is None and Settings.from_environment().mirror_target is None and not (data_dir / "mirror").is_dir():
        return None

    def opened(table: "names.TableName", version: int | None) -> "MirroredRows":
        target = open_target("tables backfill-images --to", to, data_dir, storage_options)
        from app.mirror.typed_rows import version_reader

        return version_reader(target)(table, version)

    return opened
