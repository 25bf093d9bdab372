"""Signing in with an API key and signing out; the colors of the console.

A try with a wrong key is answered, logged and audited like a rejected call of the API. A session gets a new token each
time a person signs in, so a token that an attacker put into the browser opens nothing.
"""

import asyncio
import os
from typing import Final

from fastapi import APIRouter, Request, Response

from app.api.console.answers import page, rejected, see_other
from app.api.console.attempts import SIGN_IN_ATTEMPTS
from app.api.console.forms import ConsoleForm, check_origin, read_form
from app.api.console.sessions import (
    COOKIE_PATH,
    SESSION_COOKIE,
    SIGN_IN,
    THEME_COOKIE,
    ConsoleUser,
    anonymous_chrome,
    is_secure,
    set_session_cookie,
)
from app.api.exchange import exchange_of
from app.api.gateway import Gateway, GatewayDep
from app.console.chrome import Theme
from app.domain.access.rights import ApiKey, Credential
from app.domain.access.sign_in import TOKEN_BYTES, SessionToken, safe_next
from app.staging.access.audit_events import record_operation
from app.staging.access.console_sessions import end_session, start_session
from app.staging.connection.database import translated_errors
from mirrorgate.errors import MirrorgateError, RejectedInput

router = APIRouter()

_THEME_SECONDS: Final = 365 * 86_400


@router.get(SIGN_IN)
async def sign_in_page(request: Request, gateway: GatewayDep, next: str = "", ended: str = "") -> Response:
    """Show the form that asks for a key, and the way to an identity provider if there is one."""
    return _sign_in_page(request, gateway, safe_next(next), ended=bool(ended))


@router.post(SIGN_IN)
async def sign_in(request: Request, gateway: GatewayDep) -> Response:
    """Start a session for the holder of a key, and go to the page that was asked for."""
    check_origin(request)
    form = await read_form(request)
    target = safe_next(form.raw("next"))
    address = request.client.host if request.client else ""
    SIGN_IN_ATTEMPTS.check(address)
    try:
        token = await asyncio.to_thread(_start, gateway, form.raw("key").strip(), request.cookies.get(SESSION_COOKIE))
    except RejectedInput as error:
        SIGN_IN_ATTEMPTS.note_failure(address)
        return _rejected(request, gateway, target, form.raw("key").strip(), error)
    answer = see_other(target)
    set_session_cookie(request, answer, token)
    return answer


@router.post("/console/sign-out")
def sign_out(user: ConsoleUser, _: ConsoleForm, gateway: GatewayDep) -> Response:
    """End the session."""
    with translated_errors(), gateway.engine.begin() as connection:
        if end_session(connection, user.token.hash) is not None:
            record_operation(connection, user.credential.subject, "sign_out")
    answer = see_other(SIGN_IN)
    answer.delete_cookie(SESSION_COOKIE, path=COOKIE_PATH)
    return answer


@router.post("/console/theme")
def set_theme(request: Request, form: ConsoleForm) -> Response:
    """Remember the colors in a cookie, and go back to the page."""
    answer = see_other(safe_next(form.raw("next")))
    answer.set_cookie(
        THEME_COOKIE,
        Theme.parse(form.raw("theme")),
        max_age=_THEME_SECONDS,
        path=COOKIE_PATH,
        httponly=True,
        samesite="strict",
        secure=is_secure(request),
    )
    return answer


def _start(gateway: Gateway, key: str, former: str | None) -> SessionToken:
    """Return the token of a new session of this key. Raises RejectedInput `unauthenticated`."""
    secret_hash = ApiKey.parse(key).secret_hash
    credential = gateway.authenticator.credential(key)
    return new_session(gateway, credential, former, secret_hash=secret_hash)


def new_session(
    gateway: Gateway,
    credential: Credential,
    former: str | None,
    *,
    secret_hash: bytes | None = None,
    seconds: float | None = None,
) -> SessionToken:
    """Store a session of a key (with the hash of its secret) or of a token's holder, and end the browser's former one.

    The start is in the audit, in the same transaction.
    """
    token, old = SessionToken.of(os.urandom(TOKEN_BYTES)), SessionToken.parse(former)
    with translated_errors(), gateway.engine.begin() as connection:
        if old is not None:
            end_session(connection, old.hash)
        start_session(
            connection,
            token.hash,
            credential.subject,
            proof=None if secret_hash is None else token.proof(secret_hash),
            grants=None if secret_hash is not None else tuple(credential.grants),
            seconds=seconds,
        )
        record_operation(connection, credential.subject, "sign_in")
    return token


def _rejected(request: Request, gateway: Gateway, target: str, key: str, error: MirrorgateError) -> Response:
    exchange_of(request.scope).subject = gateway.authenticator.known_key_id(key)
    remedy = "Check that you copied all of it, mg_<id>_<secret>, and that it is neither expired nor deleted."
    return rejected_sign_in(request, gateway, target, error, "This key is not valid.", remedy)


def rejected_sign_in(
    request: Request, gateway: Gateway, target: str, error: MirrorgateError, why: str, remedy: str
) -> Response:
    """Return the sign-in page with what was wrong. The try is logged, audited and counted like a rejected call."""
    status = rejected(request, error).status
    return _sign_in_page(request, gateway, target, error=why, remedy=remedy, status=status)


def _sign_in_page(
    request: Request,
    gateway: Gateway,
    target: str,
    *,
    error: str = "",
    remedy: str = "",
    ended: bool = False,
    status: int = 200,
) -> Response:
    """Return the page that asks for a key, and leads to `target` then; it can say what was wrong with the last try."""
    return page(
        request,
        "sign_in.html",
        anonymous_chrome(request),
        status=status,
        next=target,
        error=error,
        remedy=remedy,
        ended=ended,
        oidc=gateway.code_flow is not None,
    )
