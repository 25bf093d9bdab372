"""Tokens of an OpenID Connect issuer, such as Entra ID: verify those of callers, and sign people in.

`OidcVerifier` verifies a token and returns what it grants. `IssuerKeys` reads the issuer's public keys over https,
bounded in time and size, and caches them. One request at a time asks the issuer; no other request waits for the answer.

`CodeFlow` signs people in by the authorization code flow with PKCE, state and nonce. The issuer's token is verified
like one that a caller shows, and its roles grant the same rights (decision 0058). It is used once and kept nowhere. No
address, code, token or secret is logged or repeated in an error.

`token_verifier` and `code_flow` build both from the settings.
"""

import math
import re
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import httpx
import jwt
import msgspec
import structlog

from app.bounded_answers import bounded_answer
from app.domain.access.rights import Credential, Grant, Right
from app.domain.access.sign_in import SignInAttempt, credential_of
from app.settings import Settings
from app.settings.start_checks import check_tokens, is_safe_address
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable

_TIMEOUT_SECONDS: Final = 5.0
_MAX_BYTES: Final = 2**20


def issuer_client() -> httpx.Client:
    """Return a client for the issuer, which follows no redirect."""
    return httpx.Client(timeout=_TIMEOUT_SECONDS, follow_redirects=False)


def discovered(client: httpx.Client, issuer: str) -> dict[str, Any]:
    """Return the discovery document. Raises httpx.HTTPError, or ValueError for an unusable answer."""
    status, document = exchange_json(client, "GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    require_ok(status)
    if document.get("issuer") != issuer:
        raise ValueError("the discovery document names another issuer")
    return document


def named_address(document: dict[str, Any], name: str) -> str:
    """Return an address that a discovery document names. Raises ValueError unless it is https or on this machine."""
    address = document.get(name)
    if not isinstance(address, str) or not is_safe_address(address):
        raise ValueError(f"{name} is not an https address")
    return address


def exchange_json(client: httpx.Client, method: str, address: str, **sent: Any) -> tuple[int, dict[str, Any]]:
    """Send a request; return the status and the JSON object of the answer, at most 1 MiB.

    Raises httpx.HTTPError, or ValueError for an answer that is too large or no JSON object.
    """
    answer = bounded_answer(client, method, address, max_bytes=_MAX_BYTES, **sent)
    try:
        content: dict[str, Any] = msgspec.json.decode(answer.content, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"the answer with status {answer.status_code} is not a JSON object") from error
    return answer.status_code, content


def require_ok(status: int) -> None:
    """Raise ValueError for any status but 200."""
    if status != httpx.codes.OK:
        raise ValueError(f"status {status}")


log = structlog.get_logger()

KEYS_SECONDS: Final = 3600.0
"""Keys are read again after this time, so that a key that the issuer has withdrawn stops working."""

RETRY_SECONDS: Final = 60.0
"""Pause between two reads, whatever key ids the tokens name and whether or not the issuer answers."""

RETRY_WITHOUT_KEYS_SECONDS: Final = 5.0
"""Pause between two reads while no key is known."""

ALGORITHMS: Final = ("RS256", "ES256")
"""Asymmetric signatures only: with HMAC, everyone who can verify a token could also sign one."""


class IssuerKeys:
    """An issuer's keys by id. While the issuer does not answer, the keys that were read last remain valid."""

    def __init__(self, issuer: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer = issuer
        self._clock = clock
        self._lock = threading.Lock()
        self._keys: dict[str, jwt.PyJWK] = {}
        self._read_at = self._tried_at = float("-inf")

    def find(self, key_id: str) -> jwt.PyJWK | None:
        """Return the key of this id, or None if the issuer publishes no such key.

        Raises TemporarilyUnavailable `issuer_unavailable` if that is unknown because the keys cannot be read now: the
        issuer does not answer, or they were read a moment ago, and it has perhaps rotated them since.
        """
        key = self._keys.get(key_id)
        if key is not None and self._clock() - self._read_at < KEYS_SECONDS:
            return key
        was_read = False
        if self._lock.acquire(blocking=False):  # one request reads; the others do not wait for it
            try:
                if self._is_due(key_id):
                    was_read = self._read()
            finally:
                self._lock.release()
        key = self._keys.get(key_id)
        if key is None and not was_read:
            answers = self._read_at == self._tried_at != float("-inf")
            wait = RETRY_SECONDS - (self._clock() - self._tried_at) if answers else RETRY_WITHOUT_KEYS_SECONDS
            raise TemporarilyUnavailable(
                Code.ISSUER_UNAVAILABLE,
                "the issuer's keys were read a moment ago, without that of the token"
                if answers
                else "the token issuer does not answer",
                retry_after=max(1, math.ceil(wait)),
            )
        return key

    def prefetch(self) -> None:
        """Read the keys if none are known yet."""
        with self._lock:
            if not self._keys and self._is_due(""):
                self._read()

    def _is_due(self, key_id: str) -> bool:
        now = self._clock()
        fresh = key_id in self._keys and now - self._read_at < KEYS_SECONDS
        pause = RETRY_SECONDS if self._keys else RETRY_WITHOUT_KEYS_SECONDS
        return not fresh and now - self._tried_at >= pause

    def _read(self) -> bool:
        """Read the keys; return False, and keep those that are known, if that fails."""
        self._tried_at = self._clock()
        try:
            keys = _published_keys(self._issuer)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            log.warning("issuer_keys_read_failed", error=type(error).__name__, kept=len(self._keys))
            return False
        self._keys = keys
        self._read_at = self._tried_at
        log.info("issuer_keys_read", keys=len(keys))
        return True


def _published_keys(issuer: str) -> dict[str, jwt.PyJWK]:
    """Return the issuer's signing keys by id. Raises httpx.HTTPError, or ValueError for an unusable answer."""
    with issuer_client() as client:
        status, document = exchange_json(client, "GET", named_address(discovered(client, issuer), "jwks_uri"))
    require_ok(status)
    entries = document.get("keys")
    if not isinstance(entries, list):
        raise ValueError("the key document has no list of keys")
    keys = [key for entry in entries if (key := _signing_key(entry)) is not None]
    if not keys:
        raise ValueError("the key document has no usable signing key")
    return {str(key.key_id): key for key in keys}


def _signing_key(entry: Any) -> jwt.PyJWK | None:
    """Return the key if it is for an allowed signature algorithm."""
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or not isinstance(entry.get("kid"), str):
        return None
    if entry.get("kty") not in ("RSA", "EC"):
        return None
    try:
        key = jwt.PyJWK(entry)
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return key if key.algorithm_name in ALGORITHMS else None


LEEWAY_SECONDS: Final = 30
MAX_TOKEN_CHARACTERS: Final = 16_384
MAX_CLOSE_SECONDS: Final = 1.0
"""Seconds for which `close` waits for a read of the issuer's keys; the daemon thread then ends with the process."""

_MAX_KEY_ID_CHARACTERS: Final = 256


class OidcVerifier:
    """Verifier of access tokens for one audience and of ID tokens of sign-ins. Reads the issuer's keys when needed."""

    def __init__(self, keys: IssuerKeys, issuer: str, audience: str, granted_by: dict[str, Grant]) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audience = audience
        self._granted_by = granted_by
        self._thread = threading.Thread(target=keys.prefetch, name="issuer-keys", daemon=True)

    def start(self) -> None:
        """Read the issuer's keys in a thread, so that the first tokens need no second try."""
        self._thread.start()

    def close(self) -> None:
        """Wait for the thread, at most MAX_CLOSE_SECONDS. `start` must have been called."""
        self._thread.join(MAX_CLOSE_SECONDS)

    def credential(self, token: str) -> Credential:
        """Return what the token grants.

        Raises RejectedInput `unauthenticated`, or TemporarilyUnavailable `issuer_unavailable` if the issuer's keys are
        needed and cannot be read.
        """
        return credential_of(self._claims(token, self._audience), self._granted_by)

    def signed_in(self, token: str, client_id: str, attempt: SignInAttempt) -> tuple[Credential, float]:
        """Return what the ID token of a person grants, and when it expires, in seconds since 1970.

        Raises what `credential` raises, also for the token of another sign-in or of another client.
        """
        claims = self._claims(token, client_id)
        if not attempt.is_nonce(claims.get("nonce")):
            raise _rejection("was not made for this sign-in")
        if claims.get("azp", client_id) != client_id:
            raise _rejection("was made for another client")
        if "azp" not in claims and isinstance(claims["aud"], list) and len(claims["aud"]) > 1:
            raise _rejection("is for several audiences, and does not name the client that it was made for")
        return credential_of(claims, self._granted_by), float(claims["exp"])

    def _claims(self, token: str, audience: str) -> dict[str, Any]:
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise _rejection("is too long")
        try:
            key = self._keys.find(_key_id(token))
        except TemporarilyUnavailable:
            self._decoded(token, audience, None)  # a token that no key can make valid is rejected for good
            raise
        if key is None:
            raise _rejection("is signed with a key that the issuer does not publish")
        return self._decoded(token, audience, key)

    def _decoded(self, token: str, audience: str, key: jwt.PyJWK | None) -> dict[str, Any]:
        """Return the claims of a token for this audience; without a key, its signature is not verified."""
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key=key or "",
                algorithms=list(ALGORITHMS),
                audience=audience,
                issuer=self._issuer,
                leeway=LEEWAY_SECONDS,
                options={
                    "verify_signature": key is not None,
                    "require": ["exp", "iss", "aud"],
                    "verify_exp": True,
                    "verify_nbf": True,
                    "verify_iss": True,
                    "verify_aud": True,
                    "verify_iat": False,
                },
            )
        except jwt.ExpiredSignatureError:
            raise _rejection("has expired") from None
        except jwt.ImmatureSignatureError:
            raise _rejection("is not valid yet") from None
        except jwt.InvalidAudienceError:
            raise _rejection("is for another audience") from None
        except jwt.InvalidIssuerError:
            raise _rejection("is from another issuer") from None
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _rejection("is not valid") from None
        return claims


def _key_id(token: str) -> str:
    """Return the id of the key that the token names as its signer. Nothing of the token is verified yet."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise _rejection("cannot be read") from None
    if header.get("alg") not in ALGORITHMS:
        raise _rejection(f"is not signed with {' or '.join(ALGORITHMS)}")
    key_id = header.get("kid")
    if not isinstance(key_id, str) or not 0 < len(key_id) <= _MAX_KEY_ID_CHARACTERS:
        raise _rejection("does not name the key that signed it")
    return key_id


def _rejection(what: str) -> RejectedInput:
    return RejectedInput(Code.UNAUTHENTICATED, f"the token {what}")


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
class ClientRegistration:
    """The gateway's registration at the issuer."""

    issuer: str
    client_id: str
    client_secret: str | None = field(repr=False)
    """None for a public client, which proves itself by PKCE alone."""
    redirect_url: str


class CodeFlow:
    """Sign-in of people for one registration. Thread-safe."""

    def __init__(self, registration: ClientRegistration, tokens: OidcVerifier, granted: Collection[Grant]) -> None:
        """Prepare; `granted` is what roles grant by the present settings."""
        self._registration = registration
        self._tokens = tokens
        self._granted = frozenset(granted)
        self._discovery: tuple[float, dict[str, Any]] | None = None
        self._exchanges = threading.BoundedSemaphore(MAX_EXCHANGES)
        self._takes_form = False
        """True once the issuer has taken the secret in the form, and not in the header."""

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
                self._takes_form = "client_secret" in proof
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
        if "client_secret_post" not in supported:
            return [in_header]
        return [in_form, in_header] if self._takes_form else [in_header, in_form]

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


def token_verifier(settings: Settings) -> OidcVerifier | None:
    """Return the verifier of tokens, or None if no issuer is set. Does not contact the issuer.

    Raises Misconfigured for contradictory settings.
    """
    check_tokens(settings)
    issuer, audience = settings.oidc_issuer, settings.oidc_audience
    if issuer is None or audience is None:
        return None
    return OidcVerifier(IssuerKeys(issuer), issuer, audience, _granted_by(settings))


def code_flow(settings: Settings, tokens: OidcVerifier | None) -> CodeFlow | None:
    """Return what signs people in to the console, or None if no client id is set. Does not contact the issuer."""
    issuer, client_id, redirect_url = settings.oidc_issuer, settings.oidc_client_id, settings.oidc_redirect_url
    if tokens is None or issuer is None or client_id is None or redirect_url is None:
        return None
    secret = settings.oidc_client_secret
    given = None if secret is None else secret.get_secret_value()
    return CodeFlow(ClientRegistration(issuer, client_id, given, redirect_url), tokens, _granted_by(settings).values())


def _granted_by(settings: Settings) -> dict[str, Grant]:
    """Return what each role or scope grants."""
    return {
        name: Grant(frozenset(map(Right, granted.rights)), tuple(granted.tables))
        for name, granted in settings.oidc_rights.items()
    }
