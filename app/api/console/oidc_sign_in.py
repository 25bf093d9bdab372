"""Signing in to the console at an identity provider: the way there, and the redirect back (decision 0058).

The provider redirects the browser from another site. With this request the browser sends the cookie of the attempt
(`SameSite=Lax`), but not that of a session (`SameSite=Strict`). So the answer is a page that loads the console.
"""

import asyncio
import os
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from starlette.exceptions import HTTPException

from app.api.auth.code_flow import CodeFlow, error_code, rejection
from app.api.console.answers import load_again
from app.api.console.attempts import SIGN_IN_ATTEMPTS
from app.api.console.forms import check_origin, read_form
from app.api.console.sessions import SESSION_COOKIE, anonymous_chrome, is_secure, set_session_cookie
from app.api.console.sign_in import new_session, rejected_sign_in
from app.api.exchange import exchange_of
from app.api.gateway import Gateway, GatewayDep
from app.domain.access.rights import Credential
from app.domain.access.sign_in import ATTEMPT_SECONDS, TOKEN_BYTES, SessionToken, SignInAttempt
from app.settings.start_checks import CALLBACK_PATH
from mirrorgate.errors import Code, RejectedInput

router = APIRouter()

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
