"""Metrics of one drain, which serves them itself: the API's `/metrics` only knows what the database has."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.process_collector import ProcessCollector

from app.observability.common_metrics import BuildInfo
from app.observability.metrics_port import MetricsAddress, serve_registry

REGISTRY: Final = CollectorRegistry()

_SECONDS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

PUBLISH_SECONDS: Final = Histogram(
    "mirrorgate_drain_publish_seconds",
    "Time to build, rename and record the files of one worker slot",
    buckets=_SECONDS,
    registry=REGISTRY,
)
PUBLISHED_FILES: Final = Counter(
    "mirrorgate_drain_published_files_total", "Landing files recorded as published", registry=REGISTRY
)
PUBLISHED_ROWS: Final = Counter(
    "mirrorgate_drain_published_rows_total", "Rows in the landing files recorded as published", registry=REGISTRY
)
FAILED_ATTEMPTS: Final = Counter(
    "mirrorgate_drain_failed_attempts_total",
    "Failed attempts to publish a table, by error code",
    ["code"],
    registry=REGISTRY,
)
STORAGE_RETRIES: Final = Counter(
    "mirrorgate_drain_storage_retries_total", "Retried calls to the storage service", registry=REGISTRY
)
STORAGE_FAILURES: Final = Counter(
    "mirrorgate_drain_storage_failures_total",
    "Calls to the storage service that failed after all retries",
    registry=REGISTRY,
)
MAINTENANCE_FAILURES: Final = Counter(
    "mirrorgate_drain_maintenance_failures_total", "Failed runs of retention and the scratch sweep", registry=REGISTRY
)
LAST_MAINTENANCE: Final = Gauge(
    "mirrorgate_drain_last_maintenance_timestamp_seconds",
    "Time of the last successful run of retention and the scratch sweep; 0 before the first",
    registry=REGISTRY,
)
STALE_LOADS: Final = Counter(
    "mirrorgate_drain_stale_loads_total",
    "Load sessions that ended because they expired, or because their table was dropped or recreated",
    registry=REGISTRY,
)
LEASE_FAILURES: Final = Counter(
    "mirrorgate_drain_lease_failures_total", "Failed renewals of the drain's lease", registry=REGISTRY
)
LEASE_RENEWED: Final = Gauge(
    "mirrorgate_drain_lease_renewed_timestamp_seconds", "Time of the last lease renewal", registry=REGISTRY
)
LAST_PUBLISHED: Final = Gauge(
    "mirrorgate_drain_last_published_timestamp_seconds", "Time of the last publication of a file", registry=REGISTRY
)
_LEASED_TABLES: Final = Gauge(
    "mirrorgate_drain_leased_tables", "Tables that this drain has a lease on", registry=REGISTRY
)
_FAILING_TABLES: Final = Gauge(
    "mirrorgate_drain_failing_tables", "Tables of this drain whose last publication failed", registry=REGISTRY
)
_WAITING: Final = Gauge(
    "mirrorgate_drain_waiting",
    "1 while this drain publishes nothing because its landing zone or the database is away",
    registry=REGISTRY,
)
_SPARK_UP: Final = Gauge(
    "mirrorgate_drain_spark_up", "1 while Spark's JVM and context answer; otherwise the drain ends", registry=REGISTRY
)
_SPARK_SILENT: Final = Gauge(
    "mirrorgate_drain_spark_silent_seconds",
    "Time for which the oldest call to Spark has made no progress; the drain ends at its limit",
    registry=REGISTRY,
)
_CONNECTIONS: Final = Gauge(
    "mirrorgate_drain_database_connections", "Connections to Postgres, by use", ["use"], registry=REGISTRY
)
_CONNECTIONS_WAITING: Final = Gauge(
    "mirrorgate_drain_database_connections_waiting",
    "Threads that wait for a connection from the pool",
    registry=REGISTRY,
)
RESOURCE_LOW: Final = Gauge(
    "mirrorgate_drain_resource_low",
    "1 while file descriptors or disk space are short, by check",
    ["check"],
    registry=REGISTRY,
)
_DRAIN: Final = Info(
    "mirrorgate_drain", "The drain's id, which mirrorgate_table_lease_info of the API names", registry=REGISTRY
)
BUILD_INFO: Final = BuildInfo("drain")
REGISTRY.register(BUILD_INFO)
ProcessCollector(namespace="mirrorgate_drain", registry=REGISTRY)


@dataclass(frozen=True, slots=True)
class DrainView:
    """What the metrics show of a running drain when they are read."""

    worker: str = ""
    revision: str = ""
    """The newest schema revision that the program knows."""
    leased: Callable[[], int] = int
    """Number of tables that the drain has taken over."""
    failing: Callable[[], int] = int
    """Number of tables whose last attempt failed."""
    is_waiting: Callable[[], bool] = bool
    is_spark_up: Callable[[], bool] = bool
    spark_silent_seconds: Callable[[], float] = float
    connections_in_use: Callable[[], int] = int
    connections_idle: Callable[[], int] = int
    connections_waiting: Callable[[], int] = int


def serve_metrics(address: MetricsAddress, view: DrainView) -> int | None:
    """Serve `/metrics` from a separate thread; return the port, None if none is set.

    Raise Misconfigured `bad_setting` when the port is taken.
    """
    _DRAIN.info({"worker": view.worker})
    gauges: dict[Gauge, Callable[[], float]] = {
        _LEASED_TABLES: view.leased,
        _FAILING_TABLES: view.failing,
        _WAITING: view.is_waiting,
        _SPARK_UP: view.is_spark_up,
        _SPARK_SILENT: view.spark_silent_seconds,
        _CONNECTIONS.labels("in_use"): view.connections_in_use,
        _CONNECTIONS.labels("idle"): view.connections_idle,
        _CONNECTIONS_WAITING: view.connections_waiting,
    }
    for gauge, value in gauges.items():
        gauge.set_function(value)
    BUILD_INFO.revision = view.revision
    return serve_registry(REGISTRY, address, setting="MIRRORGATE_DRAIN_METRICS_PORT", process="drain")
