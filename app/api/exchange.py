"""One request and its answer: what is known of it, the memory that it holds, how its body is read and its answer sent.

`RequestEntry` creates one for each request. The change endpoints read the body with `read_body`; the framework reads
it with `receive`, for all other routes. Every body of every route passes `receive`, the only place where the limits of
a body are checked, and every answer passes `send`, the only place where those of an answer are.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from app.api.limits import (
    ASSUMED_BODY_BYTES,
    LARGE_BODY_BYTES,
    READ_AHEAD_BYTES,
    BodyPermit,
    BodySemaphore,
    MemoryBudget,
    Reservation,
    TransferDeadline,
    expected_size,
)
from app.api.server.problem_responses import NOT_STORED, PAGE_HEADERS
from app.api.server.request_facts import BODY_COMPLETE, CHANGES_PREFIX, CONNECTION, RequestFacts, read_head
from app.console.render import Chrome
from app.domain.access.rights import Credential
from mirrorgate.errors import Code, RejectedInput

MAX_OTHER_BODY_BYTES: Final = 2**20
"""Bytes of a body that is not one of changes: enough to declare a table of thousands of columns."""

MAX_CHECK_BODY_BYTES: Final = 8 * 2**20
"""Bytes of the body of a comparison with the source: room for 65,536 buckets, or for 100,000 rows with usual keys."""

MAX_PIECE_BYTES: Final = 64 * 2**10
"""Bytes of an answer that are handed to the connection before the caller has read what came before."""

MAX_UNCOUNTED_BYTES: Final = 16 * 2**10
"""Bytes of an answer that is sent whole, and counts nothing: the kernel takes it at once from a caller that reads."""

_EXCHANGE: Final = "mirrorgate.exchange"
_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")
_JSON: Final = (b"content-type", b"application/json")


@dataclass(frozen=True, slots=True)
class BodyBounds:
    """The limits on the bodies of one API process."""

    max_bytes: int
    """Bytes of a body of changes as sent."""
    deadline: TransferDeadline
    """The time for a body to arrive, and for an answer to be read."""
    unverified_deadline: TransferDeadline
    """The time for the body of a caller that has not shown a valid key."""
    budget: MemoryBudget
    semaphore: BodySemaphore


class CallerConnection(Protocol):
    """The connection of a request, as far as its body and its answer need it."""

    @property
    def unsent(self) -> int:
        """Bytes of answers that the caller has not taken; 0 once the connection is lost."""

    def begin_body(self) -> None:
        """Receive the body as fast as it is read; until then, little of it is received."""

    async def wait_until_sent(self) -> None:
        """Wait until nothing is unsent."""

    def hold_head(self) -> None:
        """Send the head that is written next together with the body that follows it."""

    async def abort(self) -> None:
        """Close at once, and drop what is unsent. Return when it has ended."""


class Answer(NamedTuple):
    """A JSON answer of a change endpoint."""

    status: int
    content: bytes
    headers: Mapping[str, str] = {}


class Exchange(RequestFacts):
    """One request with its answer. `close` gives back what it holds."""

    credential: Credential | None = None
    """Credential of the caller; None until it is verified."""
    is_page = False
    """True for the console: its errors are pages, and its answers have the headers of pages."""
    chrome: Chrome | None = None
    """Frame of the pages of a caller who is signed in to the console."""
    is_answered = False
    status = 500
    _verify: Callable[[bytes], None] | None = None
    _permit: BodyPermit | None = None
    _waited = 0.0
    _is_complete = False
    _body_timeout: asyncio.Timeout | None = None
    _handed = 0
    """Bytes of the answer that the connection has got."""
    _answer_bytes = 0
    """Bytes of the whole answer, as far as its head tells."""
    _waited_for_reader = 0.0

    def __init__(self, scope: Scope, receive: Receive, send: Send, bounds: BodyBounds, new_id: str) -> None:
        """Begin; `new_id` is the request's id if the caller gives no valid one."""
        self.scope = scope
        self.head = read_head(scope["headers"])
        self.request_id = self.head.request_id or new_id
        is_change = scope["path"].startswith(CHANGES_PREFIX)
        self.reservation = Reservation(bounds.budget, is_change=is_change)
        self._connection: CallerConnection | None = scope.get(CONNECTION)
        self.max_bytes = bounds.max_bytes if is_change else _max_other_bytes(scope["path"])
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
        self.max_bytes = min(self.max_bytes, max_bytes)

    async def read_body(self, max_bytes: int, *, is_compressed: bool) -> bytes:
        """Return the whole body as sent, of at most `max_bytes` bytes.

        Its caller was authenticated before, or signed the body, which is verified here.

        Reserves memory until the request ends. A body that does not fit now is rejected before it is read; a large one
        waits for its permit, which `complete_body` corrects.

        Raises RejectedInput `body_too_large`, `request_timeout` or `bad_signature`, TemporarilyUnavailable
        `overloaded`, and ClientDisconnect.
        """
        self.limit_body(max_bytes)
        declared, is_signed = self.head.content_length, self._verify is not None
        if declared is not None and declared > READ_AHEAD_BYTES and declared <= self.max_bytes and not is_signed:
            self.reservation.check(declared)  # a smaller one is reserved as a whole before it is read
        if declared is not None and declared <= self.max_bytes and not is_signed:
            await self._acquire(expected_size(declared, compressed=is_compressed))
        pieces, more = [], True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            pieces.append(message.get("body", b""))
            more = message.get("more_body", False)
            if self.received > LARGE_BODY_BYTES:  # a large body without a declared length
                await self._acquire(ASSUMED_BODY_BYTES)
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if self._verify is not None:
            self._verify(body)
            self.reservation.hold_body(len(body), 0, is_complete=True)
            await self._acquire(expected_size(len(body), compressed=is_compressed))
        return body

    def limit_body(self, max_bytes: int) -> None:
        """Let the body have at most `max_bytes`."""
        self.max_bytes = min(self.max_bytes, max_bytes)

    def complete_body(self, size: int) -> None:
        """Let the body count with its size in memory, now that it is known."""
        if self._permit is not None:
            self._permit.complete(size)

    async def receive(self) -> Message:
        """Return the next message of the body. Raises what `read_body` raises, but never waits for a permit."""
        declared = self.head.content_length or 0
        if declared > self.max_bytes:
            raise body_too_large(self.max_bytes)
        is_here = self._is_complete or BODY_COMPLETE in self.scope
        self.reservation.hold_body(self.received, declared, is_complete=is_here)
        # A timer costs more than returning what is buffered.
        message = await self._receive_raw() if is_here else await self._receive_in_time(declared)
        size = len(message.get("body", b""))
        self.received += size
        if self.count_bytes is not None:
            self.count_bytes(size)
        self.reservation.hold_body(self.received, declared, is_complete=not message.get("more_body", False))
        if self.received > self.max_bytes:
            raise body_too_large(self.max_bytes)
        return message

    def hold_answer(self, status: int, size: int) -> None:
        """Hold the memory of an answer of `size` bytes until the caller has read it, or until the request ends.

        Raises TemporarilyUnavailable `overloaded` if it does not fit, which drops the answer; one that reports what was
        accepted or created is sent nonetheless. Answers to callers without a key are files that are in memory anyway.
        """
        if size > MAX_UNCOUNTED_BYTES and self.reservation.is_verified:
            self.reservation.hold_answer(size, is_certain=status != HTTPStatus.OK)
        self._answer_bytes = size

    async def send(self, message: Message) -> None:
        """Send a message of the answer, with the headers that every answer has.

        Raises TemporarilyUnavailable `overloaded` instead of sending the head of an answer that does not fit, and
        ClientDisconnect if the caller does not read the answer in time; the connection is then closed.
        """
        if message["type"] == "http.response.start":
            if not self._answer_bytes:
                self.hold_answer(message["status"], _declared_length(message["headers"]))
            self.is_answered = True
            self.status = message["status"]
            own = (_NOSNIFF, (b"x-request-id", self.request_id.encode()))
            message["headers"] = [*message["headers"], *self.headers, *own]
            if self.is_page:
                message["headers"] += PAGE_HEADERS
                if not any(name == b"cache-control" for name, _ in message["headers"]):
                    message["headers"].append(NOT_STORED)
            await self._send_raw(message)
        elif len(message.get("body", b"")) > MAX_UNCOUNTED_BYTES:
            await self._send_in_pieces(message["body"], more=message.get("more_body", False))
        else:
            await self._send_whole(message)

    async def send_answer(self, answer: Answer) -> None:
        """Send a whole answer, for which `hold_answer` was called."""
        status, content, extra = answer
        headers = [(name.lower().encode(), value.encode()) for name, value in extra.items()] if extra else []
        headers += ((b"content-length", b"%d" % len(content)), _JSON)
        if self._connection is not None:
            self._connection.hold_head()
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        if len(content) > MAX_UNCOUNTED_BYTES:
            await self._send_in_pieces(content, more=False)
        else:
            await self._send_whole({"type": "http.response.body", "body": content})

    async def _send_whole(self, message: Message) -> None:
        """Send a small body, or a part of one, and wait until the kernel has taken it."""
        await self._send_raw(message)
        if self._connection is not None and self._connection.unsent:
            await self._wait_for_reader(self._connection)

    async def _send_in_pieces(self, body: bytes | memoryview, *, more: bool) -> None:
        """Send a large body piece by piece, each once the caller has read those before; end it once all are read."""
        view = memoryview(body)
        for start in range(0, len(view), MAX_PIECE_BYTES):
            piece = view[start : start + MAX_PIECE_BYTES]
            await self._send_raw({"type": "http.response.body", "body": piece, "more_body": True})
            self._handed += len(piece)
            if self._connection is not None and self._connection.unsent:
                await self._wait_for_reader(self._connection)
        await self._send_raw({"type": "http.response.body", "body": b"", "more_body": more})

    async def _wait_for_reader(self, connection: CallerConnection) -> None:
        """Wait until the caller has read what was sent. Close the connection if that is too slow.

        Raises ClientDisconnect.
        """
        clock = asyncio.get_running_loop().time
        started = clock() - self._waited_for_reader
        while unsent := connection.unsent:
            left = self._bounds.deadline.seconds(max(0, self._handed - unsent), self._answer_bytes)
            left -= clock() - started
            if left <= 0:
                await connection.abort()
                raise ClientDisconnect
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await connection.wait_until_sent()
        self._waited_for_reader = clock() - started

    async def _receive_in_time(self, declared: int) -> Message:
        """Wait for the next message. Only the time spent waiting for the caller counts towards the deadline."""
        clock = asyncio.get_running_loop().time
        started = clock()
        if self._connection is not None:
            self._connection.begin_body()
        if self.reservation.is_verified:
            deadline = self._bounds.deadline
        else:
            deadline, self.reservation.give_way = self._bounds.unverified_deadline, self._give_way
        try:
            async with asyncio.timeout(deadline.seconds(self.received, declared) - self._waited) as self._body_timeout:
                message = await self._receive_raw()
            self._body_timeout = None
        except TimeoutError:
            if self.reservation.has_given_way:
                self.reservation.hold_body(self.received, declared, is_complete=False)  # raises
            seconds = self._waited + clock() - started
            detail = f"{self.received} bytes of the body arrived in {seconds:.0f} s, which is too slow"
            raise RejectedInput(Code.REQUEST_TIMEOUT, detail) from None
        self._waited += clock() - started
        self._is_complete = not message.get("more_body", False)
        return message

    def _give_way(self) -> None:
        """End the wait for a body that has given way to newer ones."""
        if self._body_timeout is not None and not self._body_timeout.expired():
            self._body_timeout.reschedule(0)

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


def _declared_length(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the declared length of an answer, 0 without one."""
    return next((int(value) for name, value in headers if name == b"content-length"), 0)


def body_too_large(limit: int) -> RejectedInput:
    """Return the error for a body of more than `limit` bytes."""
    return RejectedInput(Code.BODY_TOO_LARGE, f"the body is larger than {limit} bytes")
