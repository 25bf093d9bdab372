"""Signing in with an API key or at an identity provider (decision 0058), signing out, and the colors.

`new_session` gives a session a new token each time a person signs in, so a token that an attacker put into the browser
opens nothing.

`callback` takes the provider's redirect, which the browser follows from another site. With this request the browser
sends the cookie of the attempt (`SameSite=Lax`), but not that of a session (`SameSite=Strict`). So the answer is a page
that loads the console.
"""

import asyncio
import os
import time
from collections.abc import Callable
from math import ceil
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from starlette.exceptions import HTTPException

from app.api.auth.oidc import CodeFlow, error_code, rejection
from app.api.console.answers import (
    COOKIE_PATH,
    SESSION_COOKIE,
    SIGN_IN,
    THEME_COOKIE,
    ConsoleForm,
    ConsoleUser,
    anonymous_chrome,
    check_origin,
    is_secure,
    load_again,
    page,
    read_form,
    rejected,
    see_other,
    set_session_cookie,
)
from app.api.exchange import exchange_of
from app.api.gateway import Gateway, GatewayDep
from app.console.render import Theme
from app.domain.access.rights import ApiKey, Credential, TokenBucket
from app.domain.access.sign_in import ATTEMPT_SECONDS, TOKEN_BYTES, SessionToken, SignInAttempt, safe_next
from app.settings.start_checks import CALLBACK_PATH
from app.staging.access.audit_events import record_operation
from app.staging.access.console_sessions import end_session, start_session
from app.staging.connection.database import translated_errors
from mirrorgate.errors import Code, MirrorgateError, RejectedInput, TemporarilyUnavailable

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
    SIGN_IN_ATTEMPTS.check(_address(request))
    key, former, exchange = form.raw("key").strip(), request.cookies.get(SESSION_COOKIE), exchange_of(request.scope)
    try:
        secret_hash = ApiKey.parse(key).secret_hash
        credential = await asyncio.to_thread(gateway.authenticator.credential, key)
    except RejectedInput as error:
        SIGN_IN_ATTEMPTS.note_failure(_address(request))
        return _rejected(request, gateway, target, key, error)
    gateway.authenticator.rate_limiter.admit(credential, exchange.head.content_length, exchange)
    token = await asyncio.to_thread(new_session, gateway, credential, former, secret_hash=secret_hash)
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


ATTEMPT_COOKIE: Final = "mirrorgate_sign_in"
_COOKIE_PATH: Final = "/console/oidc"
_START: Final = "/console"

_Parameter = Annotated[str, Query(max_length=8192)]


@router.post("/console/oidc/start")
async def start(request: Request, gateway: GatewayDep) -> Response:
    """Begin an attempt in this browser, and send it to the identity provider."""
    flow = _flow(gateway)
    check_origin(request)
    form = await read_form(request)
    SIGN_IN_ATTEMPTS.check(_address(request))
    attempt = SignInAttempt.of(os.urandom(TOKEN_BYTES), form.raw("next"))
    address = await asyncio.to_thread(flow.authorization_address, attempt)
    answer = load_again(address, anonymous_chrome(request), "Continue to the sign-in of your organization")
    answer.set_cookie(
        ATTEMPT_COOKIE,
        attempt.cookie,
        max_age=ATTEMPT_SECONDS,
        path=_COOKIE_PATH,
        httponly=True,
        samesite="lax",
        secure=is_secure(request),
    )
    return answer


@router.get(CALLBACK_PATH)
async def callback(
    request: Request, gateway: GatewayDep, code: _Parameter = "", state: _Parameter = "", error: _Parameter = ""
) -> Response:
    """Take the provider's redirect for the attempt of this browser, and start a session with what its token grants."""
    flow, attempt = _flow(gateway), SignInAttempt.parse(request.cookies.get(ATTEMPT_COOKIE))
    if attempt is None:  # not counted as a failed try: any site can make a browser load this address
        return _not_signed_in(request, gateway, _START, _foreign(flow))
    SIGN_IN_ATTEMPTS.check(_address(request))
    try:
        if not attempt.is_state(state):
            raise _foreign(flow)
        if error:
            raise _stopped(error)
        token = await asyncio.to_thread(_session, request, gateway, flow, code, attempt)
    except RejectedInput as rejected:
        SIGN_IN_ATTEMPTS.note_failure(_address(request))
        answer = _not_signed_in(request, gateway, attempt.next, rejected)
    else:
        answer = load_again(attempt.next, anonymous_chrome(request))
        set_session_cookie(request, answer, token)
    answer.delete_cookie(ATTEMPT_COOKIE, path=_COOKIE_PATH)
    return answer


def _not_signed_in(request: Request, gateway: Gateway, target: str, error: RejectedInput) -> Response:
    why = f"You are not signed in: {error.detail}."
    return rejected_sign_in(request, gateway, target, error, why, error.remedy)


def _session(request: Request, gateway: Gateway, flow: CodeFlow, code: str, attempt: SignInAttempt) -> SessionToken:
    """Return the token of a new session, which lasts no longer than the provider's token.

    Raises what `CodeFlow.holder` raises, and RejectedInput `forbidden` for a token without any right.
    """
    credential, seconds = flow.holder(code, attempt)
    exchange_of(request.scope).subject = credential.subject
    if not credential.grants:
        raise _without_rights(credential)
    return new_session(gateway, credential, request.cookies.get(SESSION_COOKIE), seconds=seconds)


def _flow(gateway: Gateway) -> CodeFlow:
    if gateway.code_flow is None:
        raise HTTPException(404)
    return gateway.code_flow


def _foreign(flow: CodeFlow) -> RejectedInput:
    start_address = flow.redirect_url.removesuffix(CALLBACK_PATH) + _START
    return RejectedInput(
        Code.UNAUTHENTICATED,
        f"the sign-in did not begin in this browser, or lasted longer than {ATTEMPT_SECONDS // 60} minutes",
        remedy=f"Start again, at {start_address}.",
    )


def _stopped(error: str) -> RejectedInput:
    return rejection(
        f"the identity provider ended the sign-in ({error_code(error)})",
        "Start again, or ask its administrator whether you may use this application.",
    )


def _without_rights(credential: Credential) -> RejectedInput:
    detail = f"none of the roles of {credential.subject} grants a right here"
    remedy = "Ask an administrator for a role that `MIRRORGATE_OIDC_RIGHTS` names, then sign in again."
    return RejectedInput(Code.FORBIDDEN, detail, remedy=remedy)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


ATTEMPTS_PER_SECOND: Final = 5.0
"""Failed tries of one address, which can be a proxy with many people behind it."""

MAX_ADDRESSES: Final = 10_000
"""Addresses that are counted at a time. Beyond it all of them start again."""


class AttemptLimit:
    """Counter of failed sign-ins by address. Not thread-safe: the event loop uses it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: dict[str, TokenBucket] = {}

    def check(self, address: str) -> None:
        """Raise TemporarilyUnavailable `rate_limited` if this address has failed too often."""
        bucket = self._buckets.get(address)
        if bucket is not None and (wait := bucket.seconds_to_wait(self._clock())) > 0:
            raise TemporarilyUnavailable(
                Code.RATE_LIMITED,
                "too many tries to sign in",
                retry_after=max(1, ceil(wait)),
                remedy="Wait some seconds, then sign in again.",
            )

    def note_failure(self, address: str) -> None:
        """Count a failed try."""
        now = self._clock()
        if address not in self._buckets and len(self._buckets) >= MAX_ADDRESSES:
            self._buckets.clear()
        bucket = self._buckets.setdefault(address, TokenBucket(ATTEMPTS_PER_SECOND, now))
        bucket.seconds_to_wait(now)  # fills it
        bucket.spend(1)


SIGN_IN_ATTEMPTS: Final = AttemptLimit()
"""The failed tries of this process, with keys and at an identity provider."""
