"""`mirrorgate mirror optimize` and `mirror vacuum`: few large files, and none that no reader needs."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from app.cli.console import say
from app.cli.mirror.progress import interruptible, working
from app.cli.mirror.target import MirroredTables, StorageOptions, To, chosen_tables, open_target
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir
from app.cli.output import counted

if TYPE_CHECKING:
    from app.mirror.inspection.maintenance import Vacuumed

_RETENTION_HOURS: Final = 168


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
    """Rewrite small files as files of up to 1 GiB with row groups of up to 1,048,576 rows, and write a checkpoint.

    Safe beside a running mirror, and safe to repeat: a table without small files is left as it is. The replaced files
    remain for readers of older versions until `mirrorgate mirror vacuum` deletes them.

    Example: `mirrorgate mirror optimize sales.orders --cluster --to /data/mirror`
    """
    target = open_target("mirror optimize", to, data_dir, storage_options)
    from app.cli.mirror.printing import print_json
    from app.mirror.inspection.maintenance import Optimized, optimize_table

    def line(one: Optimized) -> str:
        if one.version == one.version_before:
            return f"{one.table}: nothing to do ({counted(one.files, 'file')})"
        sizes = f"{one.bytes_before / 1e6:,.1f} MB -> {one.bytes / 1e6:,.1f} MB"
        by = f", clustered by {', '.join(one.clustered_by)}" if one.clustered_by else ""
        return f"{one.table}: {counted(one.files_before, 'file')} -> {one.files:,}, {sizes}{by}, version {one.version}"

    chosen = chosen_tables(target, tables)
    done: list[Optimized] = []
    try:
        with working("optimizing", steps=len(chosen), quiet=as_json) as advance:
            for name in chosen:
                advance(name)
                done.append(interruptible(partial(optimize_table, target, name, cluster=cluster)))
                advance(name, done=1)
    finally:
        if as_json:
            print_json([one.to_json() for one in done])
        else:
            for one in done:
                say(line(one))


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

    Time travel and `diff` then end at the retention, and so does a Direct Lake model that was framed earlier. Files
    that a killed mirror left are deleted too, with a retention from 24 to 168 hours.

    Example: `mirrorgate mirror vacuum --dry-run --to /data/mirror`
    """
    if retention < _RETENTION_HOURS and not force:
        raise typer.BadParameter(
            f"a retention below {_RETENTION_HOURS} hours can delete files that readers use; add --force to accept that",
            param_hint="--retention",
        )
    target = open_target("mirror vacuum", to, data_dir, storage_options)
    from app.cli.mirror.printing import print_json
    from app.mirror.inspection.maintenance import vacuum_table
    from app.mirror.inspection.opening import table_names

    names, chosen = table_names(target), chosen_tables(target, tables)
    done: list[Vacuumed] = []
    try:
        with working("vacuuming", steps=len(chosen), quiet=as_json) as advance:
            for name in chosen:
                advance(name)
                work = partial(vacuum_table, target, names, name, retention_hours=retention, dry_run=dry_run)
                done.append(interruptible(work))
                advance(name, done=1)
    finally:
        if as_json:
            print_json([one.to_json() for one in done])
        else:
            _print_vacuumed(done)


def _print_vacuumed(done: "list[Vacuumed]") -> None:
    for one in done:
        say(f"{one.table}: {counted(len(one.files), 'file')} {'to delete' if one.dry_run else 'deleted'}")
        for path in one.files if one.dry_run else ():
            say(f"  {path}")
