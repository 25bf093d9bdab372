"""The file of the Kafka bridge: its sections, their defaults, and what is checked before anything connects."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator

from app.bridge.kafka.topics import TopicRule
from app.bridge.settings_file import (
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
