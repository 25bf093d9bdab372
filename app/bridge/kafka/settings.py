"""The file of the Kafka bridge: its sections, their defaults, and what is checked before anything connects."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from app.bridge.common_settings import (
    GatewaySettings,
    HealthSettings,
    LogSettings,
    read_gateway,
    read_health,
    read_log,
    read_name,
)
from app.bridge.kafka.topics import FORMATS, Start, Template, TopicRule
from app.bridge.settings_file import (
    Entry,
    Fields,
    bytes_of,
    choice_of,
    fields_of,
    read_file,
    seconds_of,
    whole_number,
)
from app.errors import Code

_SECTIONS: Final = ("gateway", "kafka", "topics", "registry", "batch", "stop", "rejected", "health", "log")
TOPIC_KEYS: Final = (
    "topic",
    "pattern",
    "format",
    "table",
    "parameters",
    "value",
    "key",
    "start",
    "on_reject",
    "tombstones",
    "partitions",
)
_OWN_PARAMETERS: Final = {
    "table": "Write it as `table` of the topic.",
    "on_reject": "Write it as `on_reject` of the topic.",
    "partition": "The bridge sends the number of the record's partition.",
    "dry_run": "A dry run stages nothing, so the bridge does not allow it.",
    "keyed": "The bridge sends the record's key as the format needs it.",
}
_OWN_SETTINGS: Final = {
    "group.id": "Write it as `group` of the section `kafka`.",
    "enable.auto.commit": "The gateway keeps the position; the bridge commits offsets for lag tools only.",
    "enable.auto.offset.store": "The gateway keeps the position.",
    "auto.offset.reset": "Write `start` of the topic.",
    "enable.partition.eof": "The bridge sets it.",
}
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True)
class KafkaSettings:
    """The cluster. `cluster` and `group` are part of the producers' names at the gateway: never change them."""

    cluster: str = ""
    group: str = "mirrorgate"
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of librdkafka, by its names."""


@dataclass(frozen=True)
class RegistrySettings:
    """A Confluent schema registry."""

    url: str = ""
    username: str | None = None
    password: str | None = None
    certificate: Path | None = None
    timeout: float = 10.0


@dataclass(frozen=True)
class BatchSettings:
    """When a request is cut, and how much the bridge holds in memory."""

    max_bytes: int = 4 * 2**20
    max_messages: int = 20_000
    max_age: float = 0.5
    memory: int = 256 * 2**20


@dataclass(frozen=True)
class StopSettings:
    """How long requests in flight may take at the end, and when a stopped partition is tried again."""

    within: float = 30.0
    retry_after: float = 60.0


@dataclass(frozen=True)
class BridgeSettings:
    """The whole file. Invariant: it has been checked without a connection."""

    gateway: GatewaySettings
    kafka: KafkaSettings
    topics: tuple[TopicRule, ...]
    registry: RegistrySettings | None
    batch: BatchSettings
    stop: StopSettings
    rejected: Path | None
    """The folder of rejected records."""
    health: HealthSettings
    log: LogSettings


def read_settings(path: Path, environment: Mapping[str, str]) -> BridgeSettings:
    """Return the settings of a file. Raises BadFile with every problem, each with its line and path in the file."""
    root = read_file(path, environment)
    fields = fields_of(root, _SECTIONS, ("gateway", "kafka", "topics"))
    registry = fields.take("registry", _registry, None)
    rejected = fields.take("rejected", _rejected, None)
    settings = BridgeSettings(
        gateway=fields.take("gateway", read_gateway, GatewaySettings()),
        kafka=fields.take("kafka", _kafka, KafkaSettings()),
        topics=fields.take("topics", _topics(registry is not None, rejected is not None), ()),
        registry=registry,
        batch=fields.take("batch", _batch, BatchSettings()),
        stop=fields.take("stop", _stop, StopSettings()),
        rejected=rejected,
        health=fields.take("health", read_health, HealthSettings()),
        log=fields.take("log", read_log, LogSettings()),
    )
    root.findings.check()
    return settings


def _kafka(entry: Entry) -> KafkaSettings:
    fields = fields_of(entry, ("cluster", "group", "settings"), ("cluster", "settings"))
    return KafkaSettings(
        fields.take("cluster", read_name, ""),
        fields.take("group", read_name, "mirrorgate"),
        fields.take("settings", _librdkafka, {}),
    )


def _librdkafka(entry: Entry) -> dict[str, str]:
    """Read settings of librdkafka. It checks their names and values itself, before it connects."""
    given: dict[str, str] = {}
    for name, value in entry.members().items():
        with entry.findings.noted():
            if name in _OWN_SETTINGS:
                raise value.wrong(Code.BAD_SETTING, "is set by the bridge", _OWN_SETTINGS[name])
            given[name] = value.text()
    if not given.get("bootstrap.servers", "").strip():
        raise entry.wrong(Code.BAD_SETTING, "'bootstrap.servers' is missing", "Add `bootstrap.servers: host:9092`.")
    return given


def _topics(has_registry: bool, has_folder: bool) -> Callable[[Entry], tuple[TopicRule, ...]]:
    def read(entry: Entry) -> tuple[TopicRule, ...]:
        rules: list[TopicRule] = []
        for item in entry.items():
            with entry.findings.noted():
                rule = _topic(item, has_registry=has_registry, has_folder=has_folder)
                if any(other.name == rule.name and other.is_pattern == rule.is_pattern for other in rules):
                    raise item.wrong(Code.BAD_SETTING, f"{rule.name!r} is already declared", "Declare a topic once.")
                rules.append(rule)
        if not entry.items():
            raise entry.wrong(Code.BAD_SETTING, "has no topic", "Add at least one `- topic:` with its `format:`.")
        return tuple(rules)

    return read


def _topic(entry: Entry, *, has_registry: bool, has_folder: bool) -> TopicRule:
    fields = fields_of(entry, TOPIC_KEYS, ("format",))
    fields.check_one_of("topic", "pattern")
    name, pattern = fields.take("topic", _exact, None) or fields.take("pattern", _pattern, None) or ("", re.compile(""))
    source_format = fields.take("format", choice_of(*FORMATS), "rows")
    rule = TopicRule(
        name=name,
        pattern=pattern,
        is_pattern="pattern" in fields.members,
        source_format=source_format,
        table=fields.take("table", _template(pattern), None),
        parameters=fields.take("parameters", _parameters, {}),
        value=fields.take("value", choice_of("json", "avro", "json_schema"), "json"),
        key=fields.take("key", choice_of("auto", "json", "text", "none", "avro", "json_schema"), "auto"),
        start=fields.take("start", _start, "earliest"),
        on_reject=fields.take("on_reject", choice_of("stop", "dead_letter", "skip_to_file"), "stop"),
        tombstones=fields.take("tombstones", choice_of("delete", "ignore"), "delete"),
        partitions=fields.take("partitions", whole_number(1, 100_000), None),
    )
    _check_topic(fields, rule, has_registry=has_registry, has_folder=has_folder)
    return rule


def _check_topic(fields: Fields, rule: TopicRule, *, has_registry: bool, has_folder: bool) -> None:
    """Note what contradicts another setting."""
    entry, members = fields.entry, fields.members
    problems = (
        (
            rule.source_format == "rows" and "format" in members and "table" not in members,
            "rows name no table",
            "Add `table:`, for example `table: sales.orders`.",
        ),
        (
            not has_registry and bool({rule.value, rule.key} & {"avro", "json_schema"}),
            "the value or key needs a schema registry",
            "Add the section `registry:` with its `url:`.",
        ),
        (
            rule.on_reject == "skip_to_file" and not has_folder,
            "on_reject is skip_to_file, and no folder is given",
            "Add the section `rejected:` with a `folder:`.",
        ),
        (
            "tombstones" in members and rule.source_format != "rows",
            "tombstones is a setting of rows",
            "Write it among the `parameters`."
            if rule.source_format == "debezium"
            else "Remove it: the format has messages for deletes.",
        ),
        (
            rule.source_format == "debezium" and rule.key == "none" and rule.parameters.get("tombstones") == "delete",
            "tombstones=delete needs the keys of the records, and key is none",
            "Remove `key: none`, or write `tombstones: ignore` among the `parameters`.",
        ),
    )
    for is_wrong, detail, remedy in problems:
        if is_wrong:
            with entry.findings.noted():
                raise entry.wrong(Code.BAD_SETTING, detail, remedy)


def _registry(entry: Entry) -> RegistrySettings:
    fields = fields_of(entry, ("url", "username", "password", "certificate", "timeout"), ("url",))
    return RegistrySettings(
        fields.take("url", Entry.text, ""),
        fields.take("username", Entry.text, None),
        fields.take("password", Entry.text, None),
        fields.take("certificate", lambda value: Path(value.text()), None),
        fields.take("timeout", seconds_of(0.1, 600), 10.0),
    )


def _batch(entry: Entry) -> BatchSettings:
    fields = fields_of(entry, ("max_bytes", "max_messages", "max_age", "memory"))
    return BatchSettings(
        fields.take("max_bytes", bytes_of(1, 64 * 2**20), BatchSettings.max_bytes),
        fields.take("max_messages", whole_number(1, 500_000), BatchSettings.max_messages),
        fields.take("max_age", seconds_of(0, 3600), BatchSettings.max_age),
        fields.take("memory", bytes_of(2**20, 2**40), BatchSettings.memory),
    )


def _stop(entry: Entry) -> StopSettings:
    fields = fields_of(entry, ("within", "retry_after"))
    return StopSettings(
        fields.take("within", seconds_of(0, 600), StopSettings.within),
        fields.take("retry_after", seconds_of(0.1, 86_400), StopSettings.retry_after),
    )


def _rejected(entry: Entry) -> Path | None:
    return fields_of(entry, ("folder",), ("folder",)).take("folder", lambda value: Path(value.text()), None)


def _exact(entry: Entry) -> tuple[str, re.Pattern[str]]:
    if not _TOPIC.fullmatch(entry.text()):
        raise entry.wrong(
            Code.BAD_SETTING, f"{entry.text()!r} is no topic's name", "Write a regular expression as `pattern:`."
        )
    return entry.text(), re.compile(re.escape(entry.text()))


def _pattern(entry: Entry) -> tuple[str, re.Pattern[str]]:
    try:
        return entry.text(), re.compile(entry.text())
    except re.error as error:
        raise entry.wrong(
            Code.BAD_SETTING,
            f"is not a regular expression: {error}",
            r"Write for example 'cdc\.(?P<schema>\w+)\.(?P<table>\w+)', in single quotes. It has to match the whole "
            "name of a topic.",
        ) from None


def _template(pattern: re.Pattern[str]) -> Callable[[Entry], Template]:
    def read(entry: Entry) -> Template:
        try:
            template = Template.parse(entry.text())
        except ValueError as error:
            raise entry.wrong(Code.BAD_SETTING, str(error), "Write for example {schema}.{table}.") from None
        for name in template.groups:
            if name not in pattern.groupindex:
                known = ", ".join([*pattern.groupindex, "topic", "key", "key.MEMBER", "header.NAME"])
                raise entry.wrong(
                    Code.BAD_SETTING,
                    f"{{{name}}} is not a group of the pattern",
                    f"Name a group with (?P<{name}>…), or use one of {known}.",
                )
        return template

    return read


def _parameters(entry: Entry) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in entry.members().items():
        with entry.findings.noted():
            if name in _OWN_PARAMETERS:
                raise value.wrong(Code.BAD_SETTING, "is set by the bridge", _OWN_PARAMETERS[name])
            given[name] = value.text()
    return given


def _start(entry: Entry) -> Start:
    text = entry.text()
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.min
    if moment.tzinfo is None:
        raise entry.wrong(
            Code.BAD_SETTING,
            f"{text!r} is neither earliest nor latest nor a time with its zone",
            "Write for example 2026-11-01T00:00:00Z.",
        )
    return moment
