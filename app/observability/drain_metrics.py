"""Metrics of one drain, which serves them itself: the API's `/metrics` only knows what the database has."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from prometheus_client import Gauge, Info

from app.observability.process_metrics import DriverMetrics, DriverView, MetricsAddress

DRAIN: Final = DriverMetrics(
    "drain", "1 while this drain publishes nothing because its landing zone or the database is unreachable"
)

PUBLISH_SECONDS: Final = DRAIN.seconds(
    "mirrorgate_drain_publish_seconds", "Time to build, rename and record the files of one worker slot"
)
PUBLISHED_FILES: Final = DRAIN.counter("mirrorgate_drain_published_files_total", "Landing files recorded as published")
PUBLISHED_ROWS: Final = DRAIN.counter(
    "mirrorgate_drain_published_rows_total", "Rows in the landing files recorded as published"
)
FAILED_ATTEMPTS: Final = DRAIN.counter(
    "mirrorgate_drain_failed_attempts_total", "Failed attempts to publish a table, by error code", ["code"]
)
STORAGE_RETRIES: Final = DRAIN.counter("mirrorgate_drain_storage_retries_total", "Retried calls to the storage service")
STORAGE_FAILURES: Final = DRAIN.counter(
    "mirrorgate_drain_storage_failures_total", "Calls to the storage service that failed after all retries"
)
MAINTENANCE_FAILURES: Final = DRAIN.counter(
    "mirrorgate_drain_maintenance_failures_total", "Failed runs of retention and the scratch sweep"
)
LAST_MAINTENANCE: Final = DRAIN.gauge(
    "mirrorgate_drain_last_maintenance_timestamp_seconds",
    "Time of the last successful run of retention and the scratch sweep; 0 before the first",
)
STALE_LOADS: Final = DRAIN.counter(
    "mirrorgate_drain_stale_loads_total",
    "Load sessions that ended because they expired, or because their table was dropped or recreated",
)
LEASE_FAILURES: Final = DRAIN.counter("mirrorgate_drain_lease_failures_total", "Failed renewals of the drain's lease")
LEASE_RENEWED: Final = DRAIN.gauge("mirrorgate_drain_lease_renewed_timestamp_seconds", "Time of the last lease renewal")
LAST_PUBLISHED: Final = DRAIN.gauge(
    "mirrorgate_drain_last_published_timestamp_seconds", "Time of the last publication of a file"
)
_LEASED_TABLES: Final = DRAIN.gauge("mirrorgate_drain_leased_tables", "Tables that this drain has a lease on")
_FAILING_TABLES: Final = DRAIN.gauge(
    "mirrorgate_drain_failing_tables", "Tables of this drain whose last publication failed"
)
_CONNECTIONS: Final = DRAIN.gauge("mirrorgate_drain_database_connections", "Connections to Postgres, by use", ["use"])
_CONNECTIONS_WAITING: Final = DRAIN.gauge(
    "mirrorgate_drain_database_connections_waiting", "Threads that wait for a connection from the pool"
)
_DRAIN: Final = Info(
    "mirrorgate_drain", "The drain's id, which mirrorgate_table_lease_info of the API names", registry=DRAIN.registry
)


@dataclass(frozen=True, slots=True)
class DrainView(DriverView):
    """The metrics of a running drain when they are read."""

    worker: str = ""
    revision: str = ""
    """The newest schema revision that the program knows."""
    leased: Callable[[], int] = int
    """Number of tables that the drain has taken over."""
    failing: Callable[[], int] = int
    """Number of tables whose last attempt failed."""
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
        _CONNECTIONS.labels("in_use"): view.connections_in_use,
        _CONNECTIONS.labels("idle"): view.connections_idle,
        _CONNECTIONS_WAITING: view.connections_waiting,
    }
    for gauge, value in gauges.items():
        gauge.set_function(value)
    DRAIN.build.revision = view.revision
    return DRAIN.serve(address, view)
