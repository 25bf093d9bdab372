"""Open a consumer of librdkafka with the settings of the file and those that the bridge depends on."""

from dataclasses import replace
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException

from app.bridge.kafka.cluster import QUIET
from app.bridge.kafka.settings import BridgeSettings
from app.errors import Code, Misconfigured

DEFAULTS: Final = {
    "client.id": "mirrorgate",
    "partition.assignment.strategy": "cooperative-sticky",
    "queued.max.messages.kbytes": "32768",
    "fetch.wait.max.ms": "100",
    "allow.auto.create.topics": "false",
}
"""Settings of librdkafka that the file may change."""

FIXED: Final = {"enable.auto.commit": "false", "enable.auto.offset.store": "false", "auto.offset.reset": "error"}


def open_consumer(settings: BridgeSettings, **more: Any) -> Consumer:
    """Open a consumer without subscribing. Raises Misconfigured `bad_setting` for what librdkafka does not know."""
    given = {**DEFAULTS, **settings.kafka.settings, **FIXED, "group.id": settings.kafka.group, **more}
    try:
        return Consumer(given, logger=QUIET)
    except (KafkaException, ValueError, TypeError) as error:
        reason = error.args[0]
        detail = f"kafka.settings: {reason.str() if isinstance(reason, KafkaError) else reason}"
        remedy = "The settings are librdkafka's: see its CONFIGURATION.md for names and values."
        raise Misconfigured(Code.BAD_SETTING, detail, remedy=remedy) from None


def check_librdkafka(settings: BridgeSettings) -> None:
    """Let librdkafka check its settings, without an address to connect to. Raises Misconfigured `bad_setting`."""
    kafka = replace(settings.kafka, settings={**settings.kafka.settings, "bootstrap.servers": ""})
    open_consumer(replace(settings, kafka=kafka)).close()


def is_incremental(settings: BridgeSettings) -> bool:
    """Return True if a rebalance moves single partitions, so that the others are read on."""
    given = {**DEFAULTS, **settings.kafka.settings}
    return given["partition.assignment.strategy"].startswith("cooperative") or given.get("group.protocol") == "consumer"
