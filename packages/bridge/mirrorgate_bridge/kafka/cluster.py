"""The consumer of librdkafka, what it asks the brokers beside records, and the second stage of `--check`.

`Cluster` gives every call a deadline. `error_of` turns errors into SOURCE_UNAVAILABLE, which passes, or
SOURCE_REJECTED, which needs a person.

`check_connections` asks the gateway and the brokers what the file needs, without consuming or sending. Its findings are
facts for people: topics with their partitions and the format and tables that they go to, positions that are known
already, and rights that are missing.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from mirrorgate.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable
from mirrorgate.errors.codes import Kind
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.parameters import table_path
from mirrorgate.producer import Patience, Producer
from mirrorgate_bridge.kafka.buffer import SNAPSHOTS_REMEDY, Log, parameters_of, producer_name
from mirrorgate_bridge.kafka.registry import SchemaRegistry, registry_of
from mirrorgate_bridge.kafka.settings import BridgeSettings, TopicRule, rule_of

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
        self.ids: dict[str, str | None] = {}
        """The id of each topic, as `learn_ids` found it last."""
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
        return Log(offsets[0], offsets[1], self.ids.get(topic), self.partitions.get(topic, partition + 1))

    def learn_ids(self, topics: Iterable[str]) -> None:
        """Ask for the id of each topic. Old brokers have none, and a missing right hides it."""
        asked = [*topics]
        if not asked or not self._has_controller:
            return
        if self._admin is None:
            self._admin = AdminClient(self._settings, logger=QUIET)
        for topic, answer in self._admin.describe_topics(TopicCollection(asked), request_timeout=_SECONDS).items():
            try:
                identity = str(answer.result().topic_id)
            except KafkaException:
                continue
            self.ids[topic] = None if set(identity) <= set("A=") else identity

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


_OF_THE_REQUEST: Final = frozenset({Kind.UNAUTHENTICATED, Kind.FORBIDDEN, Kind.MISSING, Kind.CONFLICT})

MAX_TOPICS: Final = 1_000
"""Topics that are reported; more are counted."""


@dataclass(frozen=True)
class CheckLine:
    """One line of the report."""

    is_good: bool
    text: str
    remedy: str | None = None


def check_connections(settings: BridgeSettings) -> Iterator[CheckLine]:
    """Yield what is found, first about the gateway, then about the brokers and each topic."""
    with settings.gateway.client() as client:
        yield _gateway(settings, client)
        cluster = Cluster(open_consumer(settings), {**DEFAULTS, **settings.kafka.settings})
        try:
            counts = cluster.topics()
        except MirrorgateError as error:
            yield CheckLine(
                False, f"brokers {settings.kafka.settings['bootstrap.servers']}: {error.detail}", error.remedy
            )
            return
        yield CheckLine(True, f"brokers answer: {len(counts)} topics can be seen")
        yield from _topics(settings, client, cluster, counts)
        if (registry := registry_of(settings.registry)) is not None:
            yield _registry(registry)


def _topics(
    settings: BridgeSettings, client: GatewayClient, cluster: Cluster, counts: dict[str, int]
) -> Iterator[CheckLine]:
    found = {topic: rule_of(topic, settings.topics) for topic in sorted(counts) if not topic.startswith("__")}
    for rule in settings.topics:
        topics = [topic for topic, matched in found.items() if matched is rule]
        if not topics:
            remedy = "Create it, correct `topic` or `pattern`, or grant Describe and Read on it."
            yield CheckLine(
                rule.topic is None, f"{rule.name}: no topic matches", None if rule.topic is None else remedy
            )
        for topic in topics[:MAX_TOPICS]:
            yield from _topic(settings, rule, topic, client, cluster)
        if len(topics) > MAX_TOPICS:
            yield CheckLine(True, f"{rule.name}: and {len(topics) - MAX_TOPICS} more topics")


def _topic(
    settings: BridgeSettings, rule: TopicRule, topic: str, client: GatewayClient, cluster: Cluster
) -> Iterator[CheckLine]:
    partitions = cluster.partitions[topic]
    name = producer_name(settings.kafka.cluster, settings.kafka.group, topic, 0)
    try:
        log = cluster.log(topic, 0)
        position = Producer.open(client, name, Patience(give_up_after=5)).position
    except MirrorgateError as error:
        yield CheckLine(False, f"{topic}: {error.detail}", error.remedy)
        return
    start = f"continues after {position}" if position else f"starts at {rule.start}"
    offsets = f"partition 0 has offsets {log.low} to {log.high} and {start}"
    table = rule.fixed_table(topic)
    goes_to = f"table {table}" if table else "tables that the records name"
    yield CheckLine(True, f"{topic}: {partitions} partitions, {rule.format} to {goes_to}; {offsets}")
    if (problem := _sending(client, rule, topic, table)) is not None:
        yield problem
    if partitions > 1 and rule.format == "debezium":
        yield _snapshots(client, topic, table or ".".join(topic.split(".")[-2:]))


def _gateway(settings: BridgeSettings, client: GatewayClient) -> CheckLine:
    where = settings.gateway.url
    try:
        Producer.open(client, "kafka:check", Patience(give_up_after=5))
    except MirrorgateError as error:
        return CheckLine(False, f"gateway {where}: {error.detail}", error.remedy)
    return CheckLine(True, f"gateway {where} answers, and its key may send changes")


def _sending(client: GatewayClient, rule: TopicRule, topic: str, table: str | None) -> CheckLine | None:
    """Ask the gateway by a dry run of no message whether it takes the rule's parameters and table."""
    parameters = {**parameters_of(rule, topic, 0, table), "dry_run": "true"}
    parameters.pop("on_reject", None)
    try:
        if table is not None and rule.format == "arcion" and not _may_exist(client, table):
            remedy = "Register it, for example with `mirrorgate tables register`."
            return CheckLine(False, f"{topic}: table {table} is not registered", remedy)
        client.post_changes(rule.format, b"null", content_type="application/x-ndjson", parameters=parameters)
    except RejectedByGateway as error:
        if error.kind not in _OF_THE_REQUEST and error.code is not Code.BAD_REQUEST:
            return None  # it is about the missing message
        return CheckLine(False, f"{topic}: {error.detail}", error.remedy)
    except MirrorgateError as error:
        return CheckLine(False, f"{topic}: {error.detail}", error.remedy)
    return None


def _snapshots(client: GatewayClient, topic: str, table: str) -> CheckLine:
    """Check whether snapshot rows of one partition may follow changes of another, if the table can be asked."""
    try:
        options = client.get(table_path(table))["options"]
    except MirrorgateError:
        return CheckLine(True, f"{topic}: for its tables: {SNAPSHOTS_REMEDY}")
    if options["reload"] == options["insert_marker"] == "upsert":
        return CheckLine(True, f"{topic}: table {table} accepts snapshot rows after changes")
    return CheckLine(False, f"{topic}: table {table} rejects snapshot rows after changes", SNAPSHOTS_REMEDY)


def _may_exist(client: GatewayClient, table: str) -> bool:
    """Return False for a table that the gateway does not know; a key that may only send cannot ask."""
    try:
        client.get(table_path(table))
    except RejectedByGateway as error:
        return error.code is not Code.UNKNOWN_TABLE
    return True


def _registry(registry: SchemaRegistry) -> CheckLine:
    try:
        registry.check()
    except MirrorgateError as error:
        return CheckLine(False, f"schema registry: {error.detail}", error.remedy)
    return CheckLine(True, "schema registry answers")
