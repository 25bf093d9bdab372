"""The client of asyncio programs: posts requests under their names, as `producer` does for programs that block."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from app.client.http import RejectedByGateway, change_path, checked, options_of, translated_errors
from app.client.request_names import (
    ChangeRequest,
    NumberedRequests,
    RequestNames,
    numbered,
    producer_path,
    unless_unknown,
)
from app.client.retrying import OnWait, await_with_retries


class AsyncGatewayClient:
    """Calls one gateway with one key, from one event loop. Raises what GatewayClient raises."""

    def __init__(self, url: str, key: str, certificate: Path | None = None) -> None:
        """Open a client. `certificate`, if given, is the only one accepted, whatever host name it contains."""
        self.url = url
        self._http = httpx.AsyncClient(**options_of(url, key, certificate))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def post_changes(self, request: ChangeRequest, headers: Mapping[str, str]) -> Mapping[str, Any]:
        """Post a request; return the answer with its receipts, after the commit."""
        return await self._call(
            "POST",
            change_path(request.source_format),
            content=request.body,
            params=dict(request.parameters),
            headers={"Content-Type": request.content_type, **headers},
        )

    async def producer(self, name: str, give_up_after: float | None, on_wait: OnWait) -> NumberedRequests:
        """Ask how far a producer is. Raises Misconfigured `bad_setting` for a gateway that stores no positions."""

        async def state() -> Mapping[str, Any]:
            try:
                return await self._call("GET", producer_path(name))
            except RejectedByGateway as error:
                return unless_unknown(error)

        return numbered(name, await await_with_retries(state, give_up_after, on_wait), self.url)

    async def _call(self, method: str, path: str, **arguments: Any) -> Mapping[str, Any]:
        with translated_errors(self.url):
            answer: Mapping[str, Any] = checked(await self._http.request(method, path, **arguments)).json()
        return answer


@dataclass
class AsyncRequestSender:
    """Sends requests one after the other, repeating each under its name until it is durable."""

    client: AsyncGatewayClient
    names: RequestNames
    give_up_after: float | None
    """Seconds to repeat a request; None: until the task is cancelled."""
    on_wait: OnWait

    async def send(self, request: ChangeRequest) -> Mapping[str, Any]:
        """Return the answer to a request, after it is durable. Raises what `RequestSender.send` raises, but Stopped."""
        headers = self.names.headers(request)
        try:
            answer = await await_with_retries(
                lambda: self.client.post_changes(request, headers), self.give_up_after, self.on_wait
            )
        except RejectedByGateway as error:
            meaning = self.names.meaning_of(error)
            if meaning is error:
                raise
            raise meaning from error
        self.names.accepted(request)
        return answer
