"""Spark tasks that apply landing files to Delta tables.

A task may run more than once, and a lost attempt may keep writing: the Delta log accepts each landing file once. A task
returns its failures instead of raising them, so that one table's failure stops no other.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from app.domain.mirror_report import NO_UPKEEP, MirrorState, TableReport, Upkeep
from app.domain.publication import Failure, described
from app.landing.open_zone import ZoneAddress, open_zone
from app.landing.zone import LandingZone
from app.mirror.inspection.history import read_history
from app.mirror.inspection.maintenance import count_small_files, optimize_table, vacuum_table
from app.mirror.table_mirror import MirrorLimits, advance_table, store_errors
from app.mirror.target import MirrorTarget
from app.published.table_files import PublishedTable

NO_VERSION: Final = -1


@dataclass(frozen=True, slots=True)
class MirrorJob:
    """Locations and limits of what tasks read and write. Sent in the job, because the target's options are secret."""

    zone: ZoneAddress
    target: MirrorTarget
    limits: MirrorLimits
    upkeep: Upkeep = NO_UPKEEP
    seconds: float = 1.0
    """After this time, a task starts no further commit, so that other tables have their turn."""


@dataclass(frozen=True, slots=True)
class DueTable:
    """A table to look at."""

    table: PublishedTable
    version: int | None
    """The last version of its Delta table, NO_VERSION without one, None if unknown."""
    is_daily: bool = False
    """True if the table's daily search for files to vacuum and compact is due."""


@dataclass(frozen=True, slots=True)
class TableOutcome:
    """The outcome of a task for one table. Without a report, `failure` says why."""

    table: PublishedTable
    report: TableReport | None = None
    failure: Failure | None = None
    commits: int = 0
    files: int = 0
    rows: int = 0
    compacted: int = 0
    """Data files that were rewritten as larger ones."""
    vacuumed: int | None = None
    """Data files that the daily vacuum deleted; None if it was not due."""

    @property
    def is_due_again(self) -> bool:
        """True if the table has further files that can be applied now."""
        return self.failure is None and self.report is not None and self.report.state is MirrorState.BEHIND


def mirror_tables(job: MirrorJob, due: Sequence[DueTable]) -> Iterator[TableOutcome]:
    """Advance each table by one commit, then again those that are behind, until `job.seconds` are over.

    Yield one outcome per table; tables without one were not reached.
    """
    zone = open_zone(job.zone)
    give_up = time.monotonic() + job.seconds
    waiting = deque(due)
    outcomes: dict[PublishedTable, TableOutcome] = {}
    while waiting and (not outcomes or time.monotonic() < give_up):
        entry = waiting.popleft()
        before = outcomes.get(entry.table, TableOutcome(entry.table))
        after = _advance(job, zone, entry, before)
        outcomes[entry.table] = after
        if after.is_due_again and after.commits > before.commits and after.report is not None:
            waiting.append(DueTable(entry.table, version_of(after.report)))
    yield from outcomes.values()


def version_of(report: TableReport) -> int:
    """Return the version that a report names, NO_VERSION without one."""
    return NO_VERSION if report.version is None else report.version


def run_task(job: MirrorJob, partition: Iterable[Sequence[DueTable]]) -> Iterator[TableOutcome]:
    """Run `mirror_tables` on each element of a partition."""
    for due in partition:
        yield from mirror_tables(job, due)


def _advance(job: MirrorJob, zone: LandingZone, entry: DueTable, before: TableOutcome) -> TableOutcome:
    try:
        known = _newest_version(job.target, entry.table) if entry.version is None else entry.version
        report = advance_table(zone, job.target, entry.table, job.limits)
        files, rows = (0, 0) if version_of(report) == known else _applied(job.target, entry.table, report)
        compacted, vacuumed = _kept_up(job, entry, report, has_committed=files > 0)
        if compacted or vacuumed:
            report = replace(report, version=_newest_version(job.target, entry.table))
    except Exception as error:  # noqa: BLE001  # a task returns an outcome for each of its tables
        return replace(before, failure=described(error))
    vacuumed = before.vacuumed if vacuumed is None else vacuumed + (before.vacuumed or 0)
    sums = (before.commits + (files > 0), before.files + files, before.rows + rows, before.compacted + compacted)
    return TableOutcome(entry.table, report, None, *sums, vacuumed)


def _kept_up(job: MirrorJob, entry: DueTable, report: TableReport, *, has_committed: bool) -> tuple[int, int | None]:
    """Compact and vacuum a table if that is due; return how many files were rewritten, and how many deleted.

    Both are Delta commits that change no row, so a task that dies in one leaves the table as it was.
    """
    upkeep, name = job.upkeep, str(entry.table)
    if report.version is None or not upkeep.is_open(datetime.now(UTC)):
        return 0, None
    compacted, vacuumed = 0, None
    can_compact = upkeep.small_files and (has_committed or entry.is_daily)
    if can_compact and count_small_files(job.target, name) >= max(2, upkeep.small_files):
        done = optimize_table(job.target, name, row_group_rows=job.limits.row_group_rows)
        compacted = done.files_before - done.files
    if upkeep.retention_hours and entry.is_daily:
        names = job.target.tables()
        vacuumed = len(vacuum_table(job.target, names, name, retention_hours=upkeep.retention_hours).files)
    return compacted, vacuumed


def _newest_version(target: MirrorTarget, table: PublishedTable) -> int:
    with store_errors(target, table):
        delta = target.open(table)
    return NO_VERSION if delta is None else delta.version()


def _applied(target: MirrorTarget, table: PublishedTable, report: TableReport) -> tuple[int, int]:
    """Return how many files and rows the reported version applied, as its commit states; zeros for another commit."""
    delta = target.open(table, version=report.version)
    newest = None if delta is None else read_history(target, delta, 1)[0]
    if newest is None or newest.files is None or newest.rows is None:
        return 0, 0
    return newest.files[1] - newest.files[0] + 1, sum(newest.rows.values())
