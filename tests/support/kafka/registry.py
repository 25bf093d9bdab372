"""A double of the Confluent Schema Registry: its wire API over HTTP, for as much as clients that read schemas call.

`GET /schemas/ids/{id}`, `GET /subjects`, `GET /subjects/{subject}/versions/{version}` and
`POST /subjects/{subject}/versions`, with the error bodies of the real one (40401, 40403) and optional credentials.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tests.support.http.stand_in import StandIn, serving

_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


@dataclass
class RegistryDouble:
    """The stored schemas; `requests` lists the paths that were asked for, `away` lets every answer be a 503."""

    url: str = ""
    away: bool = False
    authorization: str | None = None
    requests: list[str] = field(default_factory=list)
    schemas: list[dict[str, Any]] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)

    def register(
        self,
        subject: str,
        schema: Any,
        schema_type: str = "AVRO",
        references: Sequence[Mapping[str, Any]] = (),
    ) -> int:
        """Store a schema, given as text or as JSON, as the subject's next version; return its id, from 1."""
        text = schema if isinstance(schema, str) else msgspec.json.encode(schema).decode()
        entry: dict[str, Any] = {"schema": text}
        if schema_type != "AVRO":
            entry["schemaType"] = schema_type  # the registry leaves the member out for Avro
        if references:
            entry["references"] = [dict(reference) for reference in references]
        if entry not in self.schemas:
            self.schemas.append(entry)
        identity = self.schemas.index(entry) + 1
        versions = self.subjects.setdefault(subject, [])
        if identity not in versions:
            versions.append(identity)
        return identity

    def require_basic(self, user: str, password: str) -> None:
        """Reject requests without these credentials."""
        self.authorization = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """Return the status and the JSON of the answer."""
        if self.away:
            return 503, {"error_code": 50003, "message": "Error while forwarding the request to the primary"}
        if found := re.fullmatch(r"/schemas/ids/(\d+)", path):
            return self._by_id(int(found[1]))
        if path == "/subjects":
            return 200, list(self.subjects)
        if found := re.fullmatch(r"/subjects/([^/]+)/versions/(\d+|latest)", path):
            return self._version(found[1], found[2])
        if method == "POST" and (found := re.fullmatch(r"/subjects/([^/]+)/versions", path)):
            given = msgspec.json.decode(body)
            references = given.get("references", ())
            return 200, {"id": self.register(found[1], given["schema"], given.get("schemaType", "AVRO"), references)}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _by_id(self, identity: int) -> tuple[int, Any]:
        if 1 <= identity <= len(self.schemas):
            return 200, self.schemas[identity - 1]
        return 404, {"error_code": 40403, "message": f"Schema {identity} not found"}

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        if subject not in self.subjects:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        versions = self.subjects[subject]
        number = len(versions) if version == "latest" else int(version)
        if not 1 <= number <= len(versions):
            return 404, {"error_code": 40402, "message": f"Version {version} not found."}
        identity = versions[number - 1]
        return 200, {"subject": subject, "version": number, "id": identity, **self.schemas[identity - 1]}


def framed(schema_id: int, payload: bytes) -> bytes:
    """Return the payload in Confluent's wire format: byte 0, then the schema's id as a big-endian 32-bit number."""
    return b"\x00" + schema_id.to_bytes(4, "big") + payload


@contextmanager
def registry_double() -> Iterator[RegistryDouble]:
    """Serve a registry without schemas while the block runs."""
    registry = RegistryDouble()

    class Handler(StandIn):
        def respond(self) -> None:
            path = self.path.partition("?")[0]
            registry.requests.append(path)
            body = self.body()
            if registry.authorization not in (None, self.headers["Authorization"]):
                status, content = 401, {"error_code": 401, "message": "Unauthorized"}
            else:
                status, content = registry.answer(self.command, path, body)
            self.answer(status, msgspec.json.encode(content), Content_Type=_CONTENT_TYPE)

    with serving(Handler) as registry.url:
        yield registry
