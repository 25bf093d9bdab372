"""Metrics of Fabric's side: the mirrored database, its tables, and how old what is known of them is."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from app.api.scrape.facts import ScrapeFacts
from app.domain.fabric.states import DatabaseState, MirroringState, parse_mirroring_state, parse_state

_COUNTERS: Final = {
    "processed_rows": ("mirrorgate_fabric_processed_rows", "Rows that Fabric reports as processed"),
    "processed_bytes": ("mirrorgate_fabric_processed_bytes", "Bytes that Fabric reports as processed"),
}
_TABLE: Final = ("table",)


def fabric_families(facts: ScrapeFacts) -> Iterator[Metric]:
    """Yield the metrics; those of the database have no series where no drain asks Fabric's API."""
    yield from _database(facts)
    yield _states(facts)
    yield from _progress(facts)


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


def _states(facts: ScrapeFacts) -> Metric:
    """Return 1 for Fabric's state of each table and 0 for the others; a stopped table with an error has failed."""
    family = GaugeMetricFamily(
        "mirrorgate_fabric_table_state",
        "1 for Fabric's state of the table, 0 for the others",
        labels=["table", "state"],
    )
    for table in facts.tables:
        if (status := facts.fabric.get(table.table_id)) is not None:
            current = parse_mirroring_state(status.state, has_error=status.error is not None)
            for state in MirroringState:
                family.add_metric([str(table.name), state.value], float(state is current))
    return family


def _progress(facts: ScrapeFacts) -> Iterator[Metric]:
    """Yield what Fabric has processed of each table, and how long ago it did."""
    now = datetime.now(UTC)
    known = [(str(table.name), found) for table in facts.tables if (found := facts.fabric.get(table.table_id))]
    for field, (name, help_text) in _COUNTERS.items():
        counter = CounterMetricFamily(name, help_text, labels=_TABLE)
        for table, status in known:
            if (value := getattr(status, field)) is not None:
                counter.add_metric([table], float(value))
        yield counter
    ages = GaugeMetricFamily(
        "mirrorgate_fabric_last_sync_age_seconds", "Time since Fabric last synchronized the table", labels=_TABLE
    )
    for table, status in known:
        if status.last_sync_at is not None:
            ages.add_metric([table], max(0.0, (now - status.last_sync_at).total_seconds()))
    yield ages
