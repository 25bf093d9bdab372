"""Metrics that each scrape reads from the database: of the tables that the key can see, and of the gateway."""

from collections.abc import Container, Iterable, Mapping
from importlib.metadata import version
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from app.api.gateway import Gateway
from app.domain.access.rights import Principal
from app.domain.mirror.table_report import MirrorState
from app.domain.model.table import Table, TableId, TableState
from app.staging.connection.database import Connection
from app.staging.connection.schema_revision import program_revision
from app.staging.ledger.fabric_status import fabric_statuses
from app.staging.ledger.failures import failing_tables
from app.staging.ledger.leases import live_workers
from app.staging.mirror.progress import MirrorProgress, mirror_progress
from app.staging.tables.registry import list_tables
from app.staging.tables.status import TableCounts, count_tables

_FAILING: Final = "failing"
_STATES: Final = (*(state.value for state in TableState if state is not TableState.DROPPED), _FAILING)

_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "pending_batches": ("mirrorgate_lag_batches", "Staged batches that are not published"),
    "pending_rows": ("mirrorgate_lag_rows", "Staged rows that are not published"),
    "pending_bytes": ("mirrorgate_lag_bytes", "Staged payload bytes that are not published"),
    "oldest_seconds": ("mirrorgate_lag_oldest_seconds", "Age of the oldest unpublished batch"),
    "waiting_letters": ("mirrorgate_waiting_dead_letters", "Dead letters that wait for replay or discard"),
}
_MIRROR_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "version": ("mirrorgate_mirror_version", "Delta version of the mirrored table"),
    "file_number": ("mirrorgate_mirror_file_number", "Last landing file that the mirror has applied"),
    "lag_seconds": (
        "mirrorgate_mirror_lag_seconds",
        "Age of the oldest published file that the mirror has not applied",
    ),
}
_COUNTERS: Final[Mapping[str, tuple[str, str]]] = {
    "published_files": ("mirrorgate_published_files", "Published landing files; starts at 0 in each generation"),
    "published_rows": ("mirrorgate_published_rows", "Published rows; starts at 0 in each generation"),
}


class TableMetrics(Collector):
    """Collects lag, publication and state of each table, and the drains, in the scrape's transaction."""

    def __init__(self, connection: Connection, principal: Principal, gateway: Gateway) -> None:
        self._connection = connection
        self._principal = principal
        self._gateway = gateway

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering this collector does not query the database."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Query the database and yield the metrics."""
        tables = [table for table in list_tables(self._connection) if self._principal.may_touch(table.name)]
        counts = count_tables(self._connection, [table.table_id for table in tables])
        yield from _count_metrics(tables, counts)
        yield _states(tables, failing_tables(self._connection, [table.table_id for table in tables]))
        yield self._processed_rows(tables)
        yield from _mirror_metrics(tables, mirror_progress(self._connection, [table.table_id for table in tables]))
        yield self._backlog_shares(tables)
        drains = GaugeMetricFamily("mirrorgate_drain_workers", "Drains with a valid lease")
        drains.add_metric([], live_workers(self._connection))
        yield drains
        build = InfoMetricFamily("mirrorgate_build", "Program version and schema revision")
        build.add_metric([], {"version": version("mirrorgate"), "revision": program_revision()})
        yield build

    def _processed_rows(self, tables: list[Table]) -> Metric:
        family = GaugeMetricFamily(
            "mirrorgate_processed_rows", "Rows that Fabric reports as processed", labels=["table"]
        )
        states = fabric_statuses(self._connection, [table.table_id for table in tables])
        for table in tables:
            state = states.get(table.table_id)
            if state is not None and state.processed_rows is not None:
                family.add_metric([str(table.name)], state.processed_rows)
        return family

    def _backlog_shares(self, tables: list[Table]) -> Metric:
        """Return each backlog as a share of its limit; the label `table` is empty for all tables together."""
        help_text = "The backlog as a share of its limit; at 1 changes are rejected"
        family = GaugeMetricFamily("mirrorgate_backlog_limit_ratio", help_text, labels=["table"])
        if (backlog := self._gateway.ingest.backlog) is not None:
            family.add_metric([""], backlog.total_share())
            for table in tables:
                family.add_metric([str(table.name)], backlog.share_of(table))
        return family


def _count_metrics(tables: list[Table], counts: Mapping[TableId, TableCounts]) -> Iterable[Metric]:
    for families, family_type in ((_GAUGES, GaugeMetricFamily), (_COUNTERS, CounterMetricFamily)):
        for field, (name, help_text) in families.items():
            family = family_type(name, help_text, labels=["table"])
            for table in tables:
                family.add_metric([str(table.name)], float(getattr(counts[table.table_id], field)))
            yield family


def _mirror_metrics(tables: list[Table], mirrored: Mapping[TableId, MirrorProgress]) -> Iterable[Metric]:
    """Yield how far each table is mirrored, for the tables that a mirror has reported."""
    found = [(str(table.name), mirrored[table.table_id]) for table in tables if table.table_id in mirrored]
    for field, (name, help_text) in _MIRROR_GAUGES.items():
        family = GaugeMetricFamily(name, help_text, labels=["table"])
        for table, progress in found:
            if (value := getattr(progress, field)) is not None:
                family.add_metric([table], float(value))
        yield family
    states = GaugeMetricFamily(
        "mirrorgate_mirror_state", "What the mirror does with the table", labels=["table", "state"]
    )
    for table, progress in found:
        for state in MirrorState:
            states.add_metric([table, state.value], float(state is progress.state))
    yield states


def _states(tables: list[Table], failing: Container[TableId]) -> Metric:
    """Return 1 for the state of each table and 0 for the others; a table that fails to publish has `failing`."""
    family = GaugeMetricFamily("mirrorgate_table_state", "The table's state", labels=["table", "state"])
    for table in tables:
        current = _FAILING if table.table_id in failing else table.state.value
        for state in _STATES:
            family.add_metric([str(table.name), state], float(state == current))
    return family
