"""The status of the bridge as metrics of Prometheus."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.observability.process_metrics import ProcessMetrics
from mirrorgate_bridge.objects.table import BridgeStatus

_COUNTERS = {
    "objects": "Objects that were read completely",
    "messages": "Messages that are durable at the gateway",
    "requests": "Requests that the gateway accepted",
    "bytes": "Bytes read from the store",
    "rejected": "Requests that the gateway rejected",
    "dead_letters": "Messages that the gateway kept as dead letters",
    "late": "Objects that appeared behind the position",
    "changed": "Objects that changed after they were read",
    "deleted": "Objects that were deleted before they were read completely",
}
_GAUGES = {
    "waiting_objects": "Objects that are not read completely",
    "waiting_bytes": "Size of the objects that are not read completely",
}


class StatusCollector(Collector):
    """The status as metrics of Prometheus."""

    def __init__(self, status: BridgeStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield each metric, labeled with source and table."""
        tables, labels = self._status.snapshot(), ["source", "table"]
        for name, text in _COUNTERS.items():
            counter = CounterMetricFamily(f"mirrorgate_bridge_objects_{name}", text, labels=labels)
            for table in tables:
                counter.add_metric([table.source, table.table], getattr(table, name))
            yield counter
        for name, text in _GAUGES.items():
            gauge = GaugeMetricFamily(f"mirrorgate_bridge_objects_{name}", text, labels=labels)
            for table in tables:
                gauge.add_metric([table.source, table.table], getattr(table, name))
            yield gauge
        stopped = GaugeMetricFamily("mirrorgate_bridge_objects_stopped", "1 for a stopped table", labels=labels)
        for table in tables:
            stopped.add_metric([table.source, table.table], int(table.stop is not None))
        yield stopped
        away = GaugeMetricFamily("mirrorgate_bridge_objects_source_away", "Sources that cannot be listed now")
        away.add_metric([], len(self._status.sources))
        yield away
        ready = GaugeMetricFamily("mirrorgate_bridge_objects_ready", "1 while no table is stopped and nothing waits")
        ready.add_metric([], int(not self._status.reasons()))
        yield ready


def registry_of(status: BridgeStatus) -> CollectorRegistry:
    """Return the metrics of a bridge and of its process."""
    return ProcessMetrics("object-bridge", "mirrorgate_bridge_objects", StatusCollector(status)).registry
