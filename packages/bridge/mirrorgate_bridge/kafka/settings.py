"""The file of the Kafka bridge: its sections, their defaults, the topics with their rules, and plain decoders.

`Template` is a table's name with names of groups of the topic's pattern, `topic`, `header.NAME`, `key`, or
`key.MEMBER`: `{schema}.{table}`, `{header.table}`. Invariant: the same record always has the same table.

`RecordDecoder` is what decoders of all encodings implement. Invariant: a decoder never changes a value; what it cannot
read it rejects with a detail and a remedy, without a string of the record.

`JsonDecoder` passes JSON through unparsed, because the gateway parses it anyway: parsing twice would halve the rate.
"""

import re
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

import msgspec
from pydantic import AfterValidator, BeforeValidator

from mirrorgate_bridge.settings_file import (
    GatewaySettings,
    HealthSettings,
    LogSettings,
    Name,
    Problem,
    Section,
    StopSettings,
    own_names,
    read_settings_file,
    seconds,
    size,
    whole_number,
    wrong,
)


class RecordRejected(Exception):
    """A record that cannot become JSON. The bridge stops its partition there, or puts the record aside."""

    def __init__(self, detail: str, remedy: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.remedy = remedy


class RecordDecoder(Protocol):
    """Decoder of the records in the topics of one rule. Threads of several partitions share it."""

    def decode(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return key and value as JSON bytes; None for a record without a key or value (a tombstone).

        Raises RecordRejected for a record that cannot be read, and TemporarilyUnavailable `source_unavailable` while a
        schema registry does not answer: the partition then waits and decodes the record again.
        """


class JsonDecoder:
    """Values are JSON, passed through. Keys as `key` says: `auto`, `json`, `text` or `none`."""

    def __init__(self, key: str = "auto") -> None:
        self._key = key

    def decode(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return the record with its key as JSON. `auto` reads a key that is not JSON as text."""
        if value is not None:
            value = on_one_line(value)
        return (None if key is None or self._key == "none" else self._json_key(key)), value

    def _json_key(self, key: bytes) -> bytes:
        if self._key != "text":
            try:
                msgspec.json.decode(key, type=msgspec.Raw)
                return on_one_line(key)
            except msgspec.DecodeError:
                if self._key == "json":
                    raise RecordRejected(
                        "the record's key is not JSON", "Set `key: text` or `key: none` for the topic."
                    ) from None
        try:
            return msgspec.json.encode(key.decode())
        except UnicodeDecodeError:
            raise RecordRejected(
                "the record's key is neither JSON nor UTF-8 text",
                "Set `key: none` for the topic, or `key: avro` if a schema registry describes its keys.",
            ) from None


def on_one_line(value: bytes) -> bytes:
    """Return JSON without line breaks between its tokens; text that is not JSON is left to the gateway to reject."""
    if b"\n" not in value and b"\r" not in value:
        return value
    try:
        return msgspec.json.format(value, indent=-1)
    except msgspec.DecodeError:
        return value


KEYED: Final = frozenset({"debezium", "replicate"})
"""Formats whose messages need the record's key."""

Start = Literal["earliest", "latest"] | datetime

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_OWN_PARAMETERS: Final = {
    "table": "Write it as `table` of the topic.",
    "on_reject": "Write it as `on_reject` of the topic.",
    "partition": "The bridge sends the number of the record's partition.",
    "dry_run": "A dry run stages nothing, so the bridge does not allow it.",
    "keyed": "The bridge sends the record's key as the format needs it.",
}
_FIELD: Final = re.compile(r"topic|key|key\.[^{}]+|header\.[^{}]+|[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Template:
    """The table of a record. `fields` are the names in braces."""

    text: str
    fields: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "Template":
        """Read a template. Raises ValueError for one that is not well formed."""
        fields = []
        for _, name, form, conversion in string.Formatter().parse(text):
            if name is not None:
                if not _FIELD.fullmatch(name) or form or conversion:
                    raise ValueError(f"{{{name}}} is not a field of a table template")
                fields.append(name)
        return cls(text, tuple(fields))

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the fields that are groups of the topic's pattern."""
        return tuple(name for name in self.fields if name not in ("topic", "key") and "." not in name)

    @property
    def is_of_the_record(self) -> bool:
        """Return True if records of one topic can have different tables."""
        return any(name == "key" or "." in name for name in self.fields)


def _topic(text: str) -> str:
    if not _TOPIC.fullmatch(text):
        raise wrong(f"{text!r} is not a topic's name", "Write a regular expression as `pattern:`.")
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise wrong(
            f"is not a regular expression: {error}",
            r"Write for example 'cdc\.(?P<schema>\w+)\.(?P<table>\w+)', in single quotes. It has to match the whole "
            "name of a topic.",
        ) from None
    return text


def _template(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return Template.parse(given)
    except ValueError as error:
        raise wrong(str(error), "Write for example {schema}.{table}.") from None


def _start(given: Any) -> Any:
    if not isinstance(given, str) or given in ("earliest", "latest"):
        return given
    with suppress(ValueError):
        moment = datetime.fromisoformat(given)
        if moment.tzinfo is not None:
            return moment
    remedy = "Write for example 2026-11-01T00:00:00Z."
    raise wrong(f"{given!r} is neither earliest nor latest nor a time with its zone", remedy)


class TopicRule(Section):
    """One entry of `topics`."""

    topic: Annotated[str, AfterValidator(_topic)] | None = None
    """Name of one topic. Each rule has either `topic` or `pattern`."""
    pattern: Annotated[str, AfterValidator(_pattern)] | None = None
    """Regular expression of Python that matches the whole name. New topics are found within 15 seconds."""
    format: Literal["arcion", "debezium", "replicate", "rows"]
    """Format of the records, which decides the endpoint."""
    table: Annotated[Template, BeforeValidator(_template)] | None = None
    """Table of the records, required for `rows`; without it, the messages name their tables."""
    parameters: Mapping[Annotated[str, own_names(_OWN_PARAMETERS)], str] = {}
    """Query parameters of the endpoint, for example `op`, `layout`, `key_columns`, `timestamps`."""
    value: Literal["json", "avro", "json_schema"] = "json"
    """Encoding of the values. `avro` and `json_schema` have the ids of a registry; `avro` with `format: replicate`
    also reads Replicate's envelopes.
    """
    key: Literal["auto", "json", "text", "none", "avro", "json_schema"] = "auto"
    """Encoding of the keys. `auto` reads JSON, and a key that is not JSON as text."""
    start: Annotated[Start, BeforeValidator(_start)] = "earliest"
    """Start of a partition without a position: `earliest`, `latest` or a time such as `2026-11-01T00:00:00Z`."""
    on_reject: Literal["stop", "dead_letter", "skip_to_file"] = "stop"
    """Treatment of a record that the gateway rejects."""
    tombstones: Literal["delete", "ignore"] = "delete"
    """For `rows`: `delete` the row whose key columns are the record's key, or `ignore`."""
    partitions: Annotated[int, whole_number(1, 100_000)] | None = None
    """The number of partitions that you have accepted."""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield what contradicts another value of the topic."""
        names = [name for name in ("topic", "pattern") if name in given]
        if len(names) != 1:
            found = "topic and pattern are both given" if names else "none of topic, pattern is given"
            yield (), wrong(found, "Give exactly one of topic, pattern.")
        kind, parameters = given.get("format"), given.get("parameters")
        if kind == "rows" and "table" not in given:
            yield (), wrong("rows name no table", "Add `table:`, for example `table: sales.orders`.")
        if "tombstones" in given and kind != "rows":
            is_parameter = kind == "debezium"
            remedy = "Write it among the `parameters`." if is_parameter else "Remove it: the format has own deletes."
            yield ("tombstones",), wrong("tombstones is a setting of rows", remedy)
        deletes = isinstance(parameters, Mapping) and parameters.get("tombstones") == "delete"
        if kind == "debezium" and given.get("key") == "none" and deletes:
            remedy = "Remove `key: none`, or write `tombstones: ignore` among the `parameters`."
            yield (), wrong("tombstones=delete needs the keys of the records, and key is none", remedy)
        yield from cls._unknown_groups(given)

    @classmethod
    def _unknown_groups(cls, given: Mapping[str, Any]) -> Iterator[Problem]:
        with suppress(ValueError, TypeError, re.error):
            groups = re.compile(given.get("pattern") or "").groupindex
            for name in Template.parse(given.get("table") or "").groups:
                if name not in groups:
                    known = ", ".join([*groups, "topic", "key", "key.MEMBER", "header.NAME"])
                    remedy = f"Name a group with (?P<{name}>…), or use one of {known}."
                    yield ("table",), wrong(f"{{{name}}} is not a group of the pattern", remedy)

    @property
    def name(self) -> str:
        """The topic, or the pattern as written."""
        return self.topic or self.pattern or ""

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The pattern of the topics' names."""
        return re.compile(re.escape(self.topic) if self.topic is not None else self.pattern or "")

    @property
    def needs_order(self) -> bool:
        """Return True unless the rule only appends rows."""
        return not (self.format == "rows" and self.parameters.get("op") == "insert")

    def matches(self, topic: str) -> bool:
        """Return True if the topic is this rule's."""
        return self.expression.fullmatch(topic) is not None

    def fixed_table(self, topic: str) -> str | None:
        """Return the table of every record of `topic`; None if the records decide or name it."""
        if self.table is None or self.table.is_of_the_record:
            return None
        return self._fill(topic, {})

    def record_table(self, topic: str, key: bytes | None, headers: Iterable[tuple[str, Any]] | None) -> str:
        """Return the table of one record. Raises RecordRejected if it lacks what the template names."""
        assert self.table is not None
        given = {name: self._record_field(name, key, dict(headers or ())) for name in self.table.fields if _of(name)}
        return self._fill(topic, given)

    def _fill(self, topic: str, given: Mapping[str, str]) -> str:
        assert self.table is not None
        found = self.expression.fullmatch(topic)
        values = {**(found.groupdict() if found else {}), **given, "topic": topic}
        parts = string.Formatter().parse(self.table.text)
        return "".join(text + ("" if name is None else values.get(name) or "") for text, name, _, _ in parts)

    def _record_field(self, name: str, key: bytes | None, headers: Mapping[str, Any]) -> str:
        kind, _, member = name.partition(".")
        value: Any = headers.get(member) if kind == "header" else None
        if kind == "key" and key is not None:
            try:
                value = msgspec.json.decode(key)
            except msgspec.DecodeError:
                value = key.decode(errors="replace")
            if member:
                value = value.get(member) if isinstance(value, dict) else None
        value = value.decode(errors="replace") if isinstance(value, bytes) else value
        if not isinstance(value, str | int) or isinstance(value, bool) or value == "":
            raise RecordRejected(
                f"the record has no text {name!r}, which the table template names",
                "Correct `table` of the topic, or the producer of the record.",
            )
        return str(value)


def rule_of(topic: str, rules: Iterable[TopicRule]) -> TopicRule | None:
    """Return the first rule that matches; rules with a name are before those with a pattern."""
    return next((rule for rule in sorted(rules, key=lambda rule: rule.topic is None) if rule.matches(topic)), None)


def _of(name: str) -> bool:
    return name == "key" or "." in name


_OWN_SETTINGS: Final = {
    "group.id": "Write it as `group` of the section `kafka`.",
    "enable.auto.commit": "The gateway keeps the position; the bridge commits offsets for lag tools only.",
    "enable.auto.offset.store": "The gateway keeps the position.",
    "auto.offset.reset": "Write `start` of the topic.",
    "enable.partition.eof": "The bridge sets it.",
}


def _with_brokers(given: dict[str, str]) -> dict[str, str]:
    """Check settings of librdkafka. It checks their names and values itself, before it connects."""
    if not given.get("bootstrap.servers", "").strip():
        raise wrong("'bootstrap.servers' is missing", "Add `bootstrap.servers: host:9092`.")
    return given


class KafkaSettings(Section):
    """The cluster. `cluster` and `group` are part of the producers' names at the gateway: never change them."""

    cluster: Name
    """Name of the cluster, part of the producers' names: do not change it."""
    group: Name = "mirrorgate"
    """Consumer group, part of the producers' names too."""
    settings: Annotated[dict[Annotated[str, own_names(_OWN_SETTINGS)], str], AfterValidator(_with_brokers)]
    """Settings of librdkafka, by its names; `bootstrap.servers` is required. The bridge sets `group.id`,
    `auto.offset.reset`, and those of commits.
    """


class RegistrySettings(Section):
    """A Confluent schema registry."""

    url: str
    """Address of the schema registry; several with commas between them."""
    username: str | None = None
    """User name."""
    password: str | None = None
    """Password; without a user name, a bearer token."""
    certificate: Path | None = None
    """PEM file of the authorities to trust."""
    timeout: Annotated[float, seconds(0.1, 600)] = 10.0
    """Time to wait for an answer."""


class BatchSettings(Section):
    """Limits of a request, and of the memory of the bridge."""

    max_bytes: Annotated[int, size(1, 64 * 2**20)] = 4 * 2**20
    """Maximum bytes of a request."""
    max_messages: Annotated[int, whole_number(1, 500_000)] = 20_000
    """Maximum records of a request."""
    max_age: Annotated[float, seconds(0, 3600)] = 0.5
    """Time for which the first record of a request waits for others."""
    memory: Annotated[int, size(2**20, 2**40)] = 256 * 2**20
    """Bytes that all partitions buffer together, each at most two requests."""


class RejectedSettings(Section):
    """The location of rejected records."""

    folder: Path
    """Folder for records that are rejected, with `on_reject: skip_to_file`."""


class BridgeSettings(Section):
    """The whole file. Invariant: it has been checked without a connection."""

    gateway: GatewaySettings
    kafka: KafkaSettings
    topics: tuple[TopicRule, ...]
    registry: RegistrySettings | None = None
    batch: BatchSettings = BatchSettings()
    stop: StopSettings = StopSettings()
    rejected: RejectedSettings | None = None
    health: HealthSettings = HealthSettings()
    log: LogSettings = LogSettings()

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Problem]:
        """Yield what topics contradict in other topics and sections."""
        topics = given.get("topics")
        if topics in ([], ()):
            yield ("topics",), wrong("has no topic", "Add at least one `- topic:` with its `format:`.")
        seen: set[tuple[Any, Any]] = set()
        for number, topic in enumerate(topics if isinstance(topics, list) else []):
            if not isinstance(topic, dict):
                continue
            place, names = ("topics", number), (topic.get("topic"), topic.get("pattern"))
            if names in seen:
                yield place, wrong(f"{names[0] or names[1]!r} is already declared", "Declare a topic once.")
            seen.add(names)
            is_enveloped = topic.get("format") == "replicate" and topic.get("value") == "avro"
            needed = {topic.get("key"), *([] if is_enveloped else [topic.get("value")])}
            if "registry" not in given and needed & {"avro", "json_schema"}:
                remedy = "Add the section `registry:` with its `url:`."
                yield place, wrong("the value or key needs a schema registry", remedy)
            if topic.get("on_reject") == "skip_to_file" and "rejected" not in given:
                remedy = "Add the section `rejected:` with a `folder:`."
                yield place, wrong("on_reject is skip_to_file, and no folder is given", remedy)


def read_settings(path: Path, environment: Mapping[str, str]) -> BridgeSettings:
    """Return the settings of a file. Raises BadFile with every problem, each with its line and path in the file."""
    return read_settings_file(path, environment, BridgeSettings)
