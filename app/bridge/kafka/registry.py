"""Read schemas from a Confluent schema registry, or another one with its HTTP interface (Redpanda, Karapace, Apicurio).

A schema never changes under its id, so each is read once and kept while there is room. An unknown id and a registry
that does not answer are different errors: the first stops the partition, the second lets it wait. Source: Confluent
Schema Registry API reference, `GET /schemas/ids/{id}`.
"""

import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Any, Final
from urllib.parse import quote

import httpx
import msgspec

from app.bounded_answers import UnusableAnswer, bounded_answer
from app.bridge.kafka.records import RecordRejected
from mirrorgate.errors import Code, Misconfigured, TemporarilyUnavailable

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
