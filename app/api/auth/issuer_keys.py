"""Read the public keys of an OpenID Connect issuer from its discovery document, and cache them.

The issuer is asked by one request at a time; no other request waits for the answer.

Reads the documents of an OpenID Connect issuer over https, bounded in time and size.
"""

import math
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
import jwt
import msgspec
import structlog

from app.bounded_answers import bounded_answer
from app.settings.start_checks import is_safe_address
from mirrorgate.errors import Code, TemporarilyUnavailable

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

_ALGORITHMS: Final = frozenset({"RS256", "ES256"})


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
            answers = self._read_at == self._tried_at
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
    return key if key.algorithm_name in _ALGORITHMS else None
