"""Answers of the console: a page, a redirect after a form, and a page that loads another one by itself."""

from fastapi import Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from app.api.exchange import exchange_of
from app.console.chrome import Chrome
from app.console.render import render
from app.console.views.problem import ContinueView


def page(request: Request, name: str, view: object, chrome: Chrome, *, status: int = 200) -> Response:
    """Return a template filled with a view. An error after this has the same navigation."""
    exchange_of(request.scope).chrome = chrome
    return HTMLResponse(render(name, view, chrome), status)


def see_other(path: str) -> Response:
    """Return a redirect to a page, after a form that did its work."""
    return RedirectResponse(path, 303)


def load_again(target: str, chrome: Chrome, label: str = "Continue to the console") -> Response:
    """Return a page that loads `target` at once.

    A browser does not send the session's cookie (`SameSite=Strict`) along a link or redirect of another site. It sends
    it with what this page loads. And the policy of pages forbids a form to lead to another site, also by a redirect.
    """
    return HTMLResponse(render("continue.html", ContinueView(target, label), chrome))
