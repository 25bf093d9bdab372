"""Metrics that one scrape of `GET /metrics` reads from the database.

`read_facts` reads everything in one transaction. The rest does no input or output, so that `make docs` lists all
metrics without a database. The label `table` has the table's name.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.api.gateway import Gateway
from app.domain.access.rights import Principal
from app.domain.fabric import DatabaseState, MirroringState, parse_mirroring_state, parse_state
from app.domain.health.facts import GatewayFacts
from app.domain.health.troubles import code_in
from app.domain.loads import LoadSession
from app.domain.mirror_report import MirrorState
from app.domain.model.table import TableId, TableState
from app.staging.connection.database import Connection
from app.staging.images import BackfillState
from app.staging.ledger.leases import lease_owners
from app.staging.overview import TableFacts, find_facts
from app.staging.tables.registry import list_tables
from app.staging.tables.status import AllImages, all_images, gateway_facts

_FAILING: Final = "failing"
_STATES: Final = (*(state.value for state in TableState if state is not TableState.DROPPED), _FAILING)

_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "pending_batches": ("mirrorgate_lag_batches", "Staged batches that are not published"),
    "pending_rows": ("mirrorgate_lag_rows", "Staged rows that are not published"),
    "pending_bytes": ("mirrorgate_lag_bytes", "Staged payload bytes that are not published"),
    "oldest_seconds": ("mirrorgate_lag_oldest_seconds", "Age of the oldest unpublished batch"),
    "source_lag_seconds": (
        "mirrorgate_source_lag_seconds",
        "Time from the commit in the source to the acceptance of the last change; none without a recent change",
    ),
    "extraction_lag_seconds": (
        "mirrorgate_source_extraction_lag_seconds",
        "The part of that time in which the tool had not read the change in the source's log, if it tells",
    ),
    "missing_changes": (
        "mirrorgate_missing_changes",
        "Changes that are missing by Arcion's counts of operations; starts at 0 in each generation",
    ),
    "waiting_letters": ("mirrorgate_waiting_dead_letters", "Dead letters that wait for replay or discard"),
    "oldest_letter_seconds": (
        "mirrorgate_waiting_dead_letters_oldest_seconds",
        "Age of the oldest waiting dead letter",
    ),
}
_COUNTERS: Final[Mapping[str, tuple[str, str]]] = {
    "accepted_changes": ("mirrorgate_table_accepted_changes", "Accepted changes; starts at 0 in each generation"),
    "accepted_rows": ("mirrorgate_table_accepted_rows", "Accepted rows; starts at 0 in each generation"),
    "published_files": ("mirrorgate_published_files", "Published landing files; starts at 0 in each generation"),
    "published_rows": ("mirrorgate_published_rows", "Published rows; starts at 0 in each generation"),
}
_MIRROR_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "version": ("mirrorgate_mirror_version", "Delta version of the mirrored table"),
    "file_number": ("mirrorgate_mirror_file_number", "Last landing file that the mirror has applied"),
    "lag_seconds": (
        "mirrorgate_mirror_lag_seconds",
        "Age of the oldest published file that the mirror has not applied",
    ),
}
_BACKFILL_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "rows_done": ("mirrorgate_image_backfill_rows", "Rows that the last backfill of the table's row images has read"),
    "rows_total": ("mirrorgate_image_backfill_expected_rows", "Rows that it had to read when it began or continued"),
    "batches_done": ("mirrorgate_image_backfill_batches", "Last batch whose rows all have images"),
}
_LOAD_GAUGES: Final[Mapping[str, tuple[str, Callable[[LoadSession, datetime], float]]]] = {
    "mirrorgate_load_age_seconds": (
        "Age of the open load session",
        lambda load, now: (now - load.started_at).total_seconds(),
    ),
    "mirrorgate_load_last_request_age_seconds": (
        "Time since a request last used the open load session",
        lambda load, now: load.idle_seconds - (load.expires_at - now).total_seconds(),
    ),
    "mirrorgate_load_remaining_seconds": (
        "Time until the open load session expires if no request uses it",
        lambda load, now: (load.expires_at - now).total_seconds(),
    ),
    "mirrorgate_load_rows": ("Rows that the open load session has landed", lambda load, _: load.rows),
}
_FABRIC_COUNTERS: Final = {
    "processed_rows": ("mirrorgate_fabric_processed_rows", "Rows that Fabric reports as processed"),
    "processed_bytes": ("mirrorgate_fabric_processed_bytes", "Bytes that Fabric reports as processed"),
}
_TABLE: Final = ("table",)


@dataclass(frozen=True, slots=True)
class ScrapeFacts:
    """The facts behind the metrics of one scrape: of the tables that the key can see, and of the gateway."""

    gateway: GatewayFacts | None = None
    images: AllImages | None = None
    tables: Sequence[TableFacts] = ()
    owners: Mapping[TableId, str] = field(default_factory=dict)
    """The drain that has a table's lease."""
    total_share: float | None = None
    """The backlog of all tables as a share of its limit; None while it is not watched."""
    shares: Mapping[TableId, float] = field(default_factory=dict)


def read_facts(connection: Connection, principal: Principal, gateway: Gateway) -> ScrapeFacts:
    """Read the facts for a key."""
    tables = [table for table in list_tables(connection) if principal.may_touch(table.name)]
    backlog = gateway.ingest.backlog
    return ScrapeFacts(
        gateway=gateway_facts(connection),
        images=all_images(connection),
        tables=find_facts(connection, tables, with_images=False),
        owners=lease_owners(connection, [table.table_id for table in tables]),
        total_share=None if backlog is None else backlog.total_share(),
        shares={} if backlog is None else {table.table_id: backlog.share_of(table) for table in tables},
    )


class ScrapeMetrics(Collector):
    """Metrics of one scrape. Without facts, Postgres is unreachable: only that is shown."""

    def __init__(self, facts: ScrapeFacts | None) -> None:
        self._facts = facts

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of the gateway and of the tables that the key can see."""
        up = GaugeMetricFamily("mirrorgate_database_up", "1 while Postgres answers; 0: metrics of tables are missing")
        up.add_metric([], float(self._facts is not None))
        yield up
        if self._facts is not None:
            yield from _gateway_families(self._facts)
            yield from _table_families(self._facts)
            yield from _load_families(self._facts)
            yield from _fabric_families(self._facts)


def _table_families(facts: ScrapeFacts) -> Iterator[Metric]:
    yield from _of_fields(_GAUGES, GaugeMetricFamily, facts, lambda table: table.counts)
    yield from _of_fields(_COUNTERS, CounterMetricFamily, facts, lambda table: table.counts)
    yield _one_of(
        "mirrorgate_table_state",
        "The table's state",
        facts,
        _STATES,
        lambda table: table.table.state.value if table.failure is None else _FAILING,
    )
    yield _stopped(facts)
    yield _owners(facts)
    yield _backlog_shares(facts)
    yield from _of_fields(_MIRROR_GAUGES, GaugeMetricFamily, facts, lambda table: table.mirror)
    yield _one_of(
        "mirrorgate_mirror_state",
        "What the mirror does with the table",
        facts,
        MirrorState,
        lambda table: None if table.mirror is None else table.mirror.state,
    )
    yield from _of_fields(_BACKFILL_GAUGES, GaugeMetricFamily, facts, lambda table: table.present_backfill)
    yield _one_of(
        "mirrorgate_image_backfill_state",
        "What the last backfill of row images does",
        facts,
        BackfillState,
        lambda table: None if table.present_backfill is None else table.present_backfill.state,
    )


def _of_fields(
    fields: Mapping[str, tuple[str, str]],
    family_type: Callable[..., GaugeMetricFamily | CounterMetricFamily],
    facts: ScrapeFacts,
    found: Callable[[TableFacts], object | None],
) -> Iterator[Metric]:
    """Yield one metric for each field of what is found of a table, where neither is None."""
    known = [(str(table.table.name), values) for table in facts.tables if (values := found(table)) is not None]
    for name_of_field, (name, help_text) in fields.items():
        family = family_type(name, help_text, labels=_TABLE)
        for table, values in known:
            if (value := getattr(values, name_of_field)) is not None:
                family.add_metric([table], float(value))
        yield family


def _one_of(
    name: str,
    help_text: str,
    facts: ScrapeFacts,
    states: Iterable[str],
    current: Callable[[TableFacts], str | None],
) -> Metric:
    """Return 1 for the present state of each table and 0 for the others; nothing where it is None."""
    family = GaugeMetricFamily(name, help_text, labels=["table", "state"])
    states = [*states]
    for table in facts.tables:
        if (present := current(table)) is not None:
            for state in states:
                family.add_metric([str(table.table.name), state], float(state == present))
    return family


def _stopped(facts: ScrapeFacts) -> Metric:
    """Return one series for each table that is quarantined or failing, with the error code of the reason."""
    family = GaugeMetricFamily(
        "mirrorgate_table_stopped_info",
        "1 for a table that is quarantined or failing, with the error code of the reason",
        labels=["table", "state", "code"],
    )
    for table in facts.tables:
        name = str(table.table.name)
        if table.failure is not None:
            family.add_metric([name, _FAILING, table.failure.code], 1.0)
        elif table.table.state is TableState.QUARANTINED:
            reason = code_in(table.counts.state_reason) or "unknown"
            family.add_metric([name, table.table.state.value, reason], 1.0)
    return family


def _owners(facts: ScrapeFacts) -> Metric:
    """Return one series for each table that a drain has a lease on: as many as tables, renewed by a take-over."""
    family = GaugeMetricFamily(
        "mirrorgate_table_lease_info", "1 for the live drain that has the table's lease", labels=["table", "worker"]
    )
    for table in facts.tables:
        if (owner := facts.owners.get(table.table.table_id)) is not None:
            family.add_metric([str(table.table.name), owner], 1.0)
    return family


def _backlog_shares(facts: ScrapeFacts) -> Metric:
    """Return each backlog as a share of its limit; the label `table` is empty for all tables together."""
    help_text = "The backlog as a share of its limit, of all tables together without a name; at 1 changes are rejected"
    family = GaugeMetricFamily("mirrorgate_backlog_limit_ratio", help_text, labels=_TABLE)
    if facts.total_share is not None:
        family.add_metric([""], facts.total_share)
        for table in facts.tables:
            family.add_metric([str(table.table.name)], facts.shares[table.table.table_id])
    return family


def _load_families(facts: ScrapeFacts) -> Iterator[Metric]:
    """Yield the metrics of the tables that have an open load session."""
    now = datetime.now(UTC)
    for name, (help_text, measured) in _LOAD_GAUGES.items():
        family = GaugeMetricFamily(name, help_text, labels=_TABLE)
        for table in facts.tables:
            if table.load is not None:
                family.add_metric([str(table.table.name)], max(0.0, measured(table.load, now)))
        yield family


def _fabric_families(facts: ScrapeFacts) -> Iterator[Metric]:
    """Yield the metrics of Fabric's side; those of the database have no series where no drain asks Fabric's API."""
    yield from _database(facts)
    yield _one_of(
        "mirrorgate_fabric_table_state",
        "1 for Fabric's state of the table, 0 for the others",
        facts,
        MirroringState,
        lambda table: (
            None
            if table.fabric is None
            else parse_mirroring_state(table.fabric.state, has_error=table.fabric.error is not None)
        ),
    )
    yield from _of_fields(_FABRIC_COUNTERS, CounterMetricFamily, facts, lambda table: table.fabric)
    ages = GaugeMetricFamily(
        "mirrorgate_fabric_last_sync_age_seconds", "Time since Fabric last synchronized the table", labels=_TABLE
    )
    now = datetime.now(UTC)
    for table in facts.tables:
        if table.fabric is not None and table.fabric.last_sync_at is not None:
            age = (now - table.fabric.last_sync_at).total_seconds()
            ages.add_metric([str(table.table.name)], max(0.0, age))
    yield ages


def _database(facts: ScrapeFacts) -> Iterable[Metric]:
    states = GaugeMetricFamily(
        "mirrorgate_fabric_database_state",
        "1 for the state of the mirrored database, 0 for the others",
        labels=["state"],
    )
    age = GaugeMetricFamily(
        "mirrorgate_fabric_status_age_seconds", "Age of the last answer of Fabric's API about the mirrored database"
    )
    if facts.gateway is not None and (database := facts.gateway.fabric) is not None:
        age.add_metric([], max(0.0, database.answer_seconds))
        if database.state is not None:
            current = parse_state(database.state)
            for state in DatabaseState:
                states.add_metric([state.value], float(state is current))
    return states, age


def _gateway_families(facts: ScrapeFacts) -> Iterable[Metric]:
    """Return the metrics of drains, clocks and row images."""
    drains = GaugeMetricFamily("mirrorgate_drain_workers", "Drains with a valid lease")
    waiting = GaugeMetricFamily(
        "mirrorgate_drain_workers_waiting", "Drains that publish nothing, by error code of the reason", labels=["code"]
    )
    clock = GaugeMetricFamily(
        "mirrorgate_clock_behind_seconds",
        "How far a clock is behind that of Postgres, negative if it is ahead: of this API process and of the drain "
        "that is furthest off",
        labels=["process"],
    )
    future = GaugeMetricFamily(
        "mirrorgate_future_batches", "Unpublished blocks from the future: the clock of Postgres was set back"
    )
    if (gateway := facts.gateway) is not None:
        drains.add_metric([], gateway.drains)
        if gateway.waits_for is not None:
            waiting.add_metric([gateway.waits_for], gateway.waiting_drains)
        clock.add_metric(["api"], gateway.clock_behind_seconds)
        clock.add_metric(["drain"], gateway.drain_clock_behind_seconds)
        future.add_metric([], gateway.future_batches)
    rows = GaugeMetricFamily("mirrorgate_row_images", "Row images of all tables, as estimated by Postgres")
    size = GaugeMetricFamily("mirrorgate_row_images_bytes", "Space that the row images of all tables need in Postgres")
    if facts.images is not None:
        rows.add_metric([], facts.images.rows)
        size.add_metric([], facts.images.bytes)
    return drains, waiting, clock, future, rows, size
