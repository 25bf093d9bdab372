"""Metrics of one mirror process, which serves them itself. No label has the name of a table."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from app.domain.mirror.table_report import MirrorState, TableReport
from app.observability.common_metrics import BuildInfo
from app.observability.metrics_port import MetricsAddress, serve_registry

REGISTRY: Final = CollectorRegistry()

_SECONDS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

COMMITS: Final = Counter("mirrorgate_mirror_commits_total", "Commits to Delta tables", registry=REGISTRY)
APPLIED_FILES: Final = Counter("mirrorgate_mirror_files_total", "Landing files applied", registry=REGISTRY)
APPLIED_ROWS: Final = Counter("mirrorgate_mirror_rows_total", "Rows of the applied landing files", registry=REGISTRY)
FAILURES: Final = Counter(
    "mirrorgate_mirror_failures_total",
    "Looks at a table that failed or found it stopped, by error code",
    ["code"],
    registry=REGISTRY,
)
ROUND_FAILURES: Final = Counter(
    "mirrorgate_mirror_round_failures_total",
    "Rounds that found the landing zone or the target away, by error code",
    ["code"],
    registry=REGISTRY,
)
REPORT_FAILURES: Final = Counter(
    "mirrorgate_mirror_report_failures_total", "Failed attempts to store reports in the database", registry=REGISTRY
)
JOB_SECONDS: Final = Histogram(
    "mirrorgate_mirror_job_seconds",
    "Time of one Spark job, which applies files of the tables of one worker slot",
    buckets=_SECONDS,
    registry=REGISTRY,
)
LAST_COMMIT: Final = Gauge(
    "mirrorgate_mirror_last_commit_timestamp_seconds", "Time of the last commit to any table", registry=REGISTRY
)
LAST_ROUND: Final = Gauge(
    "mirrorgate_mirror_last_round_timestamp_seconds",
    "Time of the last round that looked at the whole landing zone",
    registry=REGISTRY,
)
_WAITING: Final = Gauge(
    "mirrorgate_mirror_waiting", "1 while the landing zone or the target is away", registry=REGISTRY
)
_SPARK_UP: Final = Gauge(
    "mirrorgate_mirror_spark_up",
    "1 while Spark's JVM and context answer; otherwise the mirror ends",
    registry=REGISTRY,
)
_SPARK_SILENT: Final = Gauge(
    "mirrorgate_mirror_spark_silent_seconds",
    "Time for which the oldest call to Spark has made no progress; the mirror ends at its limit",
    registry=REGISTRY,
)
RESOURCE_LOW: Final = Gauge(
    "mirrorgate_mirror_resource_low",
    "1 while file descriptors or disk space are short, by check",
    ["check"],
    registry=REGISTRY,
)
REGISTRY.register(BuildInfo("mirror"))
ProcessCollector(namespace="mirrorgate_mirror", registry=REGISTRY)

Reports = Callable[[], Iterable[TableReport]]


@dataclass(frozen=True, slots=True)
class MirrorView:
    """What the metrics show of a running mirror when they are read."""

    reports: Reports = tuple
    """Returns the last report of each table."""
    is_waiting: Callable[[], bool] = bool
    is_spark_up: Callable[[], bool] = bool
    spark_silent_seconds: Callable[[], float] = float


class ReportMetrics(Collector):
    """Counts the tables by state, and measures their lag when the metrics are read."""

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
REGISTRY.register(REPORT_METRICS)


def applied_counts() -> tuple[int, int]:
    """Return how many landing files and rows this process has applied."""
    files = REGISTRY.get_sample_value("mirrorgate_mirror_files_total")
    return int(files or 0), int(REGISTRY.get_sample_value("mirrorgate_mirror_rows_total") or 0)


def serve_mirror_metrics(address: MetricsAddress, view: MirrorView) -> int | None:
    """Serve `/metrics` from a separate thread; return the port, None if none is set.

    Raise Misconfigured `bad_setting` when the port is taken.
    """
    REPORT_METRICS.reports = view.reports
    _WAITING.set_function(view.is_waiting)
    _SPARK_UP.set_function(view.is_spark_up)
    _SPARK_SILENT.set_function(view.spark_silent_seconds)
    return serve_registry(REGISTRY, address, setting="MIRRORGATE_MIRROR_METRICS_PORT", process="mirror")
