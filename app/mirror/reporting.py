"""How far the mirror has applied a table, as a report: what a mirror process, the commands and the API show."""

from dataclasses import replace
from datetime import UTC, datetime

from deltalake import DeltaTable

from app.domain.mirror.table_report import FolderOwner, MirrorState, TableReport
from app.errors import Code, InvariantBroken
from app.landing.folder_marker import FolderMarker, read_marker
from app.landing.zone import LandingZone
from app.mirror.position import read_position
from app.mirror.table_view import TableView
from app.mirror.target import MirrorTarget
from app.published.table_folders import PublishedTable


def report_of(zone: LandingZone, view: TableView) -> TableReport:
    """Return the report of a table that nothing stops. Raise OSError if the zone fails."""
    waiting = view.waiting()
    if not waiting:
        return _report(zone, view, MirrorState.IN_STEP)
    expected = view.position.file_number + 1
    if waiting[0].number == expected:
        return _report(zone, view, MirrorState.BEHIND)
    gap = InvariantBroken(
        Code.LANDING_FILE_GAP,
        f"table {view.table} waits for file {expected}; the next file that is there is {waiting[0].number}",
    )
    return _report(zone, view, MirrorState.WAITING, gap)


def stopped(
    zone: LandingZone, target: MirrorTarget, table: PublishedTable, view: TableView | None, error: InvariantBroken
) -> TableReport:
    """Return the report of a table that an error stops. `view` is None if the table could not even be looked at."""
    if view is not None:
        return _report(zone, view, MirrorState.STOPPED, error)
    marker = read_marker(zone, table.folder)
    owner = FolderOwner(marker.installation_id, marker.generation) if isinstance(marker, FolderMarker) else None
    return replace(_without_view(target, table, MirrorState.STOPPED, error), owner=owner)


def dropped(target: MirrorTarget, table: PublishedTable) -> TableReport:
    """Return the report of a table whose landing folder is gone."""
    return _without_view(target, table, MirrorState.DROPPED, None)


def _report(
    zone: LandingZone, view: TableView, state: MirrorState, error: InvariantBroken | None = None
) -> TableReport:
    waiting = view.waiting()
    return TableReport(
        table=str(view.table),
        state=state,
        version=None if view.delta is None else view.delta.version(),
        generation=view.position.generation,
        file_number=view.position.file_number,
        last_file=view.files.last,
        pending_files=len(waiting),
        code=None if error is None else str(error.code),
        detail=None if error is None else error.detail,
        remedy=None if error is None else error.remedy,
        committed_at=None if view.delta is None else _committed_at(view.delta),
        oldest_pending_at=zone.modified_at(waiting[0].path) if waiting else None,
        owner=None if view.ended else view.owner,
    )


def _without_view(
    target: MirrorTarget, table: PublishedTable, state: MirrorState, error: InvariantBroken | None
) -> TableReport:
    delta = target.open(table)
    found = None if delta is None else read_position(delta)
    return TableReport(
        table=str(table),
        state=state,
        version=None if delta is None else delta.version(),
        generation=1 if found is None else found.generation,
        file_number=0 if found is None else found.file_number,
        last_file=0,
        pending_files=0,
        code=None if error is None else str(error.code),
        detail=None if error is None else error.detail,
        remedy=None if error is None else error.remedy,
        committed_at=None if delta is None else _committed_at(delta),
        oldest_pending_at=None,
    )


def _committed_at(delta: DeltaTable) -> datetime | None:
    newest = delta.history(1)
    return datetime.fromtimestamp(newest[0]["timestamp"] / 1000, UTC) if newest else None
