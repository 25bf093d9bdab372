"""Open a consumer of librdkafka with the settings of the file and those that the bridge depends on."""

from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from app.bridge.kafka.cluster import QUIET
from app.bridge.kafka.settings import BridgeSettings
from app.errors import Code, Misconfigured

DEFAULTS: Final = {
    "client.id": "mirrorgate",
    "partition.assignment.strategy": "roundrobin",
    "queued.max.messages.kbytes": "32768",
    "fetch.wait.max.ms": "100",
    "fetch.queue.backoff.ms": "20",
    "allow.auto.create.topics": "false",
}
"""Settings of librdkafka that the file may change.

A partition that finds the queue of 32 MB full waits for `fetch.queue.backoff.ms` until it fetches again. With
librdkafka's second, a bridge whose gateway is slower than its brokers would mostly wait.
librdkafka 2.16 can crash in the assignor of cooperative-sticky groups (docs/decisions/0052). `range` would give a
member the first partition of every topic.
"""

FIXED: Final = {"enable.auto.commit": "false", "enable.auto.offset.store": "false", "auto.offset.reset": "error"}


def open_consumer(settings: BridgeSettings, **more: Any) -> Consumer:
    """Open a consumer without subscribing. Raises Misconfigured `bad_setting` for what librdkafka does not know."""
    given = {**_chosen(settings), **FIXED, "group.id": settings.kafka.group, **more}
    try:
        return Consumer(given, logger=QUIET)
    except (KafkaException, ValueError, TypeError) as error:
        reason = error.args[0]
        detail = f"kafka.settings: {reason.str() if isinstance(reason, KafkaError) else reason}"
        remedy = "The settings are librdkafka's: see its CONFIGURATION.md for names and values."
        raise Misconfigured(Code.BAD_SETTING, detail, remedy=remedy) from None


def check_librdkafka(settings: BridgeSettings) -> None:
    """Let librdkafka check its settings, without an address to connect to. Raises Misconfigured `bad_setting`."""
    kafka = settings.kafka.model_copy(update={"settings": {**settings.kafka.settings, "bootstrap.servers": ""}})
    open_consumer(settings.model_copy(update={"kafka": kafka})).close()


def is_incremental(settings: BridgeSettings) -> bool:
    """Return True if a rebalance moves single partitions, so that the others are read on."""
    strategy = _chosen(settings).get("partition.assignment.strategy")
    return strategy is None or strategy.startswith("cooperative")


def _chosen(settings: BridgeSettings) -> dict[str, str]:
    """Return the defaults and what the file says. The brokers assign a group of the protocol `consumer`."""
    given = settings.kafka.settings
    is_assigned_by_brokers = given.get("group.protocol", "").lower() == "consumer"
    left_out = "partition.assignment.strategy" if is_assigned_by_brokers else None
    return {**{name: value for name, value in DEFAULTS.items() if name != left_out}, **given}
