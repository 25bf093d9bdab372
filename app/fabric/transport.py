"""Send one request to Fabric's API: with its token, repeated where that is safe, its errors translated.

A 401 is answered with a new token once. A 429 waits as long as Retry-After says, within the client's patience. Faults
of the network and of the service are repeated only for requests that may be sent twice. A token is sent to the
configured address only. Source: Microsoft Learn, "Fabric REST API: throttling" and "Errors".
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, Protocol, TypeVar

import httpx

from app.azure_tokens import AzureTokens
from app.bounded_answers import UnusableAnswer, bounded_answer
from app.domain.fabric import FabricFault, parse_fault
from app.extras import is_installed
from mirrorgate.errors import Code, MirrorgateError, Misconfigured, TemporarilyUnavailable


class TokenSource(Protocol):
    """Source of tokens for one audience."""

    def get(self, *, renewed: bool = False) -> str:
        """Return a valid token; with `renewed` one that is not the last one. Raise Misconfigured."""


def fabric_tokens(audience: str) -> AzureTokens:
    """Return the tokens for an audience. It is Fabric's API, not storage."""
    scope = f"{audience.rstrip('/')}/.default"
    remedy = (
        "Set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET of a service principal that has a role in the "
        "workspace, use a managed identity, or log in with `az login`. In a national cloud also set "
        "AZURE_AUTHORITY_HOST and MIRRORGATE_FABRIC_AUDIENCE."
    )
    return AzureTokens(scope, scope, Code.FABRIC_UNAUTHORIZED, Code.FABRIC_UNAVAILABLE, remedy)


def require_azure() -> None:
    """Raise Misconfigured `extra_missing` without Azure's package for credentials."""
    if not is_installed("azure.identity"):
        raise Misconfigured(
            Code.EXTRA_MISSING,
            "Fabric's API needs a package that is not installed: azure-identity",
            remedy="Install the extra `mirrorgate-gateway[onelake]`.",
        )


MAX_ANSWER_BYTES: Final = 16 * 2**20
"""The longest answer; pages of lists are far smaller."""

_CONNECT_SECONDS: Final = 10.0
_FIRST_PAUSE: Final = 0.5
_MAX_PAUSE: Final = 10.0
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Faults of a request that the service has not seen."""


_WRONG_FORM: Final = (AttributeError, KeyError, TypeError, ValueError)
"""Exceptions of a parser for JSON of another form than Fabric documents."""

Parsed = TypeVar("Parsed")


class FabricRejected(Misconfigured):
    """The API rejected a request; `fault` is Fabric's own answer."""

    def __init__(self, code: Code, detail: str, fault: FabricFault, status: int, *, remedy: str | None = None) -> None:
        super().__init__(code, detail, remedy=remedy)
        self.fault = fault
        self.status = status


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock: replaced in tests, so that none waits as long as an answer says."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class FabricAnswer:
    """A successful answer: status, headers, and its JSON object, empty if it has none."""

    status: int
    headers: Mapping[str, str]
    body: dict[str, Any] = field(default_factory=dict)

    def read(self, parse: Callable[[dict[str, Any]], Parsed]) -> Parsed:
        """Return what `parse` makes of the body.

        Raise TemporarilyUnavailable `fabric_unavailable` for a body of another form than `parse` expects.
        """
        try:
            return parse(self.body)
        except _WRONG_FORM as error:
            raise _foreign("Fabric's API answered with JSON of another form than it documents") from error

    def retry_after(self, otherwise: float) -> float:
        """Return the seconds of Retry-After, or `otherwise`."""
        return _seconds(self.headers.get("Retry-After"), otherwise)


class Transport:
    """Requests to one address of the API. Threads may share it; `close` ends its connections."""

    def __init__(
        self,
        api: str,
        tokens: TokenSource,
        *,
        patience: float,
        answer_seconds: float = 60.0,
        clock: Clock | None = None,
    ) -> None:
        """Send requests to `api`; repeat and wait for at most `patience` seconds a request."""
        self.clock = clock or Clock()
        self._tokens = tokens
        self._patience = patience
        self._client = httpx.Client(
            base_url=f"{api.rstrip('/')}/v1/",
            timeout=httpx.Timeout(answer_seconds, connect=_CONNECT_SECONDS),
            headers={"User-Agent": f"mirrorgate/{version('mirrorgate')}", "Accept": "application/json"},
            follow_redirects=False,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def send(
        self,
        method: str,
        path: str,
        *,
        body: object | None = None,
        query: Mapping[str, str] | None = None,
        repeatable: bool = True,
    ) -> FabricAnswer:
        """Send a request to a path below `/v1`. Raise FabricRejected, Misconfigured and TemporarilyUnavailable.

        A request that is not `repeatable` is sent again only where the service has surely not acted on it.
        """
        deadline, pause, renewed = self.clock.now() + self._patience, _FIRST_PAUSE, False
        while True:
            token = self._tokens.get(renewed=renewed)
            try:
                response = bounded_answer(
                    self._client,
                    method,
                    path,
                    max_bytes=MAX_ANSWER_BYTES,
                    json=body,
                    params=query,
                    headers={"Authorization": f"Bearer {token}"},
                )
            except UnusableAnswer as error:
                raise _foreign(f"{self._client.base_url.host}: {error}") from error
            except httpx.HTTPError as error:
                failed: MirrorgateError = _unreachable(error, self._client.base_url.host)
                again, wait = repeatable or isinstance(error, _NOT_SENT), pause
            else:
                if response.is_success:
                    return _answer(response)
                if response.status_code == httpx.codes.UNAUTHORIZED and not renewed:
                    renewed = True
                    continue
                failed = translate(response)
                again = _may_repeat(response, failed, repeatable=repeatable)
                wait = _seconds(response.headers.get("Retry-After"), pause)
            if not again or self.clock.now() + wait > deadline:
                raise failed
            self.clock.sleep(wait)
            pause, renewed = min(pause * 2, _MAX_PAUSE), False


def translate(response: httpx.Response) -> MirrorgateError:
    """Return the error of an unsuccessful answer. Its text is Fabric's, with the id that Microsoft's support needs."""
    fault = parse_fault(_json(response)) or FabricFault(f"HTTP {response.status_code}", "", "unknown")
    request_id = _json(response).get("requestId") or response.headers.get("requestid") or ""
    detail = f"{fault}" + (f" (request {request_id})" if request_id else "")
    wait = _seconds(response.headers.get("Retry-After"), 1.0)
    match response.status_code:
        case 401:
            return FabricRejected(Code.FABRIC_UNAUTHORIZED, detail, fault, 401)
        case 403:
            return FabricRejected(Code.FABRIC_FORBIDDEN, detail, fault, 403)
        case 404:
            return FabricRejected(Code.FABRIC_NOT_FOUND, detail, fault, 404)
        case 429:
            return TemporarilyUnavailable(
                Code.FABRIC_THROTTLED, f"Fabric asks to wait for {wait:g} seconds", retry_after=max(1, round(wait))
            )
        case status if status >= 500:
            return TemporarilyUnavailable(Code.FABRIC_UNAVAILABLE, detail, retry_after=max(1, round(wait)))
        case status:
            return FabricRejected(Code.FABRIC_REJECTED, detail, fault, status)


def _may_repeat(response: httpx.Response, failed: MirrorgateError, *, repeatable: bool) -> bool:
    if failed.code is Code.FABRIC_THROTTLED:
        return True
    is_passing = failed.code is Code.FABRIC_UNAVAILABLE or _json(response).get("isRetriable") is True
    return is_passing and repeatable


def _answer(response: httpx.Response) -> FabricAnswer:
    if response.content and not _json(response) and response.content.strip() not in (b"{}", b"null"):
        host = response.request.url.host
        raise _foreign(f"{host} answered {response.status_code} with something else than a JSON object")
    return FabricAnswer(response.status_code, response.headers, _json(response))


def _foreign(detail: str) -> TemporarilyUnavailable:
    remedy = "Check MIRRORGATE_FABRIC_API, and the proxies between this machine and Fabric."
    return TemporarilyUnavailable(Code.FABRIC_UNAVAILABLE, detail, remedy=remedy)


def _json(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of an answer, empty for anything else: a proxy can answer HTML."""
    try:
        found = response.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _unreachable(error: httpx.HTTPError, host: str) -> TemporarilyUnavailable:
    what = str(error) or type(error).__name__
    return TemporarilyUnavailable(Code.FABRIC_UNAVAILABLE, f"no answer from {host}: {what}")


def _seconds(text: str | None, otherwise: float) -> float:
    """Read Retry-After, which Fabric documents as whole seconds."""
    try:
        return max(0.0, float(text or ""))
    except ValueError:
        return otherwise
