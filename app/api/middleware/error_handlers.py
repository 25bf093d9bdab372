"""Answer every exception of the application, including the framework's own, with problem details.

`install_error_handlers` registers the handlers. Exceptions that are not expected pass on to `request_entry`, which
answers 500.

`problem_answer` returns problem details, or a page of the console that says the same.

`record_rejection` records each rejection for the log line of the request and, if the audit keeps it, for the audit.
`audit_rejection` selects what the audit keeps: no valid key, no right, or a table outside the key's patterns.
"""

from collections.abc import Mapping
from typing import Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.api.exchange import Exchange, exchange_of
from app.api.gateway import gateway_in
from app.api.server.problem_responses import (
    STATUS,
    UNKNOWN_KEYS,
    BodyRejected,
    describe_issue,
    missing_parameter_remedy,
    problem_response,
)
from app.api.server.request_facts import BODY_COMPLETE
from app.console.render import Chrome, installed_version, render
from app.domain.access.rejections import Rejection
from app.domain.model.names import TableName
from app.observability.telemetry import current_request_id
from mirrorgate.errors import Code, Kind, MirrorgateError, Problem, RejectedInput, TemporarilyUnavailable

MAX_SHOWN: Final = 20
"""Problems that a page lists."""

_REMEDIES: Final = {
    Code.NOT_FOUND: "Check the address, or go to the overview and look from there.",
    Code.METHOD_NOT_ALLOWED: "Go back to the page, and use its buttons.",
    Code.UNAUTHENTICATED: "Sign in to the console.",
    Code.FORBIDDEN: "Sign in with a key that has the right that the detail names, or ask an administrator for one.",
}
"""Remedies for browsers, where the remedy of a code speaks of calls."""


def problem_answer(exchange: Exchange, error: MirrorgateError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer for an error in the form that the path of the request has."""
    answer = problem_response(error, headers)
    if not exchange.is_page:
        return answer
    problems = error.problems if isinstance(error, RejectedInput) else ()
    is_loaded = exchange.scope["method"] == "GET"  # what answers a form may have no page to load again
    page = render(
        "problem.html",
        exchange.chrome or Chrome(installed_version()),
        status=answer.status_code,
        title=error.code.meaning,
        error=error,
        remedy=_remedy(error),
        request_id=current_request_id(),
        problems=problems[:MAX_SHOWN],
        retry_after=error.retry_after if isinstance(error, TemporarilyUnavailable) and is_loaded else None,
    )
    kept = {name: value for name, value in answer.headers.items() if name in ("retry-after", "allow", "connection")}
    return HTMLResponse(page, answer.status_code, kept)


def _remedy(error: MirrorgateError) -> str:
    is_general = error.remedy == error.code.remedy
    return _REMEDIES.get(error.code, error.remedy) if is_general else error.remedy


def audit_rejection(exchange: Exchange, error: MirrorgateError, status: int) -> None:
    """Record a rejection in memory if the audit keeps it. Never waits and never fails."""
    withheld = error.withheld if isinstance(error, RejectedInput) else None
    is_of_caller = error.kind in {Kind.UNAUTHENTICATED, Kind.FORBIDDEN} or error.code is Code.ISSUER_UNAVAILABLE
    if withheld is None and not is_of_caller:
        return
    action = f"{exchange.scope['method']} {exchange.route}"
    table = withheld or (_path_table(exchange) if error.kind is Kind.FORBIDDEN else None)
    rejection = Rejection(action, int(status), error.code, exchange.subject, table)
    gateway_in(exchange.scope).audit_writer.note_rejection(rejection)


def _path_table(exchange: Exchange) -> str | None:
    """Return the folded table name in the path of the request; None if there is no valid one."""
    try:
        return TableName.parse(exchange.scope["path_params"]["table"]).folded
    except (KeyError, RejectedInput):
        return None


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
    problems, remedy = list[Problem](), None
    for issue in error.errors():
        location, *path = (str(part) for part in issue["loc"] if part != "[key]")
        if issue["type"] == "json_invalid":
            problems.append(Problem(Code.MALFORMED_JSON, f"not valid JSON at character {path[0]}"))
            continue
        escaped = (part.replace("~", "~0").replace("/", "~1") for part in path)
        pointer = "".join(f"/{part}" for part in escaped) if location == "body" else None
        last = path[-2:] if path and path[-1].isdecimal() else path[-1:]  # the number of an entry alone says nothing
        name = f"{location} parameter {'.'.join(path)}" if location != "body" else ".".join(last) or "the body"
        is_unknown = issue["type"] in UNKNOWN_KEYS
        detail = ("" if is_unknown else f"{name}: ") + describe_issue(Request(exchange.scope), issue)
        code = Code.BAD_OPTION if path[:1] == ["options"] and (path[1:] or not is_unknown) else Code.BAD_REQUEST
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
