"""Sections of the dashboard about what is behind the landing zone, Fabric and the Delta mirror, and about bridges."""

from typing import Final

from tools.dashboard.panels import TABLE, Graph, Listing, Section, Stat, of_tables, quantiles, rate, rate_of_tables

FABRIC: Final = Section(
    "Fabric",
    (
        Stat(
            "Mirrored database",
            "The state that Fabric reports. Paused: resume the capacity, then the mirroring.",
            "max by (state) (mirrorgate_fabric_database_state) == 1",
            name="{{state}}",
            width=6,
            height=8,
        ),
        Listing(
            "Tables that Fabric does not replicate",
            "The state that Fabric reports of each table, unless it replicates.",
            'max by (table, state) (mirrorgate_fabric_table_state{table=~"$table", state!="replicating"}) == 1',
            ("table", "state"),
            width=9,
        ),
        Graph(
            "Processed by Fabric",
            "Rows per second. Fabric's own count, which can restart from zero.",
            {"rows": rate_of_tables("mirrorgate_fabric_processed_rows_total")},
            unit="rowsps",
            width=9,
        ),
        Graph(
            "Age of the last synchronization",
            "As Fabric reports it for each table; grows while mirroring is stopped.",
            {"{{table}}": f"topk(10, {of_tables('mirrorgate_fabric_last_sync_age_seconds')})"},
            unit="s",
            width=12,
        ),
        Graph(
            "Age of Fabric's status",
            "Time since a drain last got an answer of Fabric's API.",
            {"status": "max(mirrorgate_fabric_status_age_seconds)"},
            unit="s",
            limit=600,
            width=12,
        ),
    ),
)

MIRROR: Final = Section(
    "Delta mirror",
    (
        Graph(
            "Lag of mirrored tables",
            "Age of the oldest landing file that is not in the Delta table.",
            {"{{table}}": f"topk(10, {of_tables('mirrorgate_mirror_lag_seconds')})"},
            unit="s",
        ),
        Graph(
            "Landing files that wait",
            "By the state of their table.",
            {"{{state}}": "sum by (state) (mirrorgate_mirror_pending_files)"},
            stacked=True,
        ),
        Graph(
            "Time of a job", "Which applies files of several tables.", quantiles("mirrorgate_mirror_job_seconds"), "s"
        ),
        Graph(
            "Applied per second",
            "Commits, landing files, and their rows.",
            {
                "commits": rate("mirrorgate_mirror_commits_total"),
                "files": rate("mirrorgate_mirror_files_total"),
                "rows": rate("mirrorgate_mirror_rows_total"),
            },
            unit="ops",
        ),
        Graph(
            "Failures per second",
            "By error code.",
            {"{{code}}": rate("mirrorgate_mirror_failures_total", "code")},
            unit="ops",
            stacked=True,
        ),
        Graph(
            "Mirrored tables by state",
            "As the mirror sees them.",
            {"{{state}}": "sum by (state) (mirrorgate_mirror_tables)"},
            stacked=True,
        ),
    ),
    closed=True,
)

BRIDGES: Final = Section(
    "Bridges",
    (
        Graph(
            "Records behind Kafka",
            "Of each topic.",
            {"{{topic}}": "sum by (topic) (mirrorgate_bridge_lag_records)"},
        ),
        Graph(
            "Records per second",
            "Of each topic, accepted by the gateway.",
            {"{{topic}}": rate("mirrorgate_bridge_records_total", "topic")},
            unit="ops",
        ),
        Graph(
            "Stopped partitions",
            "The bridge's log says why.",
            {"{{topic}} {{partition}}": "mirrorgate_bridge_partition_stopped == 1"},
        ),
        Graph(
            "Objects that wait",
            "Of each table.",
            {"{{table}}": f"sum by (table) (mirrorgate_bridge_objects_waiting_objects{TABLE})"},
        ),
        Graph(
            "Messages of objects per second",
            "Of each table, accepted by the gateway.",
            {"{{table}}": rate("mirrorgate_bridge_objects_messages_total", "table", TABLE)},
            unit="ops",
        ),
        Graph(
            "Stopped tables of objects",
            "The bridge's log says why.",
            {"{{table}}": f"mirrorgate_bridge_objects_stopped{TABLE} == 1"},
        ),
    ),
    closed=True,
)
