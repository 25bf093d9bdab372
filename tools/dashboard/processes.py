"""Sections of the dashboard about the processes of a gateway."""

from typing import Final

from tools.dashboard.panels import Graph, Section, quantiles, rate

API: Final = Section(
    "API",
    (
        Graph(
            "Requests per second",
            "By status. 5xx and 429 make senders repeat their request.",
            {"{{status}}": rate("mirrorgate_requests_total", "status")},
            unit="reqps",
            stacked=True,
        ),
        Graph(
            "Time of a change request",
            "With the commit of its rows.",
            quantiles("mirrorgate_request_seconds", '{route=~"/v1/changes/.+"}'),
            unit="s",
        ),
        Graph(
            "Rejected requests per second",
            "By error code; https://mirrorgate.github.io/mirrorgate/reference/errors/ has each of them.",
            {"{{code}}": rate("mirrorgate_rejected_requests_total", "code")},
            unit="reqps",
            stacked=True,
        ),
        Graph(
            "Accepted changes per second",
            "By format.",
            {"{{format}}": rate("mirrorgate_accepted_changes_total", "format")},
            unit="ops",
            stacked=True,
        ),
        Graph(
            "Requests on the exact path",
            "Why they do not take the columnar path, which is several times as fast.",
            {"{{format}}: {{reason}}": rate("mirrorgate_ingest_path_total", "format, reason", '{path="exact"}')},
            unit="reqps",
            stacked=True,
        ),
        Graph(
            "Time of a commit",
            "One transaction stages many requests.",
            quantiles("mirrorgate_group_commit_seconds"),
            "s",
        ),
        Graph(
            "Memory for bodies",
            "At its limit, requests wait or are answered with 503.",
            {
                "{{instance}}": "mirrorgate_body_bytes_in_memory",
                "limit": "max(mirrorgate_body_memory_limit_bytes)",
            },
            unit="bytes",
        ),
        Graph(
            "Requests that wait",
            "For the writer, and for a connection to Postgres.",
            {
                "writer, {{instance}}": "mirrorgate_writer_waiting_requests",
                "connection, {{instance}}": "mirrorgate_database_connections_waiting",
            },
        ),
        Graph(
            "Connections to Postgres",
            "Of each API process, by use.",
            {
                "{{use}}": "sum by (use) (mirrorgate_database_connections)",
                "limit": "sum(mirrorgate_database_connections_limit)",
            },
        ),
    ),
)

DRAIN: Final = Section(
    "Drain",
    (
        Graph(
            "Time to publish a file", "From its plan to its name.", quantiles("mirrorgate_drain_publish_seconds"), "s"
        ),
        Graph(
            "Published per second",
            "By the drains that Prometheus scrapes.",
            {
                "rows": rate("mirrorgate_drain_published_rows_total"),
                "files": rate("mirrorgate_drain_published_files_total"),
            },
            unit="ops",
        ),
        Graph(
            "Failed attempts per second",
            "By error code. The drain retries with growing pauses.",
            {"{{code}}": rate("mirrorgate_drain_failed_attempts_total", "code")},
            unit="ops",
            stacked=True,
        ),
        Graph(
            "Storage",
            "Calls that were repeated, and calls that were given up after a minute.",
            {
                "repeated": rate("mirrorgate_drain_storage_retries_total"),
                "given up": rate("mirrorgate_drain_storage_failures_total"),
            },
            unit="ops",
        ),
        Graph(
            "Tables of drains",
            "That each drain holds, and those whose last attempt failed.",
            {
                "held by {{instance}}": "mirrorgate_drain_leased_tables",
                "failing at {{instance}}": "mirrorgate_drain_failing_tables",
            },
        ),
        Graph(
            "Signs of life",
            "Time since the lease was renewed, and for which Spark has made no progress.",
            {
                "lease of {{instance}}": "time() - mirrorgate_drain_lease_renewed_timestamp_seconds",
                "Spark of {{instance}}": "mirrorgate_drain_spark_silent_seconds",
            },
            unit="s",
        ),
    ),
)
