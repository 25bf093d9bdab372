"""What one scrape of `GET /metrics` reads from the database, as metrics.

`facts` reads everything in one transaction; `table_families`, `load_families`, `fabric_families` and `gateway_families`
turn the facts into metrics and do no input or output, so that `make docs` lists all metrics without a database.
"""

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.api.scrape.fabric_families import fabric_families
from app.api.scrape.facts import ScrapeFacts
from app.api.scrape.gateway_families import gateway_families
from app.api.scrape.load_families import load_families
from app.api.scrape.table_families import table_families

__all__ = ["ScrapeFacts", "ScrapeMetrics"]


class ScrapeMetrics(Collector):
    """Collects the metrics of one scrape. Without facts, the database is away: only that is shown."""

    def __init__(self, facts: ScrapeFacts | None) -> None:
        self._facts = facts

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of the gateway and of the tables that the key can see."""
        up = GaugeMetricFamily("mirrorgate_database_up", "1 while Postgres answers; 0: metrics of tables are missing")
        up.add_metric([], float(self._facts is not None))
        yield up
        if self._facts is not None:
            yield from gateway_families(self._facts)
            yield from table_families(self._facts)
            yield from load_families(self._facts)
            yield from fabric_families(self._facts)
