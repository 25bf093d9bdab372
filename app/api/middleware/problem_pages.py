"""The answer for an error: problem details, or a page of the console that says the same."""

from collections.abc import Mapping
from typing import Final

from fastapi import Response
from fastapi.responses import HTMLResponse

from app.api.exchange import Exchange
from app.api.server.problem_responses import problem_response
from app.console.chrome import Chrome, installed_version
from app.console.render import render
from app.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable
from app.observability.telemetry import current_request_id

MAX_SHOWN: Final = 20
"""Problems that a page lists."""

_REMEDIES: Final = {
    Code.NOT_FOUND: "Check the address, or go to the overview and look from there.",
    Code.METHOD_NOT_ALLOWED: "Go back to the page, and use its buttons.",
    Code.UNAUTHENTICATED: "Sign in to the console.",
    Code.FORBIDDEN: "Sign in with a key that has the right that the detail names, or ask an administrator for one.",
}
"""What to do in a browser, where the remedy of a code speaks of calls."""


def problem_answer(exchange: Exchange, error: MirrorgateError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer for an error in the form that the path of the request has."""
    answer = problem_response(error, headers)
    if not exchange.is_page:
        return answer
    problems = error.problems if isinstance(error, RejectedInput) else ()
    page = render(
        "problem.html",
        exchange.chrome or Chrome(installed_version()),
        status=answer.status_code,
        title=error.code.meaning,
        error=error,
        remedy=_remedy(error),
        request_id=current_request_id(),
        problems=problems[:MAX_SHOWN],
        retry_after=error.retry_after if isinstance(error, TemporarilyUnavailable) else None,
    )
    kept = {name: value for name, value in answer.headers.items() if name in ("retry-after", "allow", "connection")}
    return HTMLResponse(page, answer.status_code, kept)


def _remedy(error: MirrorgateError) -> str:
    is_general = error.remedy == error.code.remedy
    return _REMEDIES.get(error.code, error.remedy) if is_general else error.remedy
