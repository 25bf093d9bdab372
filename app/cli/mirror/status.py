"""`mirrorgate mirror status`: how far each table of a landing zone is mirrored."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.console import say
from app.cli.mirror.progress import working
from app.cli.mirror.target import StorageOptions, To, open_target
from app.cli.options import DEFAULT_DATA_DIR, AsJson, LocalDataDir

if TYPE_CHECKING:
    from app.domain.mirror.table_report import TableReport
    from app.landing.open_zone import ZoneAddress


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
    """Show how far each table is mirrored: state, Delta version, last landing file, pending files, lag.

    Reads the landing zone and the Delta tables; no mirror has to run. `waiting` names a missing file number, `stopped`
    a file that cannot be applied; the reason and the remedy are below the list. Exit 1 if a table waits or is stopped.

    Example: `mirrorgate mirror status /mnt/zone --to /mnt/mirror`
    """
    target = open_target("mirror status", to, data_dir, storage_options)
    from app.landing.open_zone import open_zone
    from app.mirror.inspection.status import FAULTS, inspect_tables, published_tables, report_to_json

    opened = open_zone(_address(zone, data_dir))
    tables = published_tables(opened, target)
    reports: list[TableReport] = []
    with working("inspecting", steps=len(tables), quiet=as_json) as advance:
        for report in inspect_tables(opened, target, tables):
            reports.append(report)
            advance(report.table, done=1)
    if as_json:
        from app.cli.mirror.printing import print_json

        print_json([report_to_json(one) for one in reports])
    else:
        _print(reports)
    if any(one.state in FAULTS for one in reports):
        raise typer.Exit(1)


def _address(zone: str | None, data_dir: Path) -> "ZoneAddress":
    """Return the address of an existing landing zone. Raises Misconfigured."""
    from app.errors import Code, Misconfigured
    from app.settings import Settings
    from app.zone_settings import zone_address

    settings = Settings.from_environment(landing_zone=zone)
    local = data_dir / "landing-zone"
    if settings.landing_zone is None and local.is_dir():
        settings = Settings.from_environment(landing_zone=str(local))
    address = zone_address(settings)
    address.check()
    if not address.is_remote and not Path(address.location).is_dir():
        raise Misconfigured(Code.LANDING_ZONE_UNUSABLE, f"there is no folder {address.location}")
    return address


def _print(reports: "list[TableReport]") -> None:
    from app.cli.output import Grid
    from app.mirror.inspection.status import FAULTS, lag_seconds

    if not reports:
        say("the landing zone and the target have no tables")
        return
    numbers = ("version", "file", "of", "pending", "lag")
    grid = Grid(("table", "gen", "state", *numbers), right=("gen", *numbers))
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
            style="red" if one.state in FAULTS else "",
        )
    grid.print()
    for one in reports:
        if one.detail is not None:
            say(f"\n{one.table}: {one.code}: {one.detail}", style="red")
            say(f"  remedy: {one.remedy}")
