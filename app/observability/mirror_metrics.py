"""Metrics of one mirror process, which serves them itself. No label has the name of a table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from app.domain.mirror_report import MirrorState, TableReport
from app.observability.process_metrics import DriverMetrics, DriverView, MetricsAddress

MIRROR: Final = DriverMetrics("mirror", "1 while the landing zone or the target is unreachable")

COMMITS: Final = MIRROR.counter("mirrorgate_mirror_commits_total", "Commits to Delta tables")
APPLIED_FILES: Final = MIRROR.counter("mirrorgate_mirror_files_total", "Landing files applied")
APPLIED_ROWS: Final = MIRROR.counter("mirrorgate_mirror_rows_total", "Rows of the applied landing files")
FAILURES: Final = MIRROR.counter(
    "mirrorgate_mirror_failures_total", "Looks at a table that failed or found it stopped, by error code", ["code"]
)
ROUND_FAILURES: Final = MIRROR.counter(
    "mirrorgate_mirror_round_failures_total",
    "Rounds that could not reach the landing zone or the target, by error code",
    ["code"],
)
REPORT_FAILURES: Final = MIRROR.counter(
    "mirrorgate_mirror_report_failures_total", "Failed attempts to store reports in the database"
)
JOB_SECONDS: Final = MIRROR.seconds(
    "mirrorgate_mirror_job_seconds", "Time of one Spark job, which applies files of the tables of one worker slot"
)
LAST_COMMIT: Final = MIRROR.gauge(
    "mirrorgate_mirror_last_commit_timestamp_seconds", "Time of the last commit to any table"
)
LAST_ROUND: Final = MIRROR.gauge(
    "mirrorgate_mirror_last_round_timestamp_seconds", "Time of the last round that looked at the whole landing zone"
)

Reports = Callable[[], Iterable[TableReport]]


@dataclass(frozen=True, slots=True)
class MirrorView(DriverView):
    """The metrics of a running mirror when they are read."""

    reports: Reports = tuple
    """Returns the last report of each table."""


class ReportMetrics(Collector):
    """Metrics of the mirror's reports: the tables by state, and their lag when the metrics are read."""

    def __init__(self, reports: Reports = tuple) -> None:
        self.reports = reports

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the numbers of tables, the waiting files and the lag by state, zero for a state without tables."""
        reports = [*self.reports()]
        now = datetime.now(UTC)
        tables = GaugeMetricFamily("mirrorgate_mirror_tables", "Tables by state", labels=["state"])
        pending = GaugeMetricFamily(
            "mirrorgate_mirror_pending_files", "Landing files that are not applied, by state", labels=["state"]
        )
        lag = GaugeMetricFamily(
            "mirrorgate_mirror_oldest_pending_seconds",
            "Age of the oldest landing file that is not applied, by state of its table",
            labels=["state"],
        )
        for state in MirrorState:
            found = [report for report in reports if report.state is state]
            oldest = min((r.oldest_pending_at for r in found if r.oldest_pending_at is not None), default=now)
            tables.add_metric([state], len(found))
            pending.add_metric([state], sum(report.pending_files for report in found))
            lag.add_metric([state], max((now - oldest).total_seconds(), 0.0))
        return [tables, pending, lag]


REPORT_METRICS: Final = ReportMetrics()
MIRROR.registry.register(REPORT_METRICS)


def applied_counts() -> tuple[int, int]:
    """Return how many landing files and rows this process has applied."""
    files = MIRROR.registry.get_sample_value("mirrorgate_mirror_files_total")
    return int(files or 0), int(MIRROR.registry.get_sample_value("mirrorgate_mirror_rows_total") or 0)


def serve_mirror_metrics(address: MetricsAddress, view: MirrorView) -> int | None:
    """Serve `/metrics` from a separate thread; return the port, None if none is set.

    Raise Misconfigured `bad_setting` when the port is taken.
    """
    REPORT_METRICS.reports = view.reports
    return MIRROR.serve(address, view)
