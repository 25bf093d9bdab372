"""Pieces of the OpenAPI contract: headers of answers, problem details, and schemas without noise."""

import json
from typing import Any, Final

from app.api.openapi.message_bodies import COMPONENTS

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
    "RateLimit-Policy": {
        "description": "The rate limits of the key, if any: quota `q` in units `qu` each `w` seconds.",
        "schema": {"type": "string", "examples": ['"requests";q=50;qu="request";w=1']},
    },
    "RateLimit": {
        "description": "What is left of each quota (`r`), and in how many seconds (`t`) it is whole again.",
        "schema": {"type": "string", "examples": ['"requests";r=12;t=1']},
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
_OF_NAMES: Final = frozenset({"properties", "schemas", "paths", "headers", "$defs"})
_NOT_OF_PARAMETERS: Final = frozenset({"default", "description", "title"})
_LATER: Final = frozenset({429, 503})


def problem_of(description: str) -> dict[str, Any]:
    """A response with problem details."""
    schema = {"$ref": COMPONENTS + "ProblemModel"}
    return {"description": description, "content": {PROBLEM: {"schema": schema}}}


def without_framework_rejections(operation: dict[str, Any]) -> None:
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
    if status == 429:
        names += ["RateLimit-Policy", "RateLimit"]
    headers = response.setdefault("headers", {})
    for name in [*headers, *names]:
        if name in HEADERS:
            headers[name] = {"$ref": f"#/components/headers/{name}"}


def plain(node: Any, *, named: bool = False) -> Any:
    """The same for generators of clients: without titles that repeat a name, defaults told in words, and no null for a
    parameter that is left out.

    A generated client would send the default of a parameter, also where another one of the request rules it out, and
    demand a member that has one. `named`: the members of `node` are names of the caller's, not words of JSON Schema.
    """
    if isinstance(node, list):
        return [plain(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    if not named and "in" in node and "schema" in node:
        node = _plain_parameter(node)
    kept = {name: value for name, value in node.items() if named or name != "title" or "version" in node}
    return {name: _plain_member(name, value, named=named) for name, value in kept.items()}


def _plain_member(name: str, value: Any, *, named: bool) -> Any:
    """Examples are values, not schemas: they stay as they are."""
    if not named and name in {"example", "examples", "value", "enum"}:
        return value
    if not named and name == "properties":
        value = {member: _default_in_words(schema, schema) for member, schema in value.items()}
    return plain(value, named=not named and name in _OF_NAMES)


def _plain_parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    """What it may be when it is given; its description stands beside its schema."""
    schema = dict(parameter["schema"])
    described = _default_in_words(parameter, schema)
    given = [choice for choice in schema.pop("anyOf", ()) if choice != {"type": "null"}]
    if len(given) == 1:
        schema |= given[0]
    elif given:
        schema["anyOf"] = given
    return described | {"schema": {name: value for name, value in schema.items() if name not in _NOT_OF_PARAMETERS}}


def _default_in_words(described: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """`described` with the schema's default at the end of its description; null is no default worth a word."""
    if "default" not in schema:
        return described
    kept = {name: value for name, value in described.items() if name != "default"}
    if schema["default"] is None:
        return kept
    words = f"{kept.get('description', '')} Default: `{json.dumps(schema['default'])}`."
    return kept | {"description": words.strip()}
