"""One request and its answer: what is known of it, the memory that it holds, and the reading of its body.

`RequestEntry` creates one for each request. The change endpoints read the body with `read_body`; the framework reads
it with `receive`, for all other routes. Both pass `_receive`, the only place where the limits of a body are checked.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from app.api.limits.body_semaphore import (
    ASSUMED_BODY_BYTES,
    LARGE_BODY_BYTES,
    BodyPermit,
    BodySemaphore,
    expected_size,
)
from app.api.limits.memory_budget import READ_AHEAD_BYTES, MemoryBudget, Reservation
from app.api.limits.upload_deadline import UploadDeadline
from app.api.server.page_headers import NOT_STORED, PAGE_HEADERS
from app.api.server.request_facts import BODY_COMPLETE, CHANGES_PREFIX, RequestFacts
from app.api.server.request_head import read_head
from app.console.chrome import Chrome
from app.domain.access.rights import Credential
from app.errors import Code, RejectedInput

MAX_OTHER_BODY_BYTES: Final = 2**20
"""Bytes of a body that is not one of changes: enough to declare a table of thousands of columns."""

MAX_CHECK_BODY_BYTES: Final = 8 * 2**20
"""Bytes of the body of a comparison with the source: room for 65,536 buckets, or for 100,000 rows with usual keys."""

_EXCHANGE: Final = "mirrorgate.exchange"
_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
_JSON: Final = (b"content-type", b"application/json")


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """What bounds the bodies of one API process."""

    max_bytes: int
    """Bytes of a body of changes as sent."""
    deadline: UploadDeadline
    budget: MemoryBudget
    semaphore: BodySemaphore


class Answer(NamedTuple):
    """A JSON answer of a change endpoint."""

    status: int
    content: bytes
    headers: Mapping[str, str] = {}


class Exchange(RequestFacts):
    """One request with its answer. `close` gives back what it holds."""

    credential: Credential | None = None
    """What the caller has shown; None until it is verified."""
    is_page = False
    """True for the console: its errors are pages, and its answers have the headers of pages."""
    chrome: Chrome | None = None
    """What surrounds the pages of a caller who is signed in to the console."""
    is_answered = False
    status = 500
    _verify: Callable[[bytes], None] | None = None
    _permit: BodyPermit | None = None
    _waited = 0.0
    _is_complete = False

    def __init__(self, scope: Scope, receive: Receive, send: Send, bounds: BodyBounds, new_id: str) -> None:
        """Begin; `new_id` is the request's id if the caller gives no valid one."""
        self.scope = scope
        self.head = read_head(scope["headers"])
        self.request_id = self.head.request_id or new_id
        is_change = scope["path"].startswith(CHANGES_PREFIX)
        self.reservation = Reservation(bounds.budget, 1 if is_change else 0)
        self._max_bytes = bounds.max_bytes if is_change else _max_other_bytes(scope["path"])
        self._bounds = bounds
        self._receive_raw = receive
        self._send_raw = send
        scope[_EXCHANGE] = self

    @property
    def route(self) -> str:
        """The path of the route as the contract writes it; `unmatched` without one."""
        route: Any = self.scope.get("route")
        path: str = getattr(route, "path_format", "") or getattr(route, "path", "unmatched")
        return path

    def close(self) -> None:
        """Give back memory and permit, at the end of the request.

        Also ends the cycle of exchange and scope: left to the garbage collector, it costs 20 µs a request.
        """
        del self.scope[_EXCHANGE]
        self.reservation.release()
        if self._permit is not None:
            self._permit.release()

    def expect_signed_body(self, verify: Callable[[bytes], None], max_bytes: int) -> None:
        """Let `read_body` verify the body, of at most `max_bytes` as sent, before it returns it."""
        self._verify = verify
        self._max_bytes = min(self._max_bytes, max_bytes)

    async def read_body(self, max_bytes: int, *, is_compressed: bool) -> bytes:
        """Return the whole body as sent, of at most `max_bytes` bytes.

        Its caller was authenticated before, or signed the body, which is verified here.

        Reserves memory until the request ends. A body that does not fit now is rejected before it is read; a large one
        waits for its permit, which `complete_body` corrects.

        Raises RejectedInput `body_too_large`, `request_timeout` or `bad_signature`, TemporarilyUnavailable
        `overloaded`, and ClientDisconnect.
        """
        declared, max_bytes = self.head.content_length, min(max_bytes, self._max_bytes)
        if declared is not None:
            if declared > max_bytes:
                raise body_too_large(max_bytes)
            if declared > READ_AHEAD_BYTES:  # a smaller one is reserved as a whole before it is read
                self.reservation.check(declared)
            await self._acquire(expected_size(declared, compressed=is_compressed))
        pieces, more = [], True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            if self.received > max_bytes:
                raise body_too_large(max_bytes)
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
            if self.received > LARGE_BODY_BYTES:  # a large body without a declared length
                await self._acquire(ASSUMED_BODY_BYTES)
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if self._verify is not None:
            self._verify(body)
        return body

    def limit_body(self, max_bytes: int) -> None:
        """Let the body have at most `max_bytes`."""
        self._max_bytes = min(self._max_bytes, max_bytes)

    def complete_body(self, size: int) -> None:
        """Let the body count with its size in memory, now that it is known."""
        if self._permit is not None:
            self._permit.complete(size)

    async def receive(self) -> Message:
        """Return the next message of the body. Raises what `read_body` raises, but never waits for a permit."""
        declared = self.head.content_length or 0
        self.reservation.reserve(min(declared, self.received + READ_AHEAD_BYTES))
        if self._is_complete or BODY_COMPLETE in self.scope:  # a timer costs more than returning what is buffered
            message = await self._receive_raw()
        else:
            message = await self._receive_in_time(declared)
        size = len(message.get("body", b""))
        self.received += size
        if self.count_bytes is not None:
            self.count_bytes(size)
        self.reservation.reserve(self.received)
        if self.received > self._max_bytes:
            raise body_too_large(self._max_bytes)
        return message

    async def send(self, message: Message) -> None:
        """Send a message of the answer, with the headers that every answer has."""
        if message["type"] == "http.response.start":
            self.is_answered = True
            self.status = message["status"]
            own = (_NOSNIFF, (b"x-request-id", self.request_id.encode()))
            message["headers"] = [*message["headers"], *self.headers, *own]
            if self.is_page:
                message["headers"] += PAGE_HEADERS
                if not any(name == b"cache-control" for name, _ in message["headers"]):
                    message["headers"].append(NOT_STORED)
        await self._send_raw(message)

    async def send_answer(self, answer: Answer) -> None:
        """Send a whole answer."""
        status, content, extra = answer
        headers = [(name.lower().encode(), value.encode()) for name, value in extra.items()] if extra else []
        headers += ((b"content-length", b"%d" % len(content)), _JSON)
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send_raw({"type": "http.response.body", "body": content})

    async def _receive_in_time(self, declared: int) -> Message:
        """Wait for the next message. Only the time spent waiting for the caller counts towards the deadline."""
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            async with asyncio.timeout(self._bounds.deadline.seconds(self.received, declared) - self._waited):
                message = await self._receive_raw()
        except TimeoutError:
            seconds = self._waited + clock() - started
            detail = f"{self.received} bytes of the body arrived in {seconds:.0f} s, which is too slow"
            raise RejectedInput(Code.REQUEST_TIMEOUT, detail) from None
        self._waited += clock() - started
        self._is_complete = not message.get("more_body", False)
        return message

    async def _acquire(self, size: int) -> None:
        if size > LARGE_BODY_BYTES:
            if self._permit is None:
                self._permit = BodyPermit(self._bounds.semaphore)
            await self._permit.acquire(size, self.subject or "")


def exchange_of(scope: Scope) -> Exchange:
    """Return the exchange of the request of this scope."""
    exchange: Exchange = scope[_EXCHANGE]
    return exchange


def _max_other_bytes(path: str) -> int:
    """Return the limit of a body that is not one of changes."""
    is_check = path.startswith("/v1/tables/") and path.endswith("/checks")
    return MAX_CHECK_BODY_BYTES if is_check else MAX_OTHER_BODY_BYTES


def body_too_large(limit: int) -> RejectedInput:
    """Return the error for a body of more than `limit` bytes."""
    return RejectedInput(Code.BODY_TOO_LARGE, f"the body is larger than {limit} bytes")
