"""Turn errors of the product into HTTP answers with problem details (RFC 9457)."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import msgspec
from fastapi import Response

from app.errors import Kind, MirrorgateError, Problem, RejectedInput, TemporarilyUnavailable
from app.observability.api_metrics import REJECTED_REQUESTS
from app.observability.telemetry import current_request_id

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
        "type": f"urn:mirrorgate:error:{error.code}",
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
