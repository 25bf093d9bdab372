"""What the mirror process knows of each table between two rounds. All of it can be found out again after a restart."""

import random
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from app.domain.mirror.table_report import MirrorState, TableReport
from app.domain.publication.failure import Failure
from app.published.table_folders import PublishedTable
from spark_jobs.mirroring.folder_changes import Stamp
from spark_jobs.mirroring.task import DueTable, TableOutcome, version_of
from spark_jobs.retry_schedule import RetrySchedule

_RELOOK_SECONDS: Final = (450.0, 750.0)
"""After a time between these two, a table is looked at without a change of its folder: its Delta table may be gone."""


@dataclass(slots=True)
class _Known:
    stamp: Stamp = None
    """Stamp of the folder before the last look; None: look again."""
    relook_at: float = 0.0
    looked_at: float = 0.0
    report: TableReport | None = None


class TableStates:
    """The tables, what they wait for, and the last report of each. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[PublishedTable, _Known] = {}
        self._busy: dict[PublishedTable, Stamp] = {}
        self.retries = RetrySchedule[PublishedTable]()

    def find_due(self, stamps: Mapping[PublishedTable, Stamp], *, retry: bool = True) -> list[PublishedTable]:
        """Return the tables to look at, those that have waited longest first; without `retry`, none that has failed.

        `stamps` are of all tables of the zone. A table that is no longer there is due once more, to be reported.
        """
        now = time.monotonic()
        postponed = self.retries.postponed(now) if retry else self.retries.failed()
        with self._lock:
            gone = [table for table, known in self._known.items() if table not in stamps and not _is_dropped(known)]
            due = [
                table
                for table, stamp in stamps.items()
                if (known := self._known.setdefault(table, _Known())).stamp is None
                or known.stamp != stamp
                or known.relook_at <= now
            ]
            ready = [table for table in (*gone, *due) if table not in self._busy and table not in postponed]
            return sorted(ready, key=lambda table: self._known[table].looked_at)

    def start(self, tables: Iterable[PublishedTable], stamps: Mapping[PublishedTable, Stamp]) -> list[DueTable]:
        """Mark tables as being worked on, with the stamps that were taken before."""
        with self._lock:
            started = []
            for table in tables:
                known = self._known[table]
                self._busy[table] = stamps.get(table)
                started.append(DueTable(table, None if known.report is None else version_of(known.report)))
            return started

    def record(self, outcome: TableOutcome) -> tuple[TableReport | None, TableReport | None]:
        """Keep what a task found, and when to look again. Return the reports before and after."""
        table, report = outcome.table, outcome.report
        with self._lock:
            known = self._known[table]
            before = known.report
            now = time.monotonic()
            known.looked_at, known.relook_at = now, now + random.uniform(*_RELOOK_SECONDS)
            known.report = report if outcome.failure is None else _failing(table, report or before, outcome.failure)
            must_back_off = outcome.failure is not None or (
                report is not None
                and (report.state is MirrorState.STOPPED or (outcome.is_due_again and not outcome.commits))
            )
            known.stamp = None if must_back_off or outcome.is_due_again else self._busy[table]
        if must_back_off:
            self.retries.back_off(table)
        else:
            self.retries.reset([table])
        return before, known.report

    def finish(self, tables: Iterable[PublishedTable]) -> None:
        """Mark tables as no longer worked on; those that were not reached stay due."""
        with self._lock:
            for table in tables:
                self._busy.pop(table, None)

    def is_busy(self) -> bool:
        """Return whether any table is worked on."""
        with self._lock:
            return bool(self._busy)

    def reports(self) -> list[TableReport]:
        """Return the last report of each table that was looked at."""
        with self._lock:
            return [known.report for known in self._known.values() if known.report is not None]


def _is_dropped(known: _Known) -> bool:
    return known.report is not None and known.report.state is MirrorState.DROPPED and known.report.code is None


def _failing(table: PublishedTable, report: TableReport | None, failure: Failure) -> TableReport:
    """Return the last known report with the reason why the last look failed."""
    known = report or TableReport(str(table), MirrorState.BEHIND, None, 1, 0, 0, 0, None, None, None, None, None)
    return replace(known, code=str(failure.code), detail=failure.detail, remedy=failure.remedy)
