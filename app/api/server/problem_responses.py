"""Turn errors of the product into HTTP answers with problem details (RFC 9457).

`BodyRejected` carries an error of the product through the framework's reading of a body.

`PAGE_HEADERS` are on every answer of the console, also on errors. `POLICY` allows only files of this server, no inline
script or style, no frame and no other target of a form. A page can show names of tables, reasons and producers that
others chose, so a missed escape must not run a script.

`describe_issue` words the errors of pydantic for the caller. The messages never contain a value that the caller sent.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from fastapi import Request, Response
from starlette.exceptions import HTTPException

from app.observability.api_metrics import REJECTED_REQUESTS
from app.observability.telemetry import current_request_id
from mirrorgate.errors import Kind, MirrorgateError, Problem, RejectedInput, TemporarilyUnavailable
from mirrorgate.errors.site import page_of_code


class BodyRejected(HTTPException):
    """Carrier of the error with which the middleware stops a body.

    It is an HTTPException because FastAPI turns every other exception, raised while it reads a body, into a plain 400.
    """

    def __init__(self, error: MirrorgateError) -> None:
        super().__init__(400)
        self.error = error


PREFIX: Final = "/console"
"""Start of the paths that are answered with pages."""

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

PAGE_HEADERS: Final = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # `no-referrer` would make the Origin of each form `null`
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"x-robots-tag", b"noindex"),
)

NOT_STORED: Final = (b"cache-control", b"no-store")
"""For answers that do not say how long they are kept."""


def is_page_path(path: str) -> bool:
    """Return True if a path is one of the console."""
    return path.startswith(PREFIX) and path[len(PREFIX) : len(PREFIX) + 1] in ("", "/")


_MESSAGES: Final[Mapping[str, str]] = {
    "missing": "is missing",
    "model_attributes_type": "must be a JSON object",
    "dataclass_type": "must be a JSON object",
    "dict_type": "must be a JSON object",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
}
_MATCHED: Final[Mapping[str, str]] = {
    r"^[^\x00-\x20\x7f]([^\x00-\x1f\x7f]*[^\x00-\x20\x7f])?$": "have no control characters, and no blanks at its ends",
    r"^[^\x00-\x1f]+$": "have no control characters",
    "^[!-~]+$": "have visible ASCII characters only, and no blanks",
    "^[!-~]([ -~]*[!-~])?$": "have visible ASCII characters only, and no blanks at its ends",
    "^[a-z0-9][a-z0-9_-]{0,63}$": "have at most 64 of a-z, 0-9, _ and -, and begin with a letter or digit",
    "^[0-9a-f]{1,4}$": "have at most 4 of 0-9 and a-f",
}
"""What a text must do to match a pattern of the contract."""
UNKNOWN_KEYS: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
"""The types of issues about a key that a model or a dataclass does not have."""
_MAX_NAME_CHARACTERS: Final = 64


def describe_issue(request: Request, issue: Mapping[str, Any]) -> str:
    """Return what is wrong at the location of the issue. For an unknown key, list the known ones."""
    kind, (location, *path) = str(issue["type"]), issue["loc"]
    if kind in UNKNOWN_KEYS:
        known = ", ".join(sorted(_known_keys(request, path[:-1]))) if location == "body" else ""
        return f"unknown key `{printable_name(str(path[-1]))}`" + (f"; known: {known}" if known else "")
    if kind in _MESSAGES:
        return _MESSAGES[kind]
    if kind == "string_pattern_mismatch":
        pattern = issue["ctx"]["pattern"]
        return "must not be empty, and must " + _MATCHED.get(pattern, f"match {pattern}")
    text = str(issue["msg"]).removeprefix("Value error, ")
    return "must" + text.removeprefix("Input should") if text.startswith("Input should") else text


def printable_name(name: str) -> str:
    """Return a caller's name as an answer can repeat it: at most 64 characters, all of them printable."""
    kept = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)
    return kept if len(kept) <= _MAX_NAME_CHARACTERS else kept[:_MAX_NAME_CHARACTERS] + "…"


def missing_parameter_remedy(request: Request, name: str) -> str | None:
    """Return what the contract says that a missing parameter is; None for one that it does not describe."""
    described = [one for one in _operation(request).get("parameters", ()) if one["name"] == name]
    return f"Give the parameter `{name}`. {described[0]['description']}" if described else None


def _operation(request: Request) -> Mapping[str, Any]:
    """Return what the contract says about the route of a request."""
    route: Any = request.scope.get("route")
    operation: Mapping[str, Any] = (
        request.app.openapi()["paths"].get(getattr(route, "path", ""), {}).get(request.method.lower(), {})
    )
    return operation


def _known_keys(request: Request, path: Sequence[int | str]) -> set[str]:
    """Return the keys that the contract gives an object at this path of the request's body."""
    contract, operation = request.app.openapi(), _operation(request)
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schemas = [content.get("schema", {})]
    for step in path:
        schemas = [inner for schema in _alternatives(contract, schemas) for inner in _subschemas(schema, step)]
    return {name for schema in _alternatives(contract, schemas) for name in schema.get("properties", {})}


def _alternatives(contract: Mapping[str, Any], schemas: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the schemas with references resolved, and the parts of those that combine others."""
    found: list[Mapping[str, Any]] = []
    for schema in schemas:
        if "$ref" in schema:
            schema = contract["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        parts = [part for word in ("anyOf", "oneOf", "allOf") for part in schema.get(word, ())]
        found += [schema, *_alternatives(contract, parts)]
    return found


def _subschemas(schema: Mapping[str, Any], step: int | str) -> list[Mapping[str, Any]]:
    if isinstance(step, int):
        return [schema["items"]] if "items" in schema else []
    named = schema.get("properties", {}).get(step)
    others = schema.get("additionalProperties")
    return [one for one in (named, others) if isinstance(one, dict)]


MEDIA_TYPE: Final = "application/problem+json"
MAX_PROBLEMS: Final = 100
"""Problems that an answer lists; `errors_total` has their count."""

CHALLENGES: Final = 'Bearer realm="mirrorgate", Basic realm="mirrorgate", charset="UTF-8"'
"""The schemes that a caller can show a key by (RFC 9110, 11.6.1). Both are accepted on every route with a key."""

STATUS: Final[Mapping[Kind, HTTPStatus]] = {
    Kind.MALFORMED: HTTPStatus.BAD_REQUEST,
    Kind.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    Kind.FORBIDDEN: HTTPStatus.FORBIDDEN,
    Kind.MISSING: HTTPStatus.NOT_FOUND,
    Kind.METHOD: HTTPStatus.METHOD_NOT_ALLOWED,
    Kind.CONFLICT: HTTPStatus.CONFLICT,
    Kind.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Kind.TOO_SLOW: HTTPStatus.REQUEST_TIMEOUT,
    Kind.TOO_MUCH: HTTPStatus.TOO_MANY_REQUESTS,
    Kind.HEAD_TOO_LARGE: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    Kind.UNSUPPORTED_MEDIA: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    Kind.INVALID: HTTPStatus.UNPROCESSABLE_ENTITY,
    Kind.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Kind.MISCONFIGURED: HTTPStatus.INTERNAL_SERVER_ERROR,
    Kind.BROKEN: HTTPStatus.INTERNAL_SERVER_ERROR,
}


def problem_response(error: MirrorgateError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer for an error, with the first 100 of its problems and their total number.

    `request_id` is the one of the log lines, if a request is being answered. The error is counted in the metrics.
    """
    problems = error.problems if isinstance(error, RejectedInput) else ()
    status = STATUS[error.kind]
    body: dict[str, Any] = {
        "type": page_of_code(error.code),
        "title": error.code.meaning,
        "status": int(status),
        "code": error.code,
        "detail": error.detail,
        "remedy": error.remedy,
    }
    if (request_id := current_request_id()) is not None:
        body["request_id"] = request_id
    if problems:
        body["errors"] = [_problem(problem) for problem in problems[:MAX_PROBLEMS]]
        body["errors_total"] = len(problems)
    extra = dict(headers or {})
    if isinstance(error, TemporarilyUnavailable):
        extra["Retry-After"] = str(error.retry_after)
    if status is HTTPStatus.UNAUTHORIZED:
        extra["WWW-Authenticate"] = CHALLENGES
    REJECTED_REQUESTS.labels(error.code).inc()
    return Response(msgspec.json.encode(body), int(status), extra, MEDIA_TYPE)


def _problem(problem: Problem) -> dict[str, Any]:
    fields = {
        "index": problem.index,
        "pointer": problem.pointer,
        "code": problem.code,
        "table": problem.table,
        "column": problem.column,
        "detail": problem.detail,
    }
    return {name: value for name, value in fields.items() if value is not None}
