"""Decode records in Confluent's wire format: byte 0, the schema's id as a big-endian 32-bit number, the payload.

Replicate's own Avro envelope needs no registry: it becomes an envelope in JSON, and the gateway decodes its bytes by
the metadata messages that it has accepted.

The format of the topic decides how Avro is written as JSON: a Debezium record gets the Connect schema that it was
written from, others the values as text. A record of JSON Schema has JSON behind its id. Invariant: what is decoded once
for a schema is kept; a record costs no call of the registry after the first of its schema.

What the partitions share to send records: the client of the gateway, the registry, and the decoders.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from app.bridge.kafka.records import JsonDecoder, RecordDecoder, RecordRejected, on_one_line
from app.bridge.kafka.registry import SchemaRegistry
from app.bridge.kafka.settings import RegistrySettings
from app.bridge.kafka.topics import TopicRule
from app.bridge.settings_file import GatewaySettings
from app.formats.avro import DecodePlan, Node, Style, connect_schema, read_schema
from mirrorgate.avro_envelope import MAGIC, Incomplete, read_envelope
from mirrorgate.errors import RejectedInput
from mirrorgate.http import GatewayClient

MAX_SCHEMAS: Final = 2_000
"""Schemas in memory for a rule of topics; the oldest goes first."""

_HEADER_BYTES: Final = 5
_REPLICATE_NAMESPACE: Final = "com.attunity.queue.msg."
_REGISTERED: Final = frozenset({"avro", "json_schema"})

Decode = Callable[[bytes], bytes]


def decoder_of(
    source_format: str, value: str, key: str, registry: SchemaRegistry | None, *, has_table: bool
) -> RecordDecoder:
    """Return the decoder of a rule of topics, whose `value` and `key` name encodings.

    Without `has_table`, a Replicate message that its schema gives a table is addressed to that table.
    """
    if not {value, key} & _REGISTERED:
        return JsonDecoder(key)
    return RegisteredDecoder(registry, source_format, value, key, has_table=has_table)


class RegisteredDecoder:
    """Decoder of values, keys or both by the schemas of a registry; without one, of Replicate's envelopes only."""

    def __init__(
        self, registry: SchemaRegistry | None, source_format: str, value: str, key: str, *, has_table: bool = True
    ) -> None:
        self._registry = registry
        self._style = Style.CONNECT if source_format == "debezium" else Style.TEXT
        self._has_envelopes = source_format == "replicate"
        self._addresses = source_format == "replicate" and not has_table
        self._value, self._key = value in _REGISTERED, key in _REGISTERED
        self._plain = JsonDecoder("none" if self._key else key)
        self._decoders: dict[tuple[bool, int], Decode] = {}

    def decode(self, topic: str, key: bytes | None, value: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return key and value as JSON. Raises as `RecordDecoder` says."""
        plain_key, plain_value = self._plain.decode(topic, key, None if self._value else value)
        if self._key and key is not None:
            plain_key = self._decoded(key, is_key=True)
        if self._value and value is not None:
            plain_value = self._decoded(value, is_key=False)
        return plain_key, plain_value

    def _decoded(self, record: bytes, *, is_key: bool) -> bytes:
        if self._has_envelopes and not is_key and record.startswith(MAGIC):
            return _envelope(record)
        if len(record) < _HEADER_BYTES or record[0] != 0:
            raise _not_framed(record, "key" if is_key else "value")
        identity = int.from_bytes(record[1:_HEADER_BYTES], "big")
        try:
            decode = self._decoders.get((is_key, identity))
            if decode is None:
                decode = self._build(identity, is_key=is_key)
                while len(self._decoders) >= MAX_SCHEMAS:
                    self._decoders.pop(next(iter(self._decoders)), None)
                self._decoders[is_key, identity] = decode
            return decode(record[_HEADER_BYTES:])
        except RejectedInput as error:
            raise RecordRejected(error.detail, error.remedy) from None

    def _build(self, identity: int, *, is_key: bool) -> Decode:
        if self._registry is None:
            raise RecordRejected(
                "the record names a schema of a registry, and the bridge's file has none",
                "Add the section `registry:` with its `url:`.",
            )
        found = self._registry.schema(identity)
        if found.kind == "JSON":
            return on_one_line
        if found.kind != "AVRO":
            raise RecordRejected(
                f"schema {identity} is of the type {found.kind}, which the bridge does not read",
                "Let the producer write Avro, JSON Schema or JSON.",
            )
        schema = read_schema(found.text, found.references)
        plan = DecodePlan(schema, self._style)
        if self._style is Style.CONNECT:
            written = msgspec.json.encode(connect_schema(schema))
            return partial(_with_schema, b'{"schema":' + written + b',"payload":', plan.json)
        address = None if is_key or not self._addresses else _replicate_address(schema)
        return plan.json if address is None else partial(_with_address, address, plan.json)


def _with_schema(prefix: bytes, decode: Decode, payload: bytes) -> bytes:
    return b"%b%b}" % (prefix, decode(payload))


def _with_address(address: bytes, decode: Decode, payload: bytes) -> bytes:
    return address + decode(payload)[1:]


def _replicate_address(schema: Node) -> bytes | None:
    """Return the first JSON members of a message: schema and table, by the record's namespace. None if it names none.

    Replicate registers `com.attunity.queue.msg.<task>.<schema>.<table>.DataRecord`.
    """
    if not schema.name.startswith(_REPLICATE_NAMESPACE) or not {"data", "headers"} <= {f.name for f in schema.fields}:
        return None
    names = schema.name.removeprefix(_REPLICATE_NAMESPACE).split(".")
    if len(names) < 4:
        return None
    return msgspec.json.encode({"schema": names[-3], "table": names[-2]})[:-1] + b","


def _envelope(record: bytes) -> bytes:
    """Return Replicate's envelope as JSON, its record in base64."""
    try:
        found, end = read_envelope(record)
        if end == len(record):
            return found.to_json()
        reason = "bytes follow it"
    except Incomplete:
        reason = "it is cut off"
    except ValueError as error:
        reason = str(error)
    remedy = "Skip the record, or let the task write it again."
    raise RecordRejected(f"the record's value is not an envelope of Replicate: {reason}", remedy)


def _not_framed(record: bytes, part: str) -> RecordRejected:
    if record.startswith(MAGIC):
        return RecordRejected(
            f"the record's {part} is in Replicate's Avro envelope, and the format of the topic is another one",
            "Set `format: replicate` for the topic.",
        )
    return RecordRejected(
        f"the record's {part} does not begin with byte 0 and the id of a schema, as Confluent's serializers write it",
        f"Set `{part}: json` for the topic if it has JSON. With Apicurio, set apicurio.registry.as-confluent=true.",
    )


class Gateway(GatewayClient):
    """A gateway client that sends at most `requests` requests at a time, apart from those that wait for a retry."""

    def __init__(self, settings: GatewaySettings) -> None:
        super().__init__(settings.url, settings.key, settings.certificate)
        self._places = threading.BoundedSemaphore(settings.requests)

    def _answered(self, method: str, path: str, **arguments: Any) -> Any:
        with self._places:
            return super()._answered(method, path, **arguments)


def registry_of(settings: RegistrySettings | None) -> SchemaRegistry | None:
    """Open a client of the schema registry, None without one."""
    if settings is None:
        return None
    return SchemaRegistry(
        settings.url,
        username=settings.username,
        password=settings.password,
        certificate=settings.certificate,
        timeout=settings.timeout,
    )


class Decoders:
    """The decoder of each rule, with one registry for all."""

    def __init__(self, settings: RegistrySettings | None) -> None:
        self._registry = registry_of(settings)
        self._found: dict[str, RecordDecoder] = {}

    def of(self, rule: TopicRule) -> RecordDecoder:
        """Return the decoder of a rule."""
        name = f"{rule.topic is None}{rule.name}"
        if name not in self._found:
            has_table = rule.table is not None
            self._found[name] = decoder_of(rule.format, rule.value, rule.key, self._registry, has_table=has_table)
        return self._found[name]
