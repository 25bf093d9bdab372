"""Answers every exception of the application, including the framework's own, with problem details.

Each rejection is recorded for the log line of the request and, if the audit keeps it, for the audit. Exceptions that
are not expected pass on to `request_entry`, which answers 500.
"""

from typing import Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.api.exchange import Exchange, exchange_of
from app.api.middleware.problem_pages import problem_answer
from app.api.middleware.rejection_audit import audit_rejection
from app.api.server.body_rejection import BodyRejected
from app.api.server.problem_responses import STATUS
from app.api.server.request_facts import BODY_COMPLETE
from app.api.server.validation_messages import UNKNOWN_KEYS, describe_issue, missing_parameter_remedy
from app.errors import Code, Kind, MirrorgateError, Problem, RejectedInput

log = structlog.get_logger()

_METHODS: Final = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_CODES_OF_FRAMEWORK: Final = {
    404: Code.NOT_FOUND,
    405: Code.METHOD_NOT_ALLOWED,
}
_CLOSING_KINDS: Final = frozenset({Kind.UNAUTHENTICATED, Kind.TOO_SLOW, Kind.TOO_LARGE})
"""Kinds of errors after which the rest of a body is not read: the connection is closed.

So is that of every rejected caller without a valid key.
"""


def install_error_handlers(app: FastAPI) -> None:
    """Register the handlers of this module with the application."""
    app.add_exception_handler(MirrorgateError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)


def answer_error(exchange: Exchange, error: MirrorgateError) -> Response:
    """Return the answer for an error of the product, and record it for log, audit and metrics."""
    record_rejection(exchange, error)
    if error.kind in {Kind.BROKEN, Kind.MISCONFIGURED}:
        log.error("request_failed", code=error.code, detail=error.detail)
    is_ending = error.kind in _CLOSING_KINDS or not exchange.reservation.is_verified
    is_unread = is_ending and BODY_COMPLETE not in exchange.scope
    return problem_answer(exchange, error, {"Connection": "close"} if is_unread else None)


def record_rejection(exchange: Exchange, error: MirrorgateError) -> None:
    """Record an error for the log line of the request and, if the audit keeps it, for the audit."""
    _record_facts(exchange, error)
    audit_rejection(exchange, error, STATUS[error.kind])


def answer_validation_error(exchange: Exchange, error: RequestValidationError) -> Response:
    """Return the answer for a parameter or a JSON body that pydantic rejects, without any value of it."""
    rejection = validation_rejection(exchange, error)
    _record_facts(exchange, rejection)
    return problem_answer(exchange, rejection)


def validation_rejection(exchange: Exchange, error: RequestValidationError) -> RejectedInput:
    """Return what pydantic rejects as an error of the product, without any value."""
    problems: list[Problem] = []
    remedy = None
    for issue in error.errors():
        location, *path = (str(part) for part in issue["loc"])
        if issue["type"] == "json_invalid":
            problems.append(Problem(Code.MALFORMED_JSON, f"not valid JSON at character {path[0]}"))
            continue
        escaped = (part.replace("~", "~0").replace("/", "~1") for part in path)
        pointer = "".join(f"/{part}" for part in escaped) if location == "body" else None
        description = describe_issue(Request(exchange.scope), issue)
        name = f"{location} parameter {'.'.join(path)}" if location != "body" else path[-1] if path else "the body"
        detail = description if issue["type"] in UNKNOWN_KEYS else f"{name}: {description}"
        code = Code.BAD_OPTION if path[:1] == ["options"] else Code.BAD_REQUEST
        if not problems and issue["type"] == "missing" and location != "body":
            remedy = missing_parameter_remedy(Request(exchange.scope), path[-1])
        problems.append(Problem(code, detail, pointer=pointer))
    return RejectedInput.of(tuple(problems), remedy=remedy)


def _answer_http_exception(request: Request, error: HTTPException) -> Response:
    """Return the answer for what the framework rejects, or our middleware while the framework reads a body."""
    if isinstance(error, BodyRejected):
        return answer_error(exchange_of(request.scope), error.error)
    code = _CODES_OF_FRAMEWORK.get(error.status_code, Code.BAD_REQUEST)
    headers = {"Allow": _allowed_methods(request)} if code is Code.METHOD_NOT_ALLOWED else error.headers
    rejection = RejectedInput(code, code.meaning)
    exchange = exchange_of(request.scope)
    _record_facts(exchange, rejection)
    return problem_answer(exchange, rejection, headers)


def _record_facts(exchange: Exchange, error: MirrorgateError) -> None:
    """Record the code, and the tables that the error concerns, for the log line of the request."""
    exchange.code = error.code
    problems = error.problems if isinstance(error, RejectedInput) else ()
    tables = [problem.table for problem in problems if problem.table is not None]
    path_table: str | None = exchange.scope.get("path_params", {}).get("table")
    exchange.tables = tuple(dict.fromkeys([*tables, path_table] if path_table else tables))


async def _on_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, MirrorgateError)
    return answer_error(exchange_of(request.scope), error)


async def _on_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return answer_validation_error(exchange_of(request.scope), error)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _answer_http_exception(request, error)


def _allowed_methods(request: Request) -> str:
    """Return every method of the request's path; the framework names those of one route only."""
    routes = request.app.router.routes
    allowed = [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join(allowed)
