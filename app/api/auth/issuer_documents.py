"""Reads the documents of an OpenID Connect issuer over https, bounded in time and size."""

from typing import Any, Final

import httpx
import msgspec

from app.bounded_answers import bounded_answer
from app.settings.start_checks import is_safe_address

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
