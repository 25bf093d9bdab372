"""Sessions of people who are signed in to the console: the request's cookie, with the present rights of its holder.

Each request looks up the session and its key again. So a session ends within the five seconds for which keys are cached
after its key was deleted or has expired, or after the secret that signed in has: a former secret works for the overlap
of its rotation. A route gets its user with a parameter of type `ConsoleUser`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import Depends, Request, Response
from starlette.exceptions import HTTPException

from app.api.console.answers import load_again, see_other
from app.api.exchange import exchange_of
from app.api.gateway import Gateway, gateway_in
from app.api.operations.keys import caller_names
from app.console.chrome import Chrome, Theme, chrome_of, installed_version
from app.domain.access.rights import Credential, Principal, Right
from app.domain.access.sign_in import SessionToken, safe_next
from app.domain.model.names import TableName
from app.staging.access.console_sessions import find_session
from app.staging.connection.database import translated_errors
from mirrorgate.errors import Code, RejectedInput

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
    """The user of a console page: what the key or token may do now, and the session's token."""

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
    return SignedIn(credential, token, base)


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
