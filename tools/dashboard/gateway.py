"""Sections of the dashboard about the gateway as a whole and about its tables."""

from typing import Final

from tools.dashboard.panels import (
    BAD,
    GOOD,
    NONE_IS_BAD,
    NONE_IS_GOOD,
    TABLE,
    WARN,
    Graph,
    Listing,
    Section,
    Stat,
    of_tables,
    rate_of_tables,
)

OVERVIEW: Final = Section(
    "Overview",
    (
        Stat(
            "Firing alerts",
            "Alerts of deploy/prometheus/alerts.yaml. https://mirrorgate.github.io/mirrorgate/troubleshoot/alerts/ "
            "says what to do for each.",
            'count(ALERTS{alertname=~"Mirrorgate.+", alertstate="firing"}) or vector(0)',
            steps=NONE_IS_GOOD,
        ),
        Stat(
            "Stopped tables",
            "Tables that are quarantined or failing. The list below names them.",
            'count(max by (table) (mirrorgate_table_stopped_info{state=~"quarantined|failing"})) or vector(0)',
            steps=NONE_IS_GOOD,
        ),
        Stat("Drains", "Drains with a running lease.", "max(mirrorgate_drain_workers)", steps=NONE_IS_BAD),
        Stat(
            "Oldest waiting",
            "Age of the oldest accepted batch that is not published.",
            f"max(mirrorgate_lag_oldest_seconds{TABLE})",
            unit="s",
            steps=((None, GOOD), (60, WARN), (300, BAD)),
        ),
        Stat(
            "Rows waiting",
            "Accepted rows that are not published.",
            f"sum(max by (table) (mirrorgate_lag_rows{TABLE}))",
        ),
        Stat(
            "Dead letters",
            "Rejected messages that wait to be corrected or discarded.",
            f"sum(max by (table) (mirrorgate_waiting_dead_letters{TABLE}))",
            steps=((None, GOOD), (1, WARN)),
        ),
        Graph(
            "Rows per second",
            "What senders were promised, and what is in the landing zone.",
            {
                "accepted": rate_of_tables("mirrorgate_table_accepted_rows_total"),
                "published": rate_of_tables("mirrorgate_published_rows_total"),
                "processed by Fabric": rate_of_tables("mirrorgate_fabric_processed_rows_total"),
            },
            unit="rowsps",
            width=12,
        ),
        Graph(
            "Age of the oldest waiting batch",
            "Grows while nothing is published.",
            {"{{table}}": f"topk(10, {of_tables('mirrorgate_lag_oldest_seconds')})"},
            unit="s",
            limit=300,
            width=12,
        ),
    ),
)

TABLES: Final = Section(
    "Tables",
    (
        Listing(
            "Why tables are stopped",
            "The state and error code of each table that is quarantined or failing.",
            f"max by (table, state, code) (mirrorgate_table_stopped_info{TABLE})",
            ("table", "state", "code"),
        ),
        Listing(
            "Leases",
            "Which drain publishes each table.",
            f"max by (table, worker) (mirrorgate_table_lease_info{TABLE})",
            ("table", "worker"),
        ),
        Graph(
            "Share of the backlog's limit",
            "At 100 % new changes are answered with 429 `backlog_full`.",
            {"{{table}}": f"topk(10, {of_tables('mirrorgate_backlog_limit_ratio')})"},
            unit="percentunit",
            limit=0.8,
        ),
        Graph(
            "Rows waiting by table",
            "The ten tables with the most.",
            {"{{table}}": f"topk(10, {of_tables('mirrorgate_lag_rows')})"},
        ),
        Graph(
            "Accepted rows per second",
            "The ten tables with the most.",
            {
                "{{table}}": "topk(10, max by (table) "
                f"(rate(mirrorgate_table_accepted_rows_total{TABLE}[$__rate_interval])))"
            },
            unit="rowsps",
        ),
        Graph(
            "Source lag",
            "From the commit in the source to the acceptance, and its part before the tool read the change.",
            {
                "{{table}}": f"topk(10, {of_tables('mirrorgate_source_lag_seconds')})",
                "{{table}} until read": f"topk(10, {of_tables('mirrorgate_source_extraction_lag_seconds')})",
            },
            unit="s",
            limit=3_600,
            width=12,
        ),
        Graph(
            "Missing changes",
            "By Arcion's counts of operations, of each generation of a table.",
            {"{{table}}": f"topk(10, {of_tables('mirrorgate_missing_changes')})"},
            width=12,
        ),
        Graph(
            "Tables by state",
            "Each table has one state.",
            {"{{state}}": f"sum by (state) (max by (table, state) (mirrorgate_table_state{TABLE}))"},
            stacked=True,
        ),
        Graph(
            "Published files per second",
            "Fabric takes in less than one file a second of each table.",
            {"files": rate_of_tables("mirrorgate_published_files_total")},
            unit="ops",
        ),
        Graph(
            "Age of the oldest dead letter",
            "Dead letters expire after their retention.",
            {"{{table}}": f"topk(10, {of_tables('mirrorgate_waiting_dead_letters_oldest_seconds')})"},
            unit="s",
        ),
        Graph(
            "Age of open load sessions",
            "A load that no request uses any more expires; a full load deletes rows only when it is completed.",
            {
                "{{table}}": f"topk(10, {of_tables('mirrorgate_load_age_seconds')})",
                "{{table}} without a request": f"topk(10, {of_tables('mirrorgate_load_last_request_age_seconds')})",
            },
            unit="s",
            limit=3_600,
        ),
        Graph(
            "Rows of open load sessions",
            "Rows that each open load has landed so far.",
            {"{{table}}": f"topk(10, {of_tables('mirrorgate_load_rows')})"},
        ),
        Graph(
            "Ended load sessions",
            "Load sessions that requests ended, by state, and idle or expired ones that a drain ended.",
            {
                "{{state}}": "sum by (state) (increase(mirrorgate_ended_loads_total[$__rate_interval]))",
                "stale": "sum(increase(mirrorgate_drain_stale_loads_total[$__rate_interval]))",
            },
        ),
        Graph(
            "Row images",
            "Disk space of the newest row of each key, which some options of tables keep.",
            {"bytes": "max(mirrorgate_row_images_bytes)"},
            unit="bytes",
        ),
        Listing(
            "Versions",
            "Program version and schema revision of each process. They differ during an upgrade only.",
            "mirrorgate_build_info",
            ("component", "version", "revision", "instance"),
            width=16,
        ),
    ),
)
