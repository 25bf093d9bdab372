"""Read schemas from a Confluent schema registry, and decode records by them.

`SchemaRegistry` is for Confluent's registry, or another one with its HTTP interface (Redpanda, Karapace, Apicurio). A
schema never changes under its id, so each is read once and kept while there is room. An unknown id and a registry that
does not answer are different errors: the first stops the partition, the second lets it wait. Source: Confluent Schema
Registry API reference, `GET /schemas/ids/{id}`.

`RegisteredDecoder` decodes records in Confluent's wire format: byte 0, the schema's id as a big-endian 32-bit number,
the payload. The format of the topic decides how Avro is written as JSON: a Debezium record gets the Connect schema that
it was written from, others the values as text. A record of JSON Schema has JSON behind its id. Replicate's own Avro
envelope needs no registry: it becomes an envelope in JSON, and the gateway decodes its bytes by the metadata messages
that it has accepted. Invariant: what is decoded once for a schema is kept; a record costs no call of the registry after
the first of its schema.

`Gateway`, `registry_of` and `Decoders` are what the partitions share to send records: the client of the gateway, the
registry, and the decoders.
"""

import threading
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Any, Final
from urllib.parse import quote

import httpx
import msgspec

from app.bounded_answers import UnusableAnswer, bounded_answer
from app.formats.avro import DecodePlan, Node, Style, connect_schema, read_schema
from mirrorgate.avro_envelope import MAGIC, Incomplete, read_envelope
from mirrorgate.errors import Code, Misconfigured, RejectedInput, TemporarilyUnavailable
from mirrorgate.http import GatewayClient
from mirrorgate_bridge.kafka.settings import (
    JsonDecoder,
    RecordDecoder,
    RecordRejected,
    RegistrySettings,
    TopicRule,
    on_one_line,
)
from mirrorgate_bridge.settings_file import GatewaySettings

MAX_REFERENCES: Final = 500
"""References that are read for one schema: at most as many requests."""
MAX_REFERENCE_DEPTH: Final = 32
MAX_SCHEMA_BYTES: Final = 16 * 2**20
"""Bytes of the answers for one schema, with those for its references."""
_ATTEMPTS: Final = 3
_PAUSE: Final = 0.5
"""Seconds before an unknown id is asked for again: a follower learns of a new schema a moment after its leader."""
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as it was registered; `kind` is `AVRO`, `JSON` or `PROTOBUF`."""

    kind: str
    text: str
    references: tuple[str, ...] = ()
    """The schemas that it uses, each after those that it uses itself."""


class _Reference(msgspec.Struct):
    subject: str
    version: int


class _Answer(msgspec.Struct):
    schema: str
    schemaType: str = "AVRO"  # noqa: N815  # the registry's name
    references: list[_Reference] = []


@dataclass(slots=True)
class _References:
    """The references of one schema that were read."""

    bytes_left: int
    places: dict[tuple[str, int], bool] = field(default_factory=dict)
    """By subject and version: whether its own references are read, too."""
    texts: dict[str, None] = field(default_factory=dict)
    """The strings in order."""


class SchemaRegistry:
    """Client of one registry, at one of several addresses. Thread-safe."""

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | None = None,
        certificate: Path | None = None,
        timeout: float = 10.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Open a client without connecting.

        `url` may list several addresses with commas between them. A `password` without a `username` is a bearer token.
        `certificate` is a PEM file of authorities to trust instead of the system's.
        """
        self._urls = tuple(part.strip().rstrip("/") for part in url.split(","))
        self._pause = pause
        self._http = httpx.Client(
            headers={"Accept": _ACCEPT, **_authorization(username, password)},
            timeout=timeout,
            verify=True if certificate is None else _trusting(certificate),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def check(self) -> None:
        """Ask the registry for something small. Raises what `schema` raises, without an id."""
        self._ask("/schemas/types")

    def schema(self, identity: int) -> RegisteredSchema:
        """Return the schema with this id.

        Raises RecordRejected for an id that the registry does not have, and TemporarilyUnavailable `source_unavailable`
        if it does not answer, rejects the credentials, or is not a schema registry: none is the record's fault.
        """
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._pause(_PAUSE)
            if (answer := self._ask(f"/schemas/ids/{identity}")) is not None:
                found = self._read(answer)
                references = _References(MAX_SCHEMA_BYTES - len(answer.content))
                self._follow(found.references, references)
                return RegisteredSchema(found.schemaType, found.schema, tuple(references.texts))
        raise RecordRejected(
            f"the schema registry has no schema with the id {identity}",
            "Check that `registry` is the one that the producer uses, and that the schema was not deleted.",
        )

    def _follow(self, references: list[_Reference], read: _References, depth: int = 0) -> None:
        """Add the strings of references, the innermost first. Each subject and version is asked for once."""
        for reference in references:
            place = (reference.subject, reference.version)
            if place in read.places:
                if not read.places[place]:
                    raise RecordRejected(
                        f"{reference.subject} version {reference.version} refers to itself",
                        "Register it without the reference.",
                    )
                continue
            if len(read.places) >= MAX_REFERENCES or depth >= MAX_REFERENCE_DEPTH:
                raise RecordRejected("the schema has too many references", "Register it with fewer references.")
            read.places[place] = False
            path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
            answer = self._ask(path, max_bytes=read.bytes_left)
            if answer is None:
                raise RecordRejected(
                    f"the schema refers to {reference.subject} version {reference.version}, which the registry lacks",
                    "Register the referenced schema again.",
                )
            read.bytes_left -= len(answer.content)
            found = self._read(answer)
            self._follow(found.references, read, depth + 1)
            read.places[place] = True
            read.texts.setdefault(found.schema)

    def _ask(self, path: str, *, max_bytes: int = MAX_SCHEMA_BYTES) -> httpx.Response | None:
        """Return the answer of the first address that gives one, None for 404."""
        trouble = ""
        for url in self._urls:
            try:
                answer = bounded_answer(self._http, "GET", url + path, max_bytes=max_bytes)
            except UnusableAnswer as error:
                trouble = f"gives no usable answer: {error}"
                continue
            except httpx.TransportError as error:
                trouble = f"does not answer ({type(error).__name__})"
                continue
            if answer.status_code == 404:
                return None
            if answer.status_code in (401, 403):
                raise TemporarilyUnavailable(
                    Code.SOURCE_UNAVAILABLE,
                    f"the schema registry at {_shown(url)} rejects the credentials with {answer.status_code}",
                    remedy="Set `registry.username` and `registry.password` of a user that may read schemas.",
                )
            if answer.is_success:
                return answer
            trouble = f"answers {answer.status_code}"
        raise TemporarilyUnavailable(
            Code.SOURCE_UNAVAILABLE,
            f"the schema registry at {', '.join(map(_shown, self._urls))} {trouble}",
            remedy="The bridge asks again. Check `registry.url` and the network if this continues.",
        )

    def _read(self, answer: httpx.Response) -> _Answer:
        try:
            return msgspec.json.decode(answer.content, type=_Answer)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        raise TemporarilyUnavailable(
            Code.SOURCE_UNAVAILABLE,
            f"{_shown(str(answer.url))} does not answer as a schema registry does",
            remedy="Give the base address of the registry's Confluent interface as `registry.url`.",
        )


def _authorization(username: str | None, password: str | None) -> dict[str, str]:
    if username is not None:
        pair = b64encode(f"{username}:{password or ''}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {} if password is None else {"Authorization": f"Bearer {password}"}


def _trusting(certificate: Path) -> SSLContext:
    try:
        return create_default_context(cafile=certificate)
    except OSError as error:
        raise Misconfigured(
            Code.BAD_SETTING,
            f"registry.certificate {certificate} cannot be read: {error.strerror or 'it is not a PEM file'}",
            remedy="Give a PEM file of the authorities that signed the registry's certificate.",
        ) from None


def _shown(url: str) -> str:
    """Return the address without what a user may have put before its host."""
    parts: Any = httpx.URL(url)
    return str(parts.copy_with(username=None, password=None, query=None, path="/")).rstrip("/")


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
    """Return the first JSON members of a message: schema and table, by the record's namespace.

    None if it names none, or the record has such members itself. Replicate registers
    `com.attunity.queue.msg.<task>.<schema>.<table>.DataRecord`.
    """
    members = {field.name for field in schema.fields}
    if not {"data", "headers"} <= members or members & {"schema", "table"}:
        return None
    if not schema.name.startswith(_REPLICATE_NAMESPACE):
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

    def close(self) -> None:
        """Close the connections to the registry."""
        if self._registry is not None:
            self._registry.close()

    def of(self, rule: TopicRule) -> RecordDecoder:
        """Return the decoder of a rule."""
        name = f"{rule.topic is None}{rule.name}"
        if name not in self._found:
            has_table = rule.table is not None
            self._found[name] = decoder_of(rule.format, rule.value, rule.key, self._registry, has_table=has_table)
        return self._found[name]
