"""Sessions and forms of the console, and its answers: a page, a redirect, what a page shows of an error.

`ConsoleUser`, as the type of a parameter, gives a route its signed-in user: the session of the request's cookie, with
the present rights of its holder. Each request looks up the session and its key again. So a session ends within the five
seconds for which keys are cached after its key was deleted or has expired, or after the secret that signed in has: a
former secret works for the overlap of its rotation.

`ConsoleForm` rejects a form that another site made the browser send. A form of a session carries the session's token,
which no other site can read. In addition `check_origin` rejects a form if the headers in which browsers name the origin
of a request name another server; this also protects the sign-in form, which has no session.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import parse_qsl, quote

from fastapi import Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from app.api.exchange import exchange_of
from app.api.gateway import Gateway, gateway_in
from app.api.middleware.error_handlers import record_rejection
from app.api.operations.keys import caller_names
from app.api.server.problem_responses import STATUS
from app.console.render import Chrome, Notice, Theme, chrome_of, installed_version, render
from app.domain.access.rights import Credential, Principal, Right
from app.domain.access.sign_in import SessionToken, safe_next
from app.domain.model.names import TableName
from app.observability.api_metrics import REJECTED_REQUESTS
from app.staging.access.console_sessions import find_session
from app.staging.connection.database import translated_errors
from mirrorgate.errors import Code, MirrorgateError, RejectedInput

SESSION_COOKIE: Final = "mirrorgate_session"
THEME_COOKIE: Final = "mirrorgate_theme"
COOKIE_PATH: Final = "/console"
SIGN_IN: Final = "/console/sign-in"


class SignInRequired(HTTPException):
    """Raised for a request without a valid session; answered with the way to the sign-in page."""

    def __init__(self, *, ended: bool) -> None:
        super().__init__(401)
        self.ended = ended


@dataclass(frozen=True, slots=True)
class SignedIn:
    """The user of a console page: the request, what the key or token may do now, and the session's token."""

    request: Request
    credential: Credential
    token: SessionToken
    base: Chrome

    def principal(self, right: Right) -> Principal | None:
        """Return the user as the caller of what needs this right, None without it."""
        return self.credential.acting_by(right)

    def may(self, right: Right, table: TableName) -> bool:
        """Return True if the user has this right for a table."""
        principal = self.principal(right)
        return principal is not None and principal.may_touch(table)

    def require(self, right: Right, *, every_table: bool = False) -> Principal:
        """Return the user as the caller of what needs this right. Raises RejectedInput `forbidden`."""
        principal = self.principal(right)
        if principal is None:
            raise RejectedInput(Code.FORBIDDEN, f"you are signed in without the right `{right}`")
        if every_table and not principal.oversees_every_table:
            raise RejectedInput(Code.FORBIDDEN, f"you have the right `{right}` for some tables, not for all (`*`)")
        return principal

    def chrome(self, section: str, *, alerts: int | None = None, names: Mapping[str, str] | None = None) -> Chrome:
        """Return the surroundings of a page of this section, which shows keys with these names."""
        return replace(self.base, current=section, alerts=alerts, names={**(names or {}), **self.base.names})

    @property
    def gateway(self) -> Gateway:
        """The gateway that serves the request."""
        return gateway_in(self.request.scope)

    def page(
        self,
        template: str,
        section: str,
        *,
        names: Mapping[str, str] | None = None,
        status: int = 200,
        **values: object,
    ) -> Response:
        """Return a page of a section, or a part of one, as `page` does; `names` are those of keys that it shows."""
        return page(self.request, template, self.chrome(section, names=names), status=status, **values)

    def rejected(self, error: MirrorgateError) -> Notice:
        """Return the notice of an error of the request, as `rejected` does."""
        return rejected(self.request, error)


async def _signed_in(request: Request) -> SignedIn:
    """Return the user of the session's cookie, and count the request like one of the API.

    Raises SignInRequired, and TemporarilyUnavailable if Postgres does not answer or the key has reached its limit.
    """
    exchange, gateway = exchange_of(request.scope), gateway_in(request.scope)
    token = SessionToken.parse(request.cookies.get(SESSION_COOKIE))
    found = None if token is None else await asyncio.to_thread(_holder, gateway, token)
    if token is None or found is None:
        raise SignInRequired(ended=token is not None)
    credential, names = found
    address = address_of(request) if request.method == "GET" else ""
    base = chrome_of(
        credential,
        version=installed_version(),
        theme=theme_of(request),
        csrf=token.csrf,
        address=address,
        names=names,
    )
    exchange.credential, exchange.subject, exchange.chrome = credential, credential.subject, base
    gateway.authenticator.rate_limiter.admit(credential, exchange.head.content_length, exchange)
    exchange.reservation.assign_to(credential.subject)
    return SignedIn(request, credential, token, base)


ConsoleUser = Annotated[SignedIn, Depends(_signed_in)]
"""A route's parameter of this type is the signed-in user; without one, the answer leads to the sign-in page."""


def theme_of(request: Request) -> Theme:
    """Return the colors that the browser's cookie asks for."""
    return Theme.parse(request.cookies.get(THEME_COOKIE))


def anonymous_chrome(request: Request) -> Chrome:
    """Return the surroundings of a page without a user."""
    return Chrome(installed_version(), theme_of(request))


def address_of(request: Request) -> str:
    """Return path and query of a request as the browser wrote them: names in it remain escaped."""
    path, query = request.scope["raw_path"].decode("latin-1"), request.url.query
    return f"{path}?{query}" if query else path


async def answer_sign_in(request: Request, error: Exception) -> Response:
    """Answer a request without a session: redirect a page, tell the script of a page, and keep where to go next."""
    assert isinstance(error, SignInRequired)
    wanted = address_of(request)
    if request.headers.get("hx-request"):  # a part of a page: the script loads the page that it is on
        return Response(status_code=401, headers={"HX-Refresh": "true"})
    if not error.ended and request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
        return load_again(safe_next(wanted), anonymous_chrome(request))
    target = safe_next(wanted) if request.method == "GET" else COOKIE_PATH
    query = f"?next={quote(target, safe='/')}" + ("&ended=1" if error.ended else "")
    answer = see_other(SIGN_IN + query)
    if error.ended:
        answer.delete_cookie(SESSION_COOKIE, path=COOKIE_PATH)
    return answer


def set_session_cookie(request: Request, answer: Response, token: SessionToken) -> None:
    """Give the browser a session: a cookie that no script reads, no other site sends, and no plain HTTP carries."""
    answer.set_cookie(
        SESSION_COOKIE, token.text, path=COOKIE_PATH, httponly=True, samesite="strict", secure=is_secure(request)
    )


def is_secure(request: Request) -> bool:
    """Return True if the browser's connection is TLS, here or at a trusted proxy."""
    return request.url.scheme == "https" or gateway_in(request.scope).settings.behind_tls_proxy


def _holder(gateway: Gateway, token: SessionToken) -> tuple[Credential, Mapping[str, str]] | None:
    """Return what the holder of a session may do now, and the name of the key, if it has one, by its id.

    None if the session or its key has ended, or if the settings no longer grant anything of a person's session.
    """
    with translated_errors(), gateway.engine.begin() as connection:
        session = find_session(connection, token.hash)
        if session is None:
            return None
        names = caller_names(gateway, connection, [session.subject])
    if session.proof is None:
        grants = () if gateway.code_flow is None else gateway.code_flow.still_granted(session.grants)
        return (Credential(session.subject, grants), names) if grants else None
    found = gateway.authenticator.holder(session.subject)
    if found is None or not token.is_bound_to(session.proof, found[1]):
        return None
    gateway.authenticator.note_use(session.subject)
    return found[0], names


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


def rejected(request: Request, error: MirrorgateError) -> Notice:
    """Return the notice of an error for its page. It is logged, audited and counted like an error of the API."""
    record_rejection(exchange_of(request.scope), error)
    REJECTED_REQUESTS.labels(error.code).inc()
    return Notice("bad", f"{error.code}: {error.detail}", error.remedy, int(STATUS[error.kind]))


MAX_FIELDS: Final = 100
_TYPE: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True)
class FormFields:
    """The fields of a form; of a field that is sent twice, the last one counts."""

    fields: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return a field without the blanks around it. Raises RejectedInput `bad_request` if it is missing."""
        if name not in self.fields:
            raise RejectedInput(Code.BAD_REQUEST, f"the form lacks the field `{name}`")
        return self.fields[name].strip()

    def raw(self, name: str) -> str:
        """Return a field exactly as typed, an empty string if it is missing."""
        return self.fields.get(name, "")

    def optional(self, name: str) -> str | None:
        """Return a field without the blanks around it, None if it is missing or empty."""
        return self.fields.get(name, "").strip() or None

    def number(self, name: str) -> int:
        """Return a whole number of at most 18 digits. Raises RejectedInput `bad_request` for anything else."""
        text = self.text(name)
        if not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise RejectedInput(Code.BAD_REQUEST, f"the field `{name}` must be a whole number")
        return int(text)


async def _console_form(request: Request, user: ConsoleUser) -> FormFields:
    """Return the fields of a form of this session. Raises RejectedInput `forbidden` if it lacks the session's token."""
    check_origin(request)
    form = await read_form(request)
    if not user.token.is_csrf(form.raw("csrf")):
        raise RejectedInput(
            Code.FORBIDDEN,
            "the form does not belong to your session",
            remedy="Go back, load that page again and repeat the action. You may have signed in again since then.",
        )
    return form


ConsoleForm = Annotated[FormFields, Depends(_console_form)]
"""A route's parameter of this type holds the fields of a POST of the signed-in user."""


async def read_form(request: Request) -> FormFields:
    """Return the fields of the body, for any session or none. Raises RejectedInput for a body that is not a form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise RejectedInput(Code.UNSUPPORTED_MEDIA_TYPE, "the body is not a form", remedy="Use the form of the page.")
    try:
        pairs = parse_qsl(
            (await request.body()).decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        raise RejectedInput(Code.BAD_REQUEST, "the form cannot be read", remedy="Use the form of the page.") from None
    return FormFields({name: value.replace("\r\n", "\n") for name, value in pairs if "\0" not in name + value})


def check_origin(request: Request) -> None:
    """Raise RejectedInput `forbidden` if the browser says that another site sent the request."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site in ("same-origin", "none")
    else:
        own = f"//{request.headers.get('host', '')}".lower()
        is_own = origin is None or origin.lower().partition(":")[2] == own
    if not is_own:
        raise RejectedInput(
            Code.FORBIDDEN,
            "another site sent this form",
            remedy="Open the console in its own tab and repeat the action there.",
        )
