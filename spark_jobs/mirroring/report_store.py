"""Stores the mirror's reports in the gateway's database, where the API reads them, from a separate thread.

The mirror works without a database, so a failure here is logged and tried again, and delays no file.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import structlog

from app.domain.mirror.table_report import TableReport
from app.domain.publication.failure import described
from app.observability.mirror_metrics import REPORT_FAILURES
from app.observability.periodic_thread import PeriodicThread
from app.staging.connection.database import open_engine
from app.staging.mirror.reports import CONFIRM_SECONDS, store_reports

log = structlog.get_logger()

_LOOK_SECONDS: Final = 0.5
_JOIN_SECONDS: Final = 2.0


@contextmanager
def reports_stored(
    database_url: str | None, reports: Callable[[], Sequence[TableReport]], *, database_seconds: float
) -> Iterator[None]:
    """Store the reports that have changed, and every few seconds all of them, until the block ends.

    Without a database, do nothing.
    """
    if database_url is None:
        yield
        return
    engine = open_engine(database_url, pool_size=1, application="mirrorgate mirror", silence_seconds=database_seconds)
    store = _ReportStore(reports, lambda found: store_reports(engine, found)).store
    keeper = PeriodicThread(
        "mirror-reports", _LOOK_SECONDS, store, waits_first=True, at_end=store, join_seconds=_JOIN_SECONDS
    )
    try:
        with keeper:
            yield
    finally:
        engine.dispose()


class _ReportStore:
    def __init__(
        self, reports: Callable[[], Sequence[TableReport]], write: Callable[[Sequence[TableReport]], object]
    ) -> None:
        self._reports = reports
        self._write = write
        self._stored: dict[str, TableReport] = {}
        self._confirmed_at = 0.0

    def store(self) -> None:
        """Store what is new, and everything when that was last done some seconds ago."""
        reports = self._reports()
        now = time.monotonic()
        if now - self._confirmed_at >= CONFIRM_SECONDS:
            self._stored, self._confirmed_at = {}, now
        changed = [report for report in reports if self._stored.get(report.table) != report]
        if not changed:
            return
        try:
            self._write(changed)
        except Exception as error:  # noqa: BLE001  # for example, Postgres fails over: the next round stores them
            REPORT_FAILURES.inc()
            failure = described(error)
            log.warning("mirror_reports_not_stored", code=failure.code, detail=failure.detail)
            return
        self._stored |= {report.table: report for report in changed}
