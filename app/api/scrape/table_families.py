"""Metrics of each table: lag, publication, state, lease, mirror, backfill. The label `table` has the table's name."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from app.api.scrape.facts import ScrapeFacts
from app.domain.health.troubles import code_in
from app.domain.mirror.table_report import MirrorState
from app.domain.model.table import Table, TableId, TableState
from app.staging.images.backfill.progress import BackfillState

_FAILING: Final = "failing"
_STATES: Final = (*(state.value for state in TableState if state is not TableState.DROPPED), _FAILING)

_GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "pending_batches": ("mirrorgate_lag_batches", "Staged batches that are not published"),
    "pending_rows": ("mirrorgate_lag_rows", "Staged rows that are not published"),
    "pending_bytes": ("mirrorgate_lag_bytes", "Staged payload bytes that are not published"),
    "oldest_seconds": ("mirrorgate_lag_oldest_seconds", "Age of the oldest unpublished batch"),
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
_TABLE: Final = ("table",)


def table_families(facts: ScrapeFacts) -> Iterator[Metric]:
    """Yield the metrics of the tables."""
    counted = [(table, facts.counts[table.table_id]) for table in facts.tables]
    yield from _of_fields(_GAUGES, GaugeMetricFamily, counted)
    yield from _of_fields(_COUNTERS, CounterMetricFamily, counted)
    yield _states(facts)
    yield _stopped(facts)
    yield _owners(facts)
    yield _backlog_shares(facts)
    yield from _mirror_families(facts)
    yield from _backfill_families(facts)


def _known(facts: ScrapeFacts, found: Mapping[TableId, object]) -> list[tuple[Table, object]]:
    return [(table, found[table.table_id]) for table in facts.tables if table.table_id in found]


def _of_fields(
    fields: Mapping[str, tuple[str, str]],
    family_type: Callable[..., GaugeMetricFamily | CounterMetricFamily],
    found: Iterable[tuple[Table, object]],
) -> Iterator[Metric]:
    """Yield one metric for each field, of the tables where it is not None."""
    found = [*found]
    for field, (name, help_text) in fields.items():
        family = family_type(name, help_text, labels=_TABLE)
        for table, values in found:
            if (value := getattr(values, field)) is not None:
                family.add_metric([str(table.name)], float(value))
        yield family


def _states(facts: ScrapeFacts) -> Metric:
    """Return 1 for the state of each table and 0 for the others; a table that fails to publish has `failing`."""
    family = GaugeMetricFamily("mirrorgate_table_state", "The table's state", labels=["table", "state"])
    for table in facts.tables:
        current = _FAILING if table.table_id in facts.failing else table.state.value
        for state in _STATES:
            family.add_metric([str(table.name), state], float(state == current))
    return family


def _stopped(facts: ScrapeFacts) -> Metric:
    """Return one series for each table that is quarantined or failing, with the error code of the reason."""
    family = GaugeMetricFamily(
        "mirrorgate_table_stopped_info",
        "1 for a table that is quarantined or failing, with the error code of the reason",
        labels=["table", "state", "code"],
    )
    for table in facts.tables:
        if (failure := facts.failing.get(table.table_id)) is not None:
            family.add_metric([str(table.name), _FAILING, failure.code], 1.0)
        elif table.state is TableState.QUARANTINED:
            reason = code_in(facts.counts[table.table_id].state_reason) or "unknown"
            family.add_metric([str(table.name), table.state.value, reason], 1.0)
    return family


def _owners(facts: ScrapeFacts) -> Metric:
    """Return one series for each table that a drain has a lease on: as many as tables, renewed by a take-over."""
    family = GaugeMetricFamily(
        "mirrorgate_table_lease_info", "1 for the live drain that has the table's lease", labels=["table", "worker"]
    )
    for table in facts.tables:
        if (owner := facts.owners.get(table.table_id)) is not None:
            family.add_metric([str(table.name), owner], 1.0)
    return family


def _backlog_shares(facts: ScrapeFacts) -> Metric:
    """Return each backlog as a share of its limit; the label `table` is empty for all tables together."""
    help_text = "The backlog as a share of its limit, of all tables together without a name; at 1 changes are rejected"
    family = GaugeMetricFamily("mirrorgate_backlog_limit_ratio", help_text, labels=_TABLE)
    if facts.total_share is not None:
        family.add_metric([""], facts.total_share)
        for table in facts.tables:
            family.add_metric([str(table.name)], facts.shares[table.table_id])
    return family


def _mirror_families(facts: ScrapeFacts) -> Iterator[Metric]:
    """Yield how far each table is mirrored, for the tables that a mirror has reported."""
    yield from _of_fields(_MIRROR_GAUGES, GaugeMetricFamily, _known(facts, facts.mirrored))
    states = GaugeMetricFamily(
        "mirrorgate_mirror_state", "What the mirror does with the table", labels=["table", "state"]
    )
    for table in facts.tables:
        if (progress := facts.mirrored.get(table.table_id)) is not None:
            for state in MirrorState:
                states.add_metric([str(table.name), state.value], float(state is progress.state))
    yield states


def _backfill_families(facts: ScrapeFacts) -> Iterator[Metric]:
    """Yield how far the last backfill of each table is, for the tables that had one."""
    yield from _of_fields(_BACKFILL_GAUGES, GaugeMetricFamily, _known(facts, facts.backfills))
    states = GaugeMetricFamily(
        "mirrorgate_image_backfill_state", "What the last backfill of row images does", labels=["table", "state"]
    )
    for table in facts.tables:
        if (backfill := facts.backfills.get(table.table_id)) is not None:
            for state in BackfillState:
                states.add_metric([str(table.name), state.value], float(state is backfill.state))
    yield states
