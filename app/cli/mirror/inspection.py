"""`mirrorgate mirror status`, `history` and `health`: how far, how and how well each table is mirrored."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.mirror.rows import Memory
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
    point_in_time,
)
from mirrorgate.cli.console import Advance, print_json, say, working
from mirrorgate.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir

if TYPE_CHECKING:
    from datetime import datetime

    from app.domain.mirror_report import TableReport
    from app.landing.open_zone import ZoneAddress
    from app.mirror.inspection.health import ColumnCost, HealthFinding, TableHealth
    from app.mirror.inspection.history import LastUpkeep, TableVersion


def mirror_status(
    zone: Annotated[
        str | None,
        typer.Argument(
            help="Folder or OneLake address of the landing zone. Default: MIRRORGATE_LANDING_ZONE, else `landing-zone` "
            "in --data-dir.",
            show_default=False,
        ),
    ] = None,
    to: To = None,
    storage_options: StorageOptions = None,
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Show how far each table is mirrored: state, version, last landing file, pending files, lag, last upkeep in UTC.

    Reads the landing zone and the Delta tables; no mirror has to run. `waiting` names a missing file number, `stopped`
    a file that cannot be applied; the reason and the remedy are below the list. Exit 1 if a table waits or is stopped.

    For example:

        mirrorgate mirror status /mnt/zone --to /mnt/mirror
    """
    target = open_target("mirror status", to, data_dir, storage_options)
    from app.landing.open_zone import open_zone
    from app.mirror.inspection.history import FAULTS, inspect_tables, published_tables, read_upkeep, report_to_json

    opened = open_zone(_zone_address(zone, data_dir))
    tables = published_tables(opened, target)
    reports: list[TableReport] = []
    with working("inspecting", steps=len(tables), quiet=as_json) as advance:
        for report in inspect_tables(opened, target, tables):
            reports.append(report)
            advance(report.table, done=1)
    upkeep = read_upkeep(target, [one.table for one in reports])
    if as_json:
        print_json([report_to_json(one, upkeep[one.table]) for one in reports])
    else:
        _print_reports(reports, upkeep)
    if any(one.state in FAULTS for one in reports):
        raise typer.Exit(1)


def _zone_address(zone: str | None, data_dir: Path) -> "ZoneAddress":
    """Return the address of an existing landing zone. Raises Misconfigured."""
    from app.settings import Settings
    from app.zone_settings import zone_address
    from mirrorgate.errors import Code, Misconfigured

    settings = Settings.from_environment(landing_zone=zone)
    local = data_dir / "landing-zone"
    if settings.landing_zone is None and local.is_dir():
        settings = Settings.from_environment(landing_zone=str(local))
    address = zone_address(settings)
    address.check()
    if not address.is_remote and not Path(address.location).is_dir():
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"there is no folder {address.location}")
    return address


def _moment(at: "datetime | None") -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M}"


def _print_reports(reports: "list[TableReport]", upkeep: "dict[str, LastUpkeep]") -> None:
    from app.mirror.inspection.history import FAULTS, lag_seconds
    from mirrorgate.cli.grid import Grid

    if not reports:
        say("the landing zone and the target have no tables")
        return
    numbers = ("version", "file", "of", "pending", "lag")
    grid = Grid(("table", "gen", "state", *numbers, "compacted", "vacuumed"), right=("gen", *numbers))
    for one in reports:
        grid.add(
            one.table,
            str(one.generation),
            one.state.replace("_", " "),
            "-" if one.version is None else str(one.version),
            f"{one.file_number:,}",
            f"{one.last_file:,}",
            f"{one.pending_files:,}",
            f"{lag_seconds(one):,.1f} s",
            _moment(upkeep[one.table].compacted_at),
            _moment(upkeep[one.table].vacuumed_at),
            style="red" if one.state in FAULTS else "",
        )
    grid.print()
    for one in reports:
        if one.detail is not None:
            say(f"\n{one.table}: {one.code}: {one.detail}", style="red")
            say(f"  remedy: {one.remedy}")


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

    For example:

        mirrorgate mirror history sales.orders --to /data/mirror
    """
    target = open_target("mirror history", to, data_dir, storage_options)
    from app.mirror.inspection.history import find_table, open_table, read_history, reading, table_names

    name = find_table(table_names(target), table)
    opened = open_table(target, name, point_in_time(version, as_of))
    with reading(name):
        versions = read_history(target, opened, limit or None)
    if as_json:
        print_json([one.to_json() for one in versions])
    else:
        _print_versions(versions)


def _print_versions(versions: "list[TableVersion]") -> None:
    from mirrorgate.cli.grid import Grid

    grid = Grid(
        ("version", "time (UTC)", "operation", "gen", "files", "rows by marker", "deleted", "appended"),
        right=("version", "gen", "deleted", "appended"),
    )
    for one in versions:
        grid.add(
            str(one.version),
            one.time.strftime("%Y-%m-%d %H:%M:%S"),
            one.operation,
            _number(one.generation),
            ""
            if one.files is None
            else str(one.files[0])
            if one.files[0] == one.files[1]
            else "{}-{}".format(*one.files),
            " ".join(f"{marker}:{count:,}" for marker, count in (one.rows or {}).items() if count),
            _number(one.deleted_keys),
            _number(one.appended_rows),
            style="" if one.files is not None else "dim",
        )
    grid.print()


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def health(
    tables: MirroredTables = None,
    to: To = None,
    storage_options: StorageOptions = None,
    sku: Annotated[
        str, typer.Option(help="Fabric capacity whose guard rails apply, from F2 to F2048. F64 is also FT1 and P1.")
    ] = "F2",
    columns: Annotated[
        bool,
        typer.Option("--columns", help="Also list the cost of the columns in a model. Reads all rows of the tables."),
    ] = False,
    memory: Memory = "1GB",
    as_json: AsJson = False,
    data_dir: LocalDataDir = DEFAULT_DATA_DIR,
) -> None:
    """Compare the tables with Direct Lake's guard rails: files, row groups, rows and size. Exit 1 if one is exceeded.

    `fits` is the smallest capacity whose guard rails the table does not exceed. `old` is the size of the files of older
    versions. Advice on small files, small row groups, deleted rows and a long log does not change the exit status.

    --columns lists of each table the columns that cost most in a Direct Lake model: distinct values, the estimated
    bytes of their dictionary and of a reference in each row, and the bytes in files.

    For example:

        mirrorgate mirror health --sku F64 --to /data/mirror
        mirrorgate mirror health sales.orders --columns
    """
    target = open_target("mirror health", to, data_dir, storage_options)
    from app.mirror.inspection.health import GUARD_RAILS, examine_table, find_problems

    if sku.upper() not in GUARD_RAILS:
        raise typer.BadParameter(f"choose one of {', '.join(GUARD_RAILS)}", param_hint="--sku")
    chosen, examined, damaged = chosen_tables(target, tables), [], DamagedTables()
    with working("examining", steps=len(chosen), quiet=as_json) as advance:
        for name in chosen:
            with damaged.skipped():
                examined.append(examine_table(target, name, partial(_show_progress, advance, name, "files")))
            advance(name, done=1)
    problems = find_problems(examined, GUARD_RAILS[sku.upper()])
    costs: dict[str, list[ColumnCost]] = {}
    if columns:
        from app.mirror.inspection.health import measure_columns

        with working("measuring columns", steps=len(examined), quiet=as_json) as advance:
            for name in [one.table for one in examined]:
                show = partial(_show_progress, advance, name, "columns")
                costs[name] = measure_columns(target, name, show, memory=memory)
                advance(name, done=1)
    if as_json:
        listed = [
            one.to_json() | ({"columns": [cost.to_json() for cost in costs[one.table]]} if columns else {})
            for one in examined
        ]
        print_json({"sku": sku.upper(), "tables": listed, "findings": problems})
    else:
        _print_health(examined, problems)
        for name, found in costs.items():
            _print_columns(name, found)
    damaged.raise_found()
    if any(one.severity == "error" for one in problems):
        raise typer.Exit(1)


_SHOWN_COLUMNS = 20


def _print_columns(table: str, costs: "list[ColumnCost]") -> None:
    from mirrorgate.cli.grid import Grid

    numbers = ("distinct", "nulls", "dictionary MB", "references MB", "file MB")
    grid = Grid((f"columns of {table}", "type", *numbers), right=numbers)
    for one in costs[:_SHOWN_COLUMNS]:
        grid.add(
            one.column,
            one.type,
            f"{one.distinct:,}",
            f"{one.nulls:,}",
            f"{one.dictionary_bytes / 1e6:,.1f}",
            f"{one.reference_bytes / 1e6:,.1f}",
            f"{one.file_bytes / 1e6:,.1f}",
        )
    grid.print()
    for one in costs[:_SHOWN_COLUMNS]:
        if one.advice is not None:
            say(f"advice {table}, {one.column}: {one.advice}", style="yellow")
    if len(costs) > _SHOWN_COLUMNS:
        say(f"and {len(costs) - _SHOWN_COLUMNS:,} smaller columns, in --json", style="dim")


def _show_progress(advance: Advance, name: str, what: str, done: int, of: int) -> None:
    advance(f"{name}: {done:,}/{of:,} {what}")


def _print_health(examined: "list[TableHealth]", problems: "list[HealthFinding]") -> None:
    from mirrorgate.cli.grid import Grid

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
