"""Functions that complete and simplify the OpenAPI contract: headers of answers, problem details, schemas."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from app.api.openapi.message_bodies import COMPONENTS
from app.api.server.problem_responses import CHALLENGES

PROBLEM: Final = "application/problem+json"
HEADERS: Final[dict[str, Any]] = {
    "X-Request-Id": {
        "description": "Identifies this request in the gateway's log: the caller's own id if it sent a valid one.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
    },
    "Retry-After": {
        "description": "Seconds after which the same request can be sent again.",
        "schema": {"type": "integer", "minimum": 0},
    },
    "RateLimit-Policy": {
        "description": "The rate limits of the key, if any: a quota of `q` units `qu` per `w` seconds.",
        "schema": {"type": "string", "examples": ['"requests";q=50;qu="request";w=1']},
    },
    "RateLimit": {
        "description": "The rest of each quota (`r`), and the seconds (`t`) until it is full again.",
        "schema": {"type": "string", "examples": ['"requests";r=12;t=1']},
    },
    "WWW-Authenticate": {
        "description": "The authentication schemes that are accepted, the preferred one first.",
        "schema": {"type": "string", "examples": [CHALLENGES]},
    },
    "Idempotency-Replayed": {
        "description": "Present if the request was accepted before; the answer repeats the first one.",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
SECURITY_SCHEMES: Final[dict[str, Any]] = {
    "basic": {
        "type": "http",
        "scheme": "basic",
        "description": "An API key as the password, with any user name.",
    },
    "signature": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Signature",
        "description": "The change endpoints accept a body that is signed with the signing secret of a key: "
        "`sha256=<hex>`, or `t=<seconds>,v1=<hex>`, with the id of the key in the header `Mirrorgate-Key-Id` or in "
        "`?key_id=`. The header can also be `X-Hub-Signature-256`.",
    },
}
"""How a caller shows a key besides sending it as a bearer token; see docs/webhooks.md."""

_NAME_MAPS: Final = frozenset({"properties", "schemas", "paths", "headers", "$defs"})
_OUTSIDE_PARAMETER_SCHEMAS: Final = frozenset({"default", "description", "title"})
_UNDESCRIBED: Final = "Successful Response"
"""What the framework writes for an answer without a description."""

_RETRIABLE: Final = frozenset({429, 503})


def error_response(description: str) -> dict[str, Any]:
    """Return a response with problem details."""
    schema = {"$ref": COMPONENTS + "ProblemModel"}
    return {"description": description, "content": {PROBLEM: {"schema": schema}}}


def drop_framework_errors(operation: dict[str, Any]) -> None:
    """Give problem details their media type, and drop FastAPI's own 422, which the application answers as a 400."""
    responses = operation["responses"]
    for status, response in list(responses.items()):
        content = response.get("content", {})
        for media_type, described in list(content.items()):
            match described.get("schema", {}).get("$ref", "").rpartition("/")[2]:
                case "ProblemModel":
                    content[PROBLEM] = content.pop(media_type)
                case "HTTPValidationError":
                    del responses[status]


def describe_successes(operation: dict[str, Any], schemas: Mapping[str, Any]) -> None:
    """Describe the answers that the framework calls a successful response by the first sentence of their model."""
    for response in operation["responses"].values():
        if response["description"] == _UNDESCRIBED:
            content = response.get("content", {}).values()
            names = (described.get("schema", {}).get("$ref", "").rpartition("/")[2] for described in content)
            models = (schemas[name]["description"] for name in names if name in schemas)
            sentence, *_ = re.split(r"\.(?:\s|$)", next(models, "Done, as the call describes"))
            response["description"] = " ".join(sentence.split())


def add_response_headers(status: int, response: dict[str, Any]) -> None:
    """Add the headers of an answer with this status to those that its route declares."""
    names = ["X-Request-Id"]
    if status == 401:
        names.append("WWW-Authenticate")
    if status in _RETRIABLE and PROBLEM in response.get("content", {}):
        names.append("Retry-After")
    if status == 429:
        names += ["RateLimit-Policy", "RateLimit"]
    headers = response.setdefault("headers", {})
    for name in [*headers, *names]:
        if name in HEADERS:
            headers[name] = {"$ref": f"#/components/headers/{name}"}


def simplify_schema(node: Any, *, named: bool = False) -> Any:
    """Return the contract without titles, with defaults as text, and without null for optional parameters.

    A generated client would otherwise send the default of a parameter even if another parameter excludes it, and
    require a property that has a default. `named`: the keys of `node` are names of the API, not JSON Schema keywords.
    """
    if isinstance(node, list):
        return [simplify_schema(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    if not named and "in" in node and "schema" in node:
        node = _simplify_parameter(node)
    kept = {name: value for name, value in node.items() if named or name != "title" or "version" in node}
    return {name: _simplify_value(name, value, named=named) for name, value in kept.items()}


def _simplify_value(name: str, value: Any, *, named: bool) -> Any:
    """Simplify one value of a schema. Examples are values, not schemas, and stay as they are."""
    if not named and name in {"example", "examples", "value", "enum"}:
        return value
    if not named and name == "properties":
        value = {key: _describe_default(schema, schema) for key, schema in value.items()}
    return simplify_schema(value, named=not named and name in _NAME_MAPS)


def _simplify_parameter(parameter: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter whose schema has no null, and whose description is outside of the schema."""
    schema = dict(parameter["schema"])
    described = _describe_default(parameter, schema)
    given = [choice for choice in schema.pop("anyOf", ()) if choice != {"type": "null"}]
    if len(given) == 1:
        schema |= given[0]
    elif given:
        schema["anyOf"] = given
    return described | {
        "schema": {name: value for name, value in schema.items() if name not in _OUTSIDE_PARAMETER_SCHEMAS}
    }


def _describe_default(described: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Move the default of a schema to the end of the description; drop a default of null."""
    if "default" not in schema:
        return described
    kept = {name: value for name, value in described.items() if name != "default"}
    if schema["default"] is None:
        return kept
    text = f"{kept.get('description', '')} Default: `{json.dumps(schema['default'])}`."
    return kept | {"description": text.strip()}
