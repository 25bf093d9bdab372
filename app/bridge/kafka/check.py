"""The second stage of `--check`: ask the gateway and the brokers what the file needs, without consuming or sending.

The findings are facts for people: topics with their partitions and the format and tables that they go to, positions
that are known already, and rights that are missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.bridge.kafka.cluster import DEFAULTS, Cluster, open_consumer
from app.bridge.kafka.partition.elements import parameters_of
from app.bridge.kafka.partition.positions import SNAPSHOTS_REMEDY, producer_name
from app.bridge.kafka.registered_records import registry_of
from app.bridge.kafka.registry import SchemaRegistry
from app.bridge.kafka.settings import BridgeSettings
from app.bridge.kafka.topics import TopicRule, rule_of
from mirrorgate.errors import Code, MirrorgateError
from mirrorgate.errors.codes import Kind
from mirrorgate.http import GatewayClient, RejectedByGateway
from mirrorgate.producer import Patience, Producer
from mirrorgate.table_path import table_path

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
