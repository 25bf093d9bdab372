"""Answers of the console: a page, a redirect, a page that loads another one, and what a page shows of an error."""

from dataclasses import dataclass

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.api.exchange import exchange_of
from app.api.middleware.error_handlers import record_rejection
from app.api.server.problem_responses import STATUS
from app.console.chrome import Chrome, Notice
from app.console.render import render
from app.observability.api_metrics import REJECTED_REQUESTS
from mirrorgate.errors import MirrorgateError


def page(request: Request, name: str, chrome: Chrome, *, status: int = 200, **values: object) -> Response:
    """Return a template filled with values by name. An error after this has the same navigation."""
    exchange_of(request.scope).chrome = chrome
    return HTMLResponse(render(name, chrome, **values), status)


def see_other(path: str) -> Response:
    """Return a redirect to a page, after a form that did its work."""
    return RedirectResponse(path, 303)


def load_again(target: str, chrome: Chrome, label: str = "Continue to the console") -> Response:
    """Return a page that loads `target` at once.

    A browser does not send the session's cookie (`SameSite=Strict`) along a link or redirect of another site. It sends
    it with what this page loads. And the policy of pages forbids a form to lead to another site, also by a redirect.
    """
    return HTMLResponse(render("continue.html", chrome, target=target, label=label))


@dataclass(frozen=True, slots=True)
class Rejected:
    """The error that the page of an action shows, and its HTTP status."""

    notice: Notice
    status: int


def rejected(request: Request, error: MirrorgateError) -> Rejected:
    """Return an error for its page. It is logged, audited and counted like an error of the API."""
    record_rejection(exchange_of(request.scope), error)
    REJECTED_REQUESTS.labels(error.code).inc()
    return Rejected(Notice("bad", f"{error.code}: {error.detail}", error.remedy), int(STATUS[error.kind]))
