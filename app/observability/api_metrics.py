"""Metrics of an API process, which `GET /metrics` shows with those that a scrape reads from the database.

Several API processes on one port share them through files (`PROMETHEUS_MULTIPROC_DIR`). Gauges are therefore summed
over the live processes, unless their help text says something else. No label names a table, a key or a caller.
"""

from functools import partial
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

import app.observability.process_metrics  # noqa: F401  # turns creation times off

_summed: Final = partial(Gauge, multiprocess_mode="livesum")
"""Makes a gauge whose values of all live processes are added."""

REQUESTS: Final = Counter("mirrorgate_requests_total", "HTTP requests by route and status", ["route", "status"])
REQUEST_SECONDS: Final = Histogram("mirrorgate_request_seconds", "Time to answer, by route", ["route"])
ACCEPTED_CHANGES: Final = Counter("mirrorgate_accepted_changes_total", "Changes accepted, by format", ["format"])
INGEST_PATHS: Final = Counter(
    "mirrorgate_ingest_path_total",
    "Change requests by the path that read them; on the exact path, the reason why the columnar one did not",
    ["format", "path", "reason"],
)
HASH_MISMATCHES: Final = Counter(
    "mirrorgate_address_hash_mismatches_total", "Arcion messages whose table address does not match their hash"
)
DUPLICATE_CHANGES: Final = Counter(
    "mirrorgate_duplicate_changes_total", "Changes dropped because the source position shows an earlier acceptance"
)
REPEATED_INSERTS: Final = Counter(
    "mirrorgate_repeated_inserts_total", "Inserts landed as upserts because the key has a row image already"
)
ENDED_LOADS: Final = Counter("mirrorgate_ended_loads_total", "Load sessions that requests ended, by state", ["state"])
DEAD_LETTERS: Final = Counter(
    "mirrorgate_dead_letters_total", "Rejected messages kept as dead letters, by format", ["format"]
)
REPLAYED_LETTERS: Final = Counter("mirrorgate_replayed_dead_letters_total", "Dead letters accepted on replay")
REJECTED_REQUESTS: Final = Counter("mirrorgate_rejected_requests_total", "Requests rejected, by error code", ["code"])
API_PROCESSES: Final = _summed("mirrorgate_api_processes", "API processes that run")
CHANGE_REQUESTS: Final = _summed("mirrorgate_change_requests_in_flight", "Change requests in progress")
CHANGE_REQUESTS_LIMIT: Final = _summed("mirrorgate_change_requests_limit", "Change requests that can be in progress")
UNFINISHED_BODIES: Final = _summed(
    "mirrorgate_unfinished_bodies", "Request bodies of verified callers that have not arrived completely"
)
BODY_BYTES: Final = _summed("mirrorgate_body_bytes_in_memory", "Bytes reserved in the memory budget for request bodies")
ANSWER_BYTES: Final = _summed(
    "mirrorgate_answer_bytes_in_memory", "Bytes of answers over 16 KiB that their callers have not read"
)
BODY_BYTES_LIMIT: Final = _summed("mirrorgate_body_memory_limit_bytes", "Memory budget for request bodies")
ADMITTED_BODIES: Final = _summed(
    "mirrorgate_large_bodies_admitted_bytes", "Bytes of the large bodies that the body semaphore has admitted"
)
ADMITTED_BODIES_LIMIT: Final = _summed(
    "mirrorgate_large_bodies_limit_bytes", "Bytes of large bodies that the body semaphore admits"
)
WAITING_BODIES: Final = _summed(
    "mirrorgate_large_bodies_waiting", "Large bodies that wait unread for the body semaphore"
)
WAITING_REQUESTS: Final = _summed(
    "mirrorgate_writer_waiting_requests", "Change requests that wait for a transaction of the writer"
)
OLDEST_WAITING: Final = Gauge(
    "mirrorgate_writer_oldest_waiting_seconds",
    "Waiting time of the oldest request in the writer's queue",
    multiprocess_mode="livemax",
)
LAST_COMMIT: Final = Gauge(
    "mirrorgate_writer_last_commit_timestamp_seconds",
    "Time of the last commit, of the process that committed longest ago",
    multiprocess_mode="livemin",
)
WRITER_FAILS: Final = _summed(
    "mirrorgate_writer_failing", "API processes whose last transaction failed because of the database"
)
DATABASE_CONNECTIONS: Final = _summed("mirrorgate_database_connections", "Connections to Postgres, by use", ["use"])
DATABASE_CONNECTIONS_LIMIT: Final = _summed(
    "mirrorgate_database_connections_limit", "Connections that the pool may open"
)
DATABASE_WAITING: Final = _summed(
    "mirrorgate_database_connections_waiting", "Threads that wait for a connection from the pool"
)
GROUP_REQUESTS: Final = Histogram(
    "mirrorgate_group_commit_requests",
    "Change requests that share one transaction of the writer",
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000),
)
GROUP_SECONDS: Final = Histogram(
    "mirrorgate_group_commit_seconds",
    "Time to stage and commit the requests of one transaction of the writer",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
)
GROUP_FAILURES: Final = Counter(
    "mirrorgate_group_commit_failures_total", "Transactions of the writer that failed because of the database"
)
RESOURCE_LOW: Final = Gauge(
    "mirrorgate_resource_low",
    "1 while file descriptors are short, by check; the worst of the processes",
    ["check"],
    multiprocess_mode="livemax",
)
ALERTS: Final = Counter("mirrorgate_alerts_total", "Alerts that the webhook has taken, by status", ["status"])
ALERTS_NOT_SENT: Final = Counter(
    "mirrorgate_alerts_not_sent_total", "Messages of alerts that the webhook did not accept"
)
