"""`mirrorgate mirror run`, `optimize`, `vacuum`, `pin`: Delta tables in step, in few large files, without old ones."""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from app.cli.mirror.target import (
    AsOf,
    AtVersion,
    DamagedTables,
    MirroredTable,
    MirroredTables,
    StorageOptions,
    To,
    chosen_tables,
    open_target,
    parse_storage_options,
    point_in_time,
)
from app.extras import require_extras
from mirrorgate.cli.console import interruptible, print_json, say, working
from mirrorgate.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir, PrintPath
from mirrorgate.text import amount

if TYPE_CHECKING:
    from app.mirror.inspection.maintenance import Vacuumed


def run(
    zone: Annotated[
        str | None,
        typer.Argument(
            help="Folder or OneLake address of the landing zone, of Mirrorgate or another publisher. Default: "
            "MIRRORGATE_LANDING_ZONE.",
            show_default=False,
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            help="Folder, abfss://… or s3://… of the Delta tables. Default: MIRRORGATE_MIRROR_TARGET.",
            show_default=False,
        ),
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Apply all files that are there, then exit; with status 1 if a table waits or is stopped."
        ),
    ] = False,
    tables: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="TABLE", help="Mirror this table only, `schema.table` or `table`. Repeatable."),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Delete the Delta table of a dropped and recreated table instead of keeping it as `…@g1`."
        ),
    ] = False,
    files_per_version: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Files that one Delta version can have when the mirror is behind; 1 gives every file a version. "
            "Default: MIRRORGATE_MIRROR_FILES_PER_VERSION, else 64.",
            show_default=False,
        ),
    ] = None,
    poll_seconds: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="Seconds between two checks of the zone. Default: MIRRORGATE_MIRROR_POLL_SECONDS, else 0.5 for a "
            "folder and 15 for an address.",
            show_default=False,
        ),
    ] = None,
    storage_options: StorageOptions = None,
    data_dir: Annotated[Path, typer.Option(help="Folder where a Java is kept, if none is installed.")] = (
        DEFAULT_DATA_DIR
    ),
    print_path: PrintPath = False,
) -> None:
    """Apply the files of a landing zone to Delta tables, by Fabric's rules. Requires the extra `mirror` and Java 17.

    Runs until Ctrl-C; a restart continues where the Delta tables are. No Postgres is needed. One mirror can write to a
    target at a time. On a Spark cluster, all executors must see the same folders: `spark-submit …
    $(mirrorgate mirror run --print-path)`.

    For example:

        mirrorgate mirror run --once /mnt/zone --to /mnt/mirror
    """
    if print_path:
        found = find_spec("spark_jobs.mirror")
        typer.echo(found and found.origin)
        return
    require_extras("mirror run", "mirror")
    from app.local.embedded import find_java
    from app.settings import PREFIX, Settings
    from app.zone_settings import zone_address

    parsed = parse_storage_options(storage_options)
    given = {
        "LANDING_ZONE": zone,
        "MIRROR_TARGET": to,
        "MIRROR_FILES_PER_VERSION": None if files_per_version is None else str(files_per_version),
        "MIRROR_POLL_SECONDS": None if poll_seconds is None else str(poll_seconds),
        "MIRROR_STORAGE_OPTIONS": json.dumps(parsed) if parsed else None,
    }
    os.environ.update({f"{PREFIX}{name}": value for name, value in given.items() if value is not None})
    if sys.stderr.isatty():  # a person reads it, not a collector of logs
        os.environ.setdefault(f"{PREFIX}LOG_FORMAT", "console")
        os.environ.setdefault(f"{PREFIX}LOG_LEVEL", "error" if once else "info")
    settings = Settings.from_environment()
    zone_address(settings).check()
    settings.require_mirror_target()
    environment = {**os.environ, "JAVA_HOME": str(find_java(data_dir, os.environ))}
    command = [sys.executable, "-m", "spark_jobs.mirror"]
    command += ["--once"] if once else []
    command += ["--replace"] if replace else []
    command += [argument for name in tables or () for argument in ("--table", name)]
    os.execve(command[0], command, environment)


_RETENTION_HOURS: Final = 168
_Done = TypeVar("_Done")


def optimize(
    tables: MirroredTables = None,
    to: To = None,
    storage_options: StorageOptions = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Sort each table by its key. Rewrites the whole table.")
    ] = False,
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Rewrite small files as large ones, with row groups of MIRRORGATE_ROW_GROUP_ROWS, and write a checkpoint.

    Safe beside a running mirror, and safe to repeat: a table without small files is left as it is. The replaced files
    remain for readers of older versions until `mirrorgate mirror vacuum` deletes them.

    For example:

        mirrorgate mirror optimize sales.orders --cluster --to /data/mirror
    """
    target = open_target("mirror optimize", to, data_dir, storage_options)
    from app.mirror.inspection.maintenance import Optimized, optimize_table
    from app.settings import Settings

    row_group_rows = Settings.from_environment().row_group_rows

    def line(one: Optimized) -> str:
        if one.version == one.version_before:
            return f"{one.table}: nothing to do ({amount(one.files, 'file')})"
        sizes = f"{one.bytes_before / 1e6:,.1f} MB -> {one.bytes / 1e6:,.1f} MB"
        by = f", clustered by {', '.join(one.clustered_by)}" if one.clustered_by else ""
        return f"{one.table}: {amount(one.files_before, 'file')} -> {one.files:,}, {sizes}{by}, version {one.version}"

    work = partial(optimize_table, target, cluster=cluster, row_group_rows=row_group_rows)
    _treat("optimizing", chosen_tables(target, tables), work, lambda one: say(line(one)), as_json=as_json)


def vacuum(
    tables: MirroredTables = None,
    to: To = None,
    storage_options: StorageOptions = None,
    retention: Annotated[
        int, typer.Option("--retention", metavar="HOURS", min=0, help="Hours that readers of old versions have.")
    ] = _RETENTION_HOURS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the files that would be deleted.")] = False,
    force: Annotated[bool, typer.Option("--force", help=f"Accept a retention below {_RETENTION_HOURS} hours.")] = False,
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Delete data files that no version within the retention needs. Safe beside a running mirror, and safe to repeat.

    Time travel and `diff` then end at the retention, and so does a Direct Lake model that was framed earlier, unless
    `mirrorgate mirror pin` keeps its version. Files that a killed mirror left are deleted too, with a retention from 24
    to 168 hours.

    For example:

        mirrorgate mirror vacuum --dry-run --to /data/mirror
    """
    if retention < _RETENTION_HOURS and not force:
        raise typer.BadParameter(
            f"a retention below {_RETENTION_HOURS} hours can delete files that readers use; add --force to accept that",
            param_hint="--retention",
        )
    target = open_target("mirror vacuum", to, data_dir, storage_options)
    from app.mirror.inspection.history import table_names
    from app.mirror.inspection.maintenance import vacuum_table

    work = partial(vacuum_table, target, table_names(target), retention_hours=retention, dry_run=dry_run)
    _treat("vacuuming", chosen_tables(target, tables), work, _print_vacuumed, as_json=as_json)


def _treat(
    doing: str, tables: list[str], work: Callable[[str], _Done], show: Callable[[_Done], None], *, as_json: bool
) -> None:
    """Do the work on each table, and print what was done, also if it is interrupted. Raises DamagedTable at the end."""
    done: list[_Done] = []
    damaged = DamagedTables()
    try:
        with working(doing, steps=len(tables), quiet=as_json) as advance:
            for name in tables:
                advance(name)
                with damaged.skipped():
                    done.append(interruptible(partial(work, name)))
                advance(name, done=1)
    finally:
        if as_json:
            print_json(done)
        else:
            for one in done:
                show(one)
    damaged.raise_found()


PinName = Annotated[str, typer.Option("--name", help="Name of the pin, such as that of the semantic model.")]


def pin(
    table: MirroredTable,
    name: PinName,
    version: AtVersion = None,
    as_of: AsOf = None,
    to: To = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Keep a version of a table from vacuum until it is unpinned, such as one that a Direct Lake model is framed on.

    Without --version and --as-of it is the newest version. A pin of the same name moves: pin the new version after each
    framing. The pin is a property of the Delta table; safe beside a running mirror, and safe to repeat.

    For example:

        mirrorgate mirror pin sales.orders --version 42 --name dataset --to /data/mirror
    """
    target = open_target("mirror pin", to, data_dir, storage_options)
    from app.mirror.inspection.maintenance import pin_version

    [full] = chosen_tables(target, [table])
    done = interruptible(partial(pin_version, target, full, name, point_in_time(version, as_of)))
    if as_json:
        print_json(done)
    else:
        say(f"{done.table}: version {done.version} is pinned as {done.name}")


def unpin(
    table: MirroredTable,
    name: PinName,
    to: To = None,
    storage_options: StorageOptions = None,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Remove a pin. The next vacuum deletes the files of its version that nothing else needs.

    Exit status 1 if there is no such pin.

    For example:

        mirrorgate mirror unpin sales.orders --name dataset --to /data/mirror
    """
    target = open_target("mirror unpin", to, data_dir, storage_options)
    from app.mirror.inspection.maintenance import unpin_version

    [full] = chosen_tables(target, [table])
    if not interruptible(partial(unpin_version, target, full, name)):
        say(f"{full} has no pin {name}")
        raise typer.Exit(1)
    say(f"{full}: {name} is unpinned")


def pins(
    tables: MirroredTables = None,
    to: To = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """List the pinned versions of tables, of all without TABLE.

    For example:

        mirrorgate mirror pins --to /data/mirror
    """
    target = open_target("mirror pins", to, data_dir, storage_options)
    from app.mirror.inspection.maintenance import Pin, list_pins

    found: list[Pin] = []
    damaged = DamagedTables()
    for name in chosen_tables(target, tables):
        with damaged.skipped():
            found += list_pins(target, name)
    if as_json:
        print_json(found)
    else:
        for one in found:
            say(f"{one.table}: version {one.version} is pinned as {one.name}")
        if not found:
            say("no version is pinned")
    damaged.raise_found()


def _print_vacuumed(one: "Vacuumed") -> None:
    say(f"{one.table}: {amount(len(one.files), 'file')} {'to delete' if one.dry_run else 'deleted'}")
    for path in one.files if one.dry_run else ():
        say(f"  {path}")
