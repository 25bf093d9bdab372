"""Pieces of the OpenAPI contract: headers of answers, problem details, and schemas without noise."""

import json
from typing import Any, Final

from app.api.message_bodies import COMPONENTS

PROBLEM: Final = "application/problem+json"
HEADERS: Final[dict[str, Any]] = {
    "X-Request-Id": {
        "description": "Names this request in the gateway's log: the caller's own id, if it sent a sane one.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
    },
    "Retry-After": {
        "description": "After how many seconds the same request may be sent again.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "WWW-Authenticate": {
        "description": "The scheme by which a key is sent.",
        "schema": {"type": "string", "examples": ["Bearer"]},
    },
    "Idempotency-Replayed": {
        "description": "Present where the request was accepted before: the answer is the one of then.",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
_LATER: Final = frozenset({429, 503})


def problem_of(description: str) -> dict[str, Any]:
    """A response with problem details."""
    schema = {"$ref": COMPONENTS + "ProblemModel"}
    return {"description": description, "content": {PROBLEM: {"schema": schema}}}


def without_framework_refusals(operation: dict[str, Any]) -> None:
    """Give problems their media type, and drop the framework's own 422, which the app answers as a 400."""
    responses = operation["responses"]
    for status, response in list(responses.items()):
        content = response.get("content", {})
        for media_type, described in list(content.items()):
            match described.get("schema", {}).get("$ref", "").rpartition("/")[2]:
                case "ProblemModel":
                    content[PROBLEM] = content.pop(media_type)
                case "HTTPValidationError":
                    del responses[status]


def answer_headers(status: int, response: dict[str, Any]) -> None:
    """Name the headers that an answer of this status has, beside those that its route names."""
    names = ["X-Request-Id"]
    if status == 401:
        names.append("WWW-Authenticate")
    if status in _LATER and PROBLEM in response.get("content", {}):
        names.append("Retry-After")
    headers = response.setdefault("headers", {})
    for name in [*headers, *names]:
        if name in HEADERS:
            headers[name] = {"$ref": f"#/components/headers/{name}"}


def plain(node: Any, *, named: bool = False) -> Any:
    """The same without titles that repeat a name, without null for a parameter that is left out or a default of null.

    `named`: the members of `node` are names of the caller's, not words of JSON Schema.
    """
    if isinstance(node, list):
        return [plain(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    if "in" in node and "schema" in node:
        node = {**node, "schema": _of_parameter(node["schema"])}
    kept = {name: value for name, value in node.items() if named or not _is_noise(name, value, node)}
    return {name: _inner(name, value, named=named) for name, value in kept.items()}


def _inner(name: str, value: Any, *, named: bool) -> Any:
    """Examples are values, not schemas: they stay as they are."""
    if not named and name in {"example", "examples", "value", "enum"}:
        return value
    if not named and name == "properties":
        value = {member: _without_default(schema) for member, schema in value.items()}
    return plain(value, named=not named and name in {"properties", "schemas", "paths", "headers", "$defs"})


def _is_noise(name: str, value: Any, node: dict[str, Any]) -> bool:
    return (name == "title" and "version" not in node) or (name == "default" and value is None)


def _of_parameter(schema: dict[str, Any]) -> dict[str, Any]:
    """What a parameter may be when it is given; its description stands beside it."""
    own = {name: value for name, value in schema.items() if name != "description"}
    given = [choice for choice in own.pop("anyOf", ()) if choice != {"type": "null"}]
    return own | given[0] if len(given) == 1 else own | ({"anyOf": given} if given else {})


def _without_default(schema: dict[str, Any]) -> dict[str, Any]:
    """A member's default in words: generators take a member that has one for one that must be given."""
    if schema.get("default") is None:
        return schema
    described = f"{schema.get('description', '')} Default: `{json.dumps(schema['default'])}`.".strip()
    return {name: value for name, value in schema.items() if name != "default"} | {"description": described}
