"""`mirrorgate mirror history`: the versions of a mirrored table, and which landing files each one applied."""

from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.mirror.target import AsOf, AtVersion, MirroredTable, StorageOptions, To, open_target, point_in_time
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir

if TYPE_CHECKING:
    from app.mirror.inspection.history import TableVersion


def history(
    table: MirroredTable,
    to: To = None,
    storage_options: StorageOptions = None,
    limit: Annotated[int, typer.Option(min=0, help="Newest versions to show. 0: all.")] = 20,
    version: AtVersion = None,
    as_of: AsOf = None,
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """List the versions of a table, the newest first: time, landing files, rows by row marker.

    `deleted` counts the keys whose rows a version deleted or replaced, `appended` the rows that it added. Versions of
    `optimize`, `vacuum` and `restore` apply no landing file. With --version or --as-of the list starts there.

    Example: `mirrorgate mirror history sales.orders --to /data/mirror`
    """
    target = open_target("mirror history", to, data_dir, storage_options)
    from app.mirror.inspection.history import read_history
    from app.mirror.inspection.opening import find_table, open_table, reading, table_names

    name = find_table(table_names(target), table)
    opened = open_table(target, name, point_in_time(version, as_of))
    with reading(name):
        versions = read_history(target, opened, limit or None)
    if as_json:
        from app.cli.mirror.printing import print_json

        print_json([one.to_json() for one in versions])
    else:
        _print(versions)


def _print(versions: "list[TableVersion]") -> None:
    from app.cli.output import Grid

    grid = Grid(
        ("version", "time (UTC)", "operation", "gen", "files", "rows by marker", "deleted", "appended"),
        right=("version", "gen", "deleted", "appended"),
    )
    for one in versions:
        grid.add(
            str(one.version),
            one.time.strftime("%Y-%m-%d %H:%M:%S"),
            one.operation,
            _shown(one.generation),
            ""
            if one.files is None
            else str(one.files[0])
            if one.files[0] == one.files[1]
            else "{}-{}".format(*one.files),
            " ".join(f"{marker}:{count:,}" for marker, count in (one.rows or {}).items() if count),
            _shown(one.deleted_keys),
            _shown(one.appended_rows),
            style="" if one.files is not None else "dim",
        )
    grid.print()


def _shown(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
