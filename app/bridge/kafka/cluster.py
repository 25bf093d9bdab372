"""The consumer of librdkafka, and what it asks the brokers beside records: topics, ends of logs, ids, offsets by time.

Every call has a deadline. Errors become SOURCE_UNAVAILABLE, which passes, or SOURCE_REJECTED, which needs a person.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from app.bridge.kafka.partition.positions import Log
from app.bridge.kafka.settings import BridgeSettings
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable

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
librdkafka 2.16 can crash in the assignor of cooperative-sticky groups (docs/contribute/decisions/0052). `range` would
give a member the first partition of every topic.
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


_SECONDS: Final = 10.0
_REJECTED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._AUTHENTICATION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)

QUIET: Final = logging.getLogger("mirrorgate.librdkafka")
"""librdkafka's own lines: the bridge reports what matters of them itself, with a code and a bounded rate."""
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False


def error_of(error: KafkaError) -> MirrorgateError:
    """Return an error of librdkafka as one of Mirrorgate."""
    detail = f"Kafka: {error.name()}: {error.str()}"
    if error.code() in _REJECTED:
        return Misconfigured(Code.SOURCE_REJECTED, detail)
    return TemporarilyUnavailable(Code.SOURCE_UNAVAILABLE, detail)


class Cluster:
    """Facts about a cluster, from a consumer that reads nothing and an admin client, which knows the ids of topics.

    Threads may still ask when the bridge's own consumer closes, which must not have calls in progress.
    """

    def __init__(self, consumer: Consumer, settings: Mapping[str, str]) -> None:
        """Take a consumer that is used for nothing else."""
        self._consumer = consumer
        self._settings: dict[str, str | int | float | bool] = {**settings}
        self._admin: AdminClient | None = None
        self._has_controller = False
        self._ids: dict[str, str | None] = {}
        self.partitions: dict[str, int] = {}
        """The number of partitions of each topic, as `topics` found it last."""

    def topics(self) -> dict[str, int]:
        """Return the number of partitions of every topic that can be seen. Raises MirrorgateError."""
        try:
            found = self._consumer.list_topics(timeout=_SECONDS)
        except KafkaException as error:
            raise error_of(error.args[0]) from None
        self._has_controller = found.controller_id in found.brokers
        self.partitions = {name: len(topic.partitions) for name, topic in found.topics.items() if topic.error is None}
        return self.partitions

    def log(self, topic: str, partition: int) -> Log:
        """Return the state of a partition's log. Raises MirrorgateError."""
        try:
            offsets = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
        except KafkaException as error:
            raise error_of(error.args[0]) from None
        if offsets is None:
            raise TemporarilyUnavailable(Code.SOURCE_UNAVAILABLE, f"Kafka: {topic}/{partition} does not answer")
        return Log(offsets[0], offsets[1], self._ids.get(topic), self.partitions.get(topic, partition + 1))

    def learn_ids(self, topics: Iterable[str]) -> None:
        """Ask once for the id of each topic. Old brokers have none, and a missing right hides it."""
        unknown = [topic for topic in topics if topic not in self._ids]
        if not unknown or not self._has_controller:
            return
        if self._admin is None:
            self._admin = AdminClient(self._settings, logger=QUIET)
        for topic, answer in self._admin.describe_topics(TopicCollection(unknown), request_timeout=_SECONDS).items():
            try:
                identity = str(answer.result().topic_id)
            except KafkaException:
                continue
            self._ids[topic] = None if set(identity) <= set("A=") else identity

    def offset_at(self, topic: str, partition: int, moment: datetime) -> int | None:
        """Return the first offset at or after a time, None if there is none. Raises MirrorgateError."""
        asked = TopicPartition(topic, partition, int(moment.timestamp() * 1000))
        try:
            [found] = self._consumer.offsets_for_times([asked], timeout=_SECONDS)
        except KafkaException as error:
            raise error_of(error.args[0]) from None
        return int(found.offset) if found.offset >= 0 else None

    def committed(self, topic: str, partition: int) -> int | None:
        """Return the offset that the group has committed, None without one. Raises MirrorgateError."""
        try:
            [found] = self._consumer.committed([TopicPartition(topic, partition)], timeout=_SECONDS)
        except KafkaException as error:
            raise error_of(error.args[0]) from None
        return int(found.offset) if found.offset >= 0 else None
