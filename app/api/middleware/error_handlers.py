"""Answer every exception of the application, the framework's included, with problem details.

What is rejected here is noted for the log line of the request and, where the audit keeps it, for the audit.
"""

from typing import Final

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.api.middleware.rejection_audit import note_rejection
from app.api.server.body_errors import RejectedReading
from app.api.server.problem_responses import STATUS, problem_response
from app.api.server.request_facts import BODY_IS_THERE, facts_of
from app.api.server.validation_messages import words_of
from app.errors import Code, Kind, MirrorgateError, Problem, RejectedInput
from app.errors.catalogue import CATALOGUE

log = structlog.get_logger()

_METHODS: Final = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_FRAMEWORK: Final = {
    404: Code.NOT_FOUND,
    405: Code.METHOD_NOT_ALLOWED,
}
_CLOSING: Final = frozenset({Kind.UNAUTHENTICATED, Kind.TOO_SLOW, Kind.TOO_LARGE})
"""Kinds of rejections after which the rest of a body is not awaited: the connection is closed."""


def install_problem_handlers(app: FastAPI) -> None:
    """Every rejection of the app, the framework's included, leaves as problem details; crashes: see RequestLog."""
    app.add_exception_handler(MirrorgateError, _on_deliberate)
    app.add_exception_handler(RequestValidationError, _on_validation)
    app.add_exception_handler(HTTPException, _on_framework)


def _note_facts(request: Request, error: MirrorgateError) -> None:
    """Tell the log line of the request what was rejected: the code, and the tables that it is about."""
    facts = facts_of(request.scope)
    facts.code = error.code
    problems = error.problems if isinstance(error, RejectedInput) else ()
    named = [problem.table for problem in problems if problem.table is not None]
    path: str | None = request.scope.get("path_params", {}).get("table")
    facts.tables = tuple(dict.fromkeys([*named, path] if path else named))


def answer_deliberate(request: Request, error: MirrorgateError) -> Response:
    """The rejection, noted for the audit where that keeps it."""
    _note_facts(request, error)
    note_rejection(request, error, STATUS[error.kind])
    if error.kind in {Kind.BROKEN, Kind.MISCONFIGURED}:
        log.error("request_failed", code=error.code, detail=error.detail)
    is_unread = error.kind in _CLOSING and BODY_IS_THERE not in request.scope
    return problem_response(error, {"Connection": "close"} if is_unread else None)


def answer_validation(request: Request, error: RequestValidationError) -> Response:
    """The framework found a parameter or a JSON body of ours wrong; its texts hold no input."""
    problems = []
    for issue in error.errors():
        where, *path = (str(part) for part in issue["loc"])
        if issue["type"] == "json_invalid":
            problems.append(Problem(Code.MALFORMED_JSON, f"not valid JSON at character {path[0]}"))
            continue
        escaped = (part.replace("~", "~0").replace("/", "~1") for part in path)
        pointer = "".join(f"/{part}" for part in escaped) if where == "body" else None
        words = words_of(request, issue)
        named = f"{where} parameter {'.'.join(path)}" if where != "body" else path[-1] if path else "the body"
        detail = words if issue["type"] == "extra_forbidden" else f"{named}: {words}"
        code = Code.BAD_OPTION if path[:1] == ["options"] else Code.BAD_REQUEST
        problems.append(Problem(code, detail, pointer=pointer))
    rejection = RejectedInput.of(tuple(problems))
    _note_facts(request, rejection)
    return problem_response(rejection)


def answer_framework(request: Request, error: HTTPException) -> Response:
    """What the framework itself rejects, or our middleware while the framework reads a body."""
    if isinstance(error, RejectedReading):
        return answer_deliberate(request, error.error)
    code = _FRAMEWORK.get(error.status_code, Code.BAD_REQUEST)
    headers = {"Allow": _methods_at(request)} if code is Code.METHOD_NOT_ALLOWED else error.headers
    rejection = RejectedInput(code, CATALOGUE[code].meaning)
    _note_facts(request, rejection)
    return problem_response(rejection, headers)


async def _on_deliberate(request: Request, error: Exception) -> Response:
    assert isinstance(error, MirrorgateError)
    return answer_deliberate(request, error)


async def _on_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return answer_validation(request, error)


async def _on_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return answer_framework(request, error)


def _methods_at(request: Request) -> str:
    """Every method that the request's path has; the framework names those of one route only."""
    routes = request.app.router.routes
    has = [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ", ".join(has)
