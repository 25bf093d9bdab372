"""`mirrorgate mirror health`: files, row groups and sizes of mirrored tables against Direct Lake's guard rails."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.console import say
from app.cli.mirror.progress import Advance, working
from app.cli.mirror.target import MirroredTables, StorageOptions, To, chosen_tables, open_target
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir

if TYPE_CHECKING:
    from app.mirror.inspection.health import HealthFinding, TableHealth


def health(
    tables: MirroredTables = None,
    to: To = None,
    storage_options: StorageOptions = None,
    sku: Annotated[
        str, typer.Option(help="Fabric capacity whose guard rails apply, from F2 to F2048. F64 is also FT1 and P1.")
    ] = "F2",
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Compare the tables with Direct Lake's guard rails: files, row groups, rows and size. Exit 1 if one is exceeded.

    `fits` is the smallest capacity whose guard rails a table keeps. `old` is what files of older versions take.
    Advice on small files, small row groups, deleted rows and a long log does not change the exit status.

    Example: `mirrorgate mirror health --sku F64 --to /data/mirror`
    """
    target = open_target("mirror health", to, data_dir, storage_options)
    from app.mirror.inspection.guard_rails import GUARD_RAILS
    from app.mirror.inspection.health import examine_table, find_problems

    if sku.upper() not in GUARD_RAILS:
        raise typer.BadParameter(f"choose one of {', '.join(GUARD_RAILS)}", param_hint="--sku")
    chosen, examined = chosen_tables(target, tables), []
    with working("examining", steps=len(chosen), quiet=as_json) as advance:
        for name in chosen:
            examined.append(examine_table(target, name, partial(_show_files, advance, name)))
            advance(name, done=1)
    problems = find_problems(examined, GUARD_RAILS[sku.upper()])
    if as_json:
        from app.cli.mirror.printing import print_json

        shown = {"sku": sku.upper(), "tables": [one.to_json() for one in examined]}
        print_json(shown | {"findings": [one.to_json() for one in problems]})
    else:
        _print(examined, problems)
    if any(one.severity == "error" for one in problems):
        raise typer.Exit(1)


def _show_files(advance: Advance, name: str, read: int, files: int) -> None:
    advance(f"{name}: {read:,}/{files:,} files")


def _print(examined: "list[TableHealth]", problems: "list[HealthFinding]") -> None:
    from app.cli.output import Grid

    numbers = ("version", "rows", "files", "row groups", "rows/group", "MB", "old MB", "deleted", "log")
    grid = Grid(("table", *numbers, "fits"), right=numbers)
    for one in examined:
        grid.add(
            one.table,
            str(one.version),
            f"{one.rows:,}",
            f"{one.files:,}",
            f"{one.row_groups:,}",
            f"{one.rows_per_row_group:,}",
            f"{one.bytes / 1e6:,.1f}",
            f"{one.old_bytes / 1e6:,.1f}",
            f"{one.deleted_share:.0%}",
            f"{one.log_commits:,}",
            one.smallest_sku or "none",
        )
    grid.print()
    for problem in problems:
        style = "red" if problem.severity == "error" else "yellow"
        say(f"{problem.severity} {problem.code}  {problem.table or 'all tables'}: {problem.detail}", style=style)
        say(f"  remedy: {problem.remedy}")
