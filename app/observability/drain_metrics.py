"""Metrics of one drain, which serves them itself: the API's `/metrics` only knows what the database has."""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.process_collector import ProcessCollector

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
ProcessCollector(namespace="mirrorgate_drain", registry=REGISTRY)


def serve_metrics(address: MetricsAddress, *, leased: Callable[[], int], failing: Callable[[], int]) -> int | None:
    """Serve `/metrics` from a separate thread; return the port, None if none is set.

    `leased` and `failing` return the number of tables that the drain has taken over and of those whose last attempt
    failed. Raise Misconfigured `bad_setting` when the port is taken.
    """
    _LEASED_TABLES.set_function(leased)
    _FAILING_TABLES.set_function(failing)
    return serve_registry(REGISTRY, address, setting="MIRRORGATE_DRAIN_METRICS_PORT", process="drain")
