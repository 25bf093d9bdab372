"""The bridge as a process: health port, metrics, status at the start, and a clean end on SIGTERM and Ctrl-C.

Metrics are read from the partitions when they are scraped. Series per partition exist for `MAX_SERIES` partitions at
most; the rest is summed under the partition `other`.
"""

import signal
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from types import FrameType
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.bridge.health import Health, serving
from app.bridge.kafka.bridge import KafkaBridge
from app.bridge.kafka.partition.delivery import Counters
from app.bridge.kafka.partition.partition import Partition
from app.bridge.kafka.partition.positions import Choices
from app.bridge.kafka.settings import BridgeSettings
from app.bridge.log import BridgeLog
from app.observability.process_metrics import ProcessMetrics
from mirrorgate.process_memory import collect_seldom, keep_freed_memory

MAX_SERIES: Final = 1_000
_PREFIX: Final = "mirrorgate_bridge"
_STATES: Final = ("opening", "running", "waiting", "stopped", "closed")
_HELP: Final = {
    "records": "Records that are durable at the gateway",
    "bytes": "Bytes of the durable records in requests",
    "requests": "Requests that are durable",
    "retries": "Waits before a request or a question was repeated",
    "rejections": "Requests that the gateway rejected",
    "dead_letters": "Rejected messages that the gateway keeps as dead letters",
    "set_aside": "Rejected records that were written to the folder of rejected records",
    "skipped": "Records that the operator skipped",
    "ignored": "Tombstones that the format has no use for",
    "conflicts": "Times that another process had sent under the partition's name",
    "stops": "Times that the partition stopped",
}


class BridgeMetrics(Collector):
    """Metrics of a bridge. Counters never fall after a rebalance: ended partitions still count."""

    def __init__(self, bridge: KafkaBridge) -> None:
        self._bridge = bridge

    def collect(self) -> Iterable[Metric]:
        """Return the counters and gauges of every partition, and the number of partitions by state."""
        partitions = sorted([*self._bridge.partitions.values()], key=lambda one: (one.topic, one.number))
        for field in fields(Counters):
            metric = CounterMetricFamily(f"{_PREFIX}_{field.name}", _HELP[field.name], labels=["topic", "partition"])
            for labels, value in self._counted(partitions, field.name).items():
                metric.add_metric(list(labels), value)
            yield metric
        for name, text, value_of in (
            ("last_offset", "Last durable offset", lambda one: one.last_offset),
            ("lag_records", "Offsets after the last durable one", lambda one: one.lag),
            ("buffered_bytes", "Bytes in memory", lambda one: one.buffer.bytes),
            ("partition_stopped", "1 while the partition is stopped", lambda one: int(one.state.name == "stopped")),
            ("paused", "1 while the consumer does not read the partition", lambda one: int(one.is_paused)),
        ):
            yield _gauge(name, text, partitions, value_of)
        states = GaugeMetricFamily(f"{_PREFIX}_partitions", "Assigned partitions by state", labels=["state"])
        for state in _STATES:
            states.add_metric([state], sum(one.state.name == state for one in partitions))
        yield states
        ready = GaugeMetricFamily(f"{_PREFIX}_ready", "1 while every partition runs and the brokers answer")
        ready.add_metric([], int(not self._bridge.reasons()))
        yield ready

    def _counted(self, partitions: Iterable[Partition], name: str) -> dict[tuple[str, str], int]:
        counted: dict[tuple[str, str], int] = {}
        found = [*self._bridge.ended.items(), *(((one.topic, one.number), one.counters) for one in partitions)]
        for (topic, number), counters in found:
            labels = (topic, str(number))
            if labels not in counted and len(counted) >= MAX_SERIES:
                labels = (
                    (topic, "other") if (topic, "other") in counted or len(counted) < 2 * MAX_SERIES else ("other",) * 2
                )
            counted[labels] = counted.get(labels, 0) + getattr(counters, name)
        return counted


def registry_of(bridge: KafkaBridge) -> CollectorRegistry:
    """Return the metrics of a bridge and of its process."""
    return ProcessMetrics("kafka-bridge", _PREFIX, BridgeMetrics(bridge)).registry


def _gauge(name: str, text: str, partitions: Iterable[Partition], value_of: Any) -> GaugeMetricFamily:
    metric = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=["topic", "partition"])
    for one in [*partitions][:MAX_SERIES]:
        value = value_of(one)
        if value is not None:
            metric.add_metric([one.topic, str(one.number)], value)
    return metric


def serve(settings: BridgeSettings, choices: Choices) -> None:
    """Run the bridge until SIGTERM or SIGINT. A second signal ends the process at once; nothing is lost by that."""
    keep_freed_memory()
    collect_seldom()  # buffers hold many records, which collections would visit and never find garbage
    stop = threading.Event()

    def end(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    log = BridgeLog(settings.log)
    bridge = KafkaBridge(settings, choices, log, stop)
    health = Health(registry_of(bridge), lambda: _status(bridge), bridge.reasons, bridge.is_alive)
    with serving(health, settings.health) as port:
        log.info(
            "bridge_starts",
            gateway=settings.gateway.url,
            brokers=settings.kafka.settings["bootstrap.servers"],
            cluster=settings.kafka.cluster,
            group=settings.kafka.group,
            topics=", ".join(f"{rule.name} ({rule.format})" for rule in settings.topics),
            health=f"http://{settings.health.host}:{port}/readyz",
        )
        bridge.run()
    log.info("bridge_ended")


def _status(bridge: KafkaBridge) -> dict[str, Any]:
    """Return what `/readyz` tells beside the reasons: the states, and the partitions that do not run."""
    partitions = [*bridge.partitions.values()]
    troubled = [one for one in partitions if not one.is_well][:100]
    return {
        "partitions": Counter(one.state.name for one in partitions),
        "topics": bridge.watch.topics[:100] if bridge.watch else [],
        "not_running": [
            {
                "topic": one.topic,
                "partition": one.number,
                "state": one.state.name,
                "offset": one.state.offset,
                "code": one.state.code,
                "detail": one.state.detail,
                "pointer": one.state.pointer,
                "remedy": one.state.remedy,
            }
            for one in troubled
        ],
    }
