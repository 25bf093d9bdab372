"""Sign people in at an OpenID Connect issuer: the authorization code flow with PKCE, state and nonce.

The issuer's token is verified like one that a caller shows, and its roles grant the same rights (decision 0058). It is
used once and kept nowhere. No address, code, token or secret is logged or repeated in an error.
"""

import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import httpx
import structlog

from app.api.auth.authenticator import TokenVerifier
from app.api.auth.issuer_keys import discovered, exchange_json, issuer_client, named_address
from app.domain.access.rights import Credential, Grant
from app.domain.access.sign_in import SignInAttempt
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable

log = structlog.get_logger()

_Answer = TypeVar("_Answer")

DISCOVERY_SECONDS: Final = 3600.0
"""The issuer's addresses are read again after this time."""

MAX_EXCHANGES: Final = 4
"""Requests to the issuer at a time, so that a slow issuer does not take all worker threads."""

_MAX_CODE_CHARACTERS: Final = 4096
_ERROR_CODE: Final = re.compile(r"[a-z_]{1,40}")
_OWN_FAULTS: Final = frozenset({"invalid_client", "unauthorized_client"})
"""Error codes of the token endpoint that mean: the gateway's settings are wrong."""

_RETRY_SECONDS: Final = 5
_WRONG_TOKEN: Final = (
    "Start again. If it happens each time, compare the clocks, `MIRRORGATE_OIDC_ISSUER` and "
    "`MIRRORGATE_OIDC_CLIENT_ID` with the identity provider."
)


@dataclass(frozen=True, slots=True)
class Registration:
    """The gateway's registration at the issuer."""

    issuer: str
    client_id: str
    client_secret: str | None = field(repr=False)
    """None for a public client, which proves itself by PKCE alone."""
    redirect_url: str


class CodeFlow:
    """Sign-in of people for one registration. Thread-safe."""

    def __init__(self, registration: Registration, tokens: TokenVerifier, granted: Collection[Grant]) -> None:
        """Prepare; `granted` is what roles grant by the present settings."""
        self._registration = registration
        self._tokens = tokens
        self._granted = frozenset(granted)
        self._discovery: tuple[float, dict[str, Any]] | None = None
        self._exchanges = threading.BoundedSemaphore(MAX_EXCHANGES)

    @property
    def redirect_url(self) -> str:
        """Return where the issuer sends browsers back to."""
        return self._registration.redirect_url

    def still_granted(self, grants: Iterable[Grant]) -> tuple[Grant, ...]:
        """Return those grants of a session that the present settings have too: others were withdrawn since."""
        return tuple(grant for grant in grants if grant in self._granted)

    def authorization_address(self, attempt: SignInAttempt) -> str:
        """Return where a browser signs in. Raises TemporarilyUnavailable `issuer_unavailable` or `overloaded`."""
        parameters = {
            "response_type": "code",
            "client_id": self._registration.client_id,
            "redirect_uri": self._registration.redirect_url,
            "scope": "openid",
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        address = self._at_issuer(lambda client: named_address(self._document(client), "authorization_endpoint"))
        return f"{address}{'&' if '?' in address else '?'}{urlencode(parameters)}"

    def holder(self, code: str, attempt: SignInAttempt) -> tuple[Credential, float]:
        """Exchange a code; return what the person's token grants, and the seconds for which it is valid.

        Raises RejectedInput `unauthenticated`, TemporarilyUnavailable `issuer_unavailable` or `overloaded`.
        """
        if not 0 < len(code) <= _MAX_CODE_CHARACTERS:
            raise rejection("the issuer's redirect has no code")
        status, answer = self._at_issuer(lambda client: self._redeem(client, code, attempt))
        token = answer.get("id_token")
        if status != httpx.codes.OK or not isinstance(token, str):
            raise _rejected_by_issuer(status, answer)
        try:
            credential, expires_at = self._tokens.signed_in(token, self._registration.client_id, attempt)
        except RejectedInput as error:
            raise rejection(error.detail, _WRONG_TOKEN) from error
        seconds = expires_at - time.time()
        if seconds <= 0:
            raise rejection("the token has expired", _WRONG_TOKEN)
        return credential, seconds

    def _redeem(self, client: httpx.Client, code: str, attempt: SignInAttempt) -> tuple[int, dict[str, Any]]:
        document, known = self._document(client), self._registration
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": known.redirect_url,
            "client_id": known.client_id,
            "code_verifier": attempt.verifier,
        }
        address = named_address(document, "token_endpoint")
        for proof, headers in self._proofs(document):
            given = {"Accept": "application/json"} | headers
            status, answer = exchange_json(client, "POST", address, data=fields | proof, headers=given)
            if answer.get("error") != "invalid_client":
                break
        if status >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise ValueError(f"status {status}")
        return status, answer

    def _proofs(self, document: dict[str, Any]) -> list[tuple[dict[str, str], dict[str, str]]]:
        """Return the fields and headers that prove who the client is, in the order in which to try them.

        A provider can support both places for the secret, and accept for a registration only one of them.
        """
        name, secret = self._registration.client_id, self._registration.client_secret
        if secret is None:
            return [({}, {})]
        supported = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        in_header: tuple[dict[str, str], dict[str, str]] = ({}, {"Authorization": _basic(name, secret)})
        in_form: tuple[dict[str, str], dict[str, str]] = ({"client_secret": secret}, {})
        if not isinstance(supported, list) or "client_secret_basic" not in supported:
            return [in_form]
        return [in_header, in_form] if "client_secret_post" in supported else [in_header]

    def _document(self, client: httpx.Client) -> dict[str, Any]:
        """Return the discovery document; two threads that find it old both read it."""
        known = self._discovery
        if known is None or time.monotonic() - known[0] > DISCOVERY_SECONDS:
            known = self._discovery = (time.monotonic(), discovered(client, self._registration.issuer))
        return known[1]

    def _at_issuer(self, ask: Callable[[httpx.Client], _Answer]) -> _Answer:
        if not self._exchanges.acquire(blocking=False):
            raise TemporarilyUnavailable(
                Code.OVERLOADED,
                "many people are signing in, or the issuer is slow",
                retry_after=_RETRY_SECONDS,
                remedy="Wait some seconds, then sign in again.",
            )
        try:
            with issuer_client() as client:
                return ask(client)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            log.warning("sign_in_issuer_failed", error=type(error).__name__)
            raise TemporarilyUnavailable(
                Code.ISSUER_UNAVAILABLE,
                "the identity provider does not answer as it should",
                retry_after=_RETRY_SECONDS,
                remedy="Sign in again in a minute, or with an API key. The API's log has `sign_in_issuer_failed`.",
            ) from error
        finally:
            self._exchanges.release()


def rejection(detail: str, remedy: str = "Start again.") -> RejectedInput:
    """Return the rejection of a try to sign in."""
    return RejectedInput(Code.UNAUTHENTICATED, detail, remedy=remedy)


def error_code(given: object) -> str:
    """Return an error code of the issuer as it can be shown, `unknown_error` for any other string."""
    return given if isinstance(given, str) and _ERROR_CODE.fullmatch(given) else "unknown_error"


def _rejected_by_issuer(status: int, answer: dict[str, Any]) -> RejectedInput:
    code = error_code(answer.get("error")) if status != httpx.codes.OK else "no_id_token"
    log.warning("sign_in_rejected_by_issuer", error=code, status=status)
    if code in _OWN_FAULTS:
        return rejection(
            f"the identity provider does not know this gateway ({code})",
            "Compare `MIRRORGATE_OIDC_CLIENT_ID` and `MIRRORGATE_OIDC_CLIENT_SECRET` with the registration.",
        )
    return rejection(
        f"the identity provider did not complete the sign-in ({code})",
        "Start again. If it happens each time, compare `MIRRORGATE_OIDC_REDIRECT_URL` with the registration.",
    )


def _basic(client_id: str, secret: str) -> str:
    """Return the header of a confidential client; both parts are form-encoded first (RFC 6749, section 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(secret, safe='')}"
    return f"Basic {b64encode(pair.encode()).decode()}"
