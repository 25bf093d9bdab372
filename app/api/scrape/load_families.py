"""Metrics of open load sessions, by table; a table without one has no series."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from app.api.scrape.facts import ScrapeFacts
from app.domain.loads.load_session import LoadSession

_GAUGES: Final[Mapping[str, tuple[str, Callable[[LoadSession, datetime], float]]]] = {
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


def load_families(facts: ScrapeFacts) -> Iterator[Metric]:
    """Yield the metrics of the tables that have an open load session."""
    now = datetime.now(UTC)
    for name, (help_text, measured) in _GAUGES.items():
        family = GaugeMetricFamily(name, help_text, labels=["table"])
        for table in facts.tables:
            if (load := facts.loads.get(table.table_id)) is not None:
                family.add_metric([str(table.name)], max(0.0, measured(load, now)))
        yield family
