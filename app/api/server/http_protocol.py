"""uvicorn's HTTP/1.1 protocol, with limits on the head of a request and with problem details for invalid HTTP.

`BoundedHttpProtocol` adds what uvicorn lacks with this parser: uvicorn limits neither the size of a head nor the time
in which it arrives, accepts requests with no `Host` header or with several, and answers invalid HTTP in plain text.
Invalid HTTP never becomes a request, so neither the application nor its middleware sees it. Bodies are limited where
they are read. `BoundedHttpProtocol` overrides and reads private members of uvicorn;
tests/api/server/test_uvicorn_contract.py checks each of them.

`CallerTransport` closes connections so that the caller gets its answer, and so that no caller keeps a connection open
by doing nothing.
"""

import asyncio
import re
import threading
from http import HTTPStatus
from typing import Any, Final, Self
from uuid import uuid4

import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.api.server.problem_responses import problem_response
from app.api.server.request_facts import BODY_COMPLETE, CONNECTION
from app.observability.api_metrics import REQUESTS
from mirrorgate.errors import Code, MirrorgateError, RejectedInput

MAX_LINGER_SECONDS: Final = 2.0
"""Seconds for which a rejected caller can still send before its connection is closed."""

MAX_FLUSH_SECONDS: Final = 10.0
"""Seconds that a caller can take to read the rest of an answer from a connection that is closed."""


class CallerTransport(asyncio.Transport):
    """Wrapper of one connection's transport. `close` delays the close while the peer is still sending.

    The kernel resets a socket that is closed with unread bytes, and a reset discards what the peer has not read yet:
    the peer would see a broken connection instead of the rejection. Therefore the answer is followed by the end of our
    half of the connection, and the bytes that still arrive are discarded for a short time (RFC 9112, section 9.6;
    decision 0022). A closed transport keeps what its peer has not read, for ever if the peer never reads it. So that
    time is bounded too.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self.is_peer_sending = False
        """True while the peer has not sent all of its request."""
        self.is_lingering = False
        """True while received bytes are discarded until the connection is closed."""
        self.is_holding = False
        """True until the next `write`, whose bytes are sent together with those of the one after it."""
        self._held = b""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a fact of the connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Read nothing until `resume_reading`."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._transport.resume_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write to the connection; drop what follows its last answer, such as that to a request of an invalid body."""
        if self.is_closing():
            return
        if self.is_holding:
            self.is_holding, self._held = False, bytes(data)
            return
        if self._held:
            data, self._held = self._held + data, b""
        self._transport.write(data)

    def get_write_buffer_size(self) -> int:
        """Return the bytes that were written and that the peer has not taken."""
        return self._transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set above which size of the write buffer the protocol is told to pause."""
        self._transport.set_write_buffer_limits(high, low)

    def is_closing(self) -> bool:
        """Return True if the connection lingers or is closed."""
        return self._timer is not None or self._transport.is_closing()

    def close(self) -> None:
        """Close now; if the peer is still sending, close after the time allowed for it."""
        if not self.is_peer_sending or self._transport.is_closing():
            self._end()
        elif self._timer is None:
            self.is_lingering = True
            self._timer = self._loop.call_later(MAX_LINGER_SECONDS, self._end)
            if self._transport.can_write_eof():
                self._transport.write_eof()

    def abort(self) -> None:
        """Close at once, and drop what the peer has not taken."""
        self._transport.abort()

    def cancel_timer(self) -> None:
        """Stop the timer, because the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        """Close; drop what the peer has not taken after the time allowed for it."""
        is_first = not self._transport.is_closing()
        self._transport.close()
        if is_first and self._transport.get_write_buffer_size():
            self.cancel_timer()
            self._timer = self._loop.call_later(MAX_FLUSH_SECONDS, self._transport.abort)


log = structlog.get_logger()

MAX_HEAD_BYTES: Final = 64 * 2**10
"""Bytes of a request line with its headers, or of the trailers and chunk extensions of a body."""

MAX_UNREAD_BYTES: Final = 256 * 2**10
"""Bytes of a body, without the newest piece, that are buffered before the connection waits for their reader."""

MAX_UNCOUNTED_BYTES: Final = 16 * 2**10
"""Bytes of a head and its body that are received at once before the memory of the body counts towards a caller.

The rest of the body remains on the socket meanwhile: callers without a valid key, and bodies that wait for a permit,
can be as many as there are connections.
"""

_MAX_PIECE_BYTES: Final = 256 * 2**10
"""Bytes of a body that are received at once later."""

MAX_HEAD_SECONDS: Final = 10.0
"""Seconds for which a connection can wait for its first request, a request for the end of its headers, and a request
that was answered without reading its body for the end of that."""


class BodyPieces:
    """The unread pieces of a body, in place of uvicorn's bytearray: a piece is not copied to be read."""

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def __iadd__(self, piece: bytes) -> Self:
        self._pieces.append(piece)
        self._size += len(piece)
        return self

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


class _Buffer(threading.local):
    """The receive buffer that the connections of a thread share, one after the other."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_MAX_PIECE_BYTES))


_BUFFER: Final = _Buffer()


class _Receiver(asyncio.BufferedProtocol):
    """Buffer of a connection, for as many bytes as it takes now; asyncio decides that itself for a plain protocol."""

    def __init__(self, connection: "BoundedHttpProtocol") -> None:
        self._connection = connection

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return room for the next bytes."""
        return _BUFFER.view if self._connection.is_counted else _BUFFER.view[:MAX_UNCOUNTED_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on the bytes that were received."""
        self._connection.data_received(bytes(_BUFFER.view[:nbytes]))

    def eof_received(self) -> bool:
        """Note that the caller sends no more. Keep the connection for the answers that it still waits for."""
        return self._connection.is_last_answer_due()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection has ended."""
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """Note that the caller does not read what was written."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Note that the caller reads again."""
        self._connection.resume_writing()


class BoundedHttpProtocol(HttpToolsProtocol):
    """One connection. A head that is too large (431) or too slow ends it."""

    transport: CallerTransport

    _bytes_outside_bodies = 0
    """Bytes received since the last piece of a body, the last end of a head, or the last end of a request."""

    _head_timer: asyncio.TimerHandle | None = None

    _is_in_head = False
    """True from the first byte of a head until it is complete."""

    _head_error: RejectedInput | None = None
    """Reason why the head that was read last is rejected."""

    _rejection: MirrorgateError | None = None
    """What is answered once all requests before it are answered; nothing more is parsed."""

    is_counted = False
    """True once the application reads the body of the request, whose memory then counts towards its caller."""

    _is_lost = False
    """True once the connection has ended."""

    _loss: asyncio.Future[None] | None = None
    """Done once the connection has ended, if `abort` waits for that."""

    @property
    def unsent(self) -> int:
        """Bytes of answers that the caller has not taken; 0 once the connection is lost."""
        return 0 if self._is_lost else self.transport.get_write_buffer_size()

    async def wait_until_sent(self) -> None:
        """Wait until nothing is unsent, or until the connection is lost."""
        self.transport.set_write_buffer_limits(high=0)  # pauses writing now, until the buffer is empty
        try:
            await self.flow.drain()
        finally:
            if not self._is_lost:
                self.transport.set_write_buffer_limits()

    def begin_body(self) -> None:
        """Receive the body as fast as it is read, because its memory counts towards its caller from now on."""
        self.is_counted = True

    def hold_head(self) -> None:
        """Send the head that is written next together with the body that follows it: one system call, one packet."""
        self.transport.is_holding = True

    async def abort(self) -> None:
        """Close the connection at once, and drop what is unsent. Return when it has ended."""
        if not self._is_lost:
            self._loss = self.loop.create_future()
            self.transport.abort()
            await self._loss

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start the timer for the first head."""
        transport.set_protocol(_Receiver(self))
        super().connection_made(CallerTransport(transport, self.loop))
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._is_lost = True
        if self._loss is not None and not self._loss.done():
            self._loss.set_result(None)
        self._stop_head_timer()
        self.transport.cancel_timer()
        self.transport.is_peer_sending = False
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, and reject a head that is too large before its end arrives."""
        # Dropped after it was read: a proxy that gets a reset while it sends answers 502 instead.
        if self.transport.is_lingering or self._rejection is not None:
            return
        self._bytes_outside_bodies += len(data)
        if not self.transport.is_peer_sending:
            data = without_upgrade(data)
        super().data_received(data)
        if self._is_in_head and self._head_timer is None:
            self._start_head_timer()  # seldom: most heads arrive with their first byte, and need no timer
        if self._bytes_outside_bodies > MAX_HEAD_BYTES and not self.transport.is_closing():
            self.reject(_head_too_large())
        self._wait_for_count()

    def is_last_answer_due(self) -> bool:
        """Return True if a complete request waits for its answer, which then ends the connection. Never over TLS."""
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered or self.transport.is_peer_sending or self.transport.get_extra_info("sslcontext"):
            return False
        self.cycle.keep_alive = False
        return True

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser rejects, or what `on_headers_complete` made it reject."""
        self.reject(self._head_error or RejectedInput(Code.BAD_REQUEST, "the request is not valid HTTP/1.1"))

    def on_message_begin(self) -> None:
        """Stop the timer of the connection; the head of this request gets another if it does not arrive at once."""
        super().on_message_begin()
        self._is_in_head = True
        if self._head_timer is not None:
            self._stop_head_timer()

    def on_headers_complete(self) -> None:
        """Check the head, and hand the request to the application."""
        self._is_in_head = False
        if self._head_timer is not None:
            self._stop_head_timer()
        self._head_error = self._check_head()
        if self._head_error is not None:
            raise self._head_error  # the parser stops, and uvicorn calls send_400_response
        self._bytes_outside_bodies = 0
        self.is_counted = False
        super().on_headers_complete()
        self.transport.is_peer_sending = True
        self.scope[CONNECTION] = self  # type: ignore[typeddict-unknown-key]  # a key of ours

    def on_body(self, body: bytes) -> None:
        """Buffer a piece of the body."""
        self._bytes_outside_bodies = 0
        if not self.cycle.body:
            self.cycle.body = BodyPieces()  # type: ignore[assignment]  # used like uvicorn's bytearray
        super().on_body(body)
        # uvicorn pauses the connection at 64 KiB. Pausing at 256 KiB wakes the reader of a large body less often.
        if self.is_counted and len(self.cycle.body) <= MAX_UNREAD_BYTES:
            self.flow.resume_reading()

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        self._bytes_outside_bodies = 0
        self.scope[BODY_COMPLETE] = True  # type: ignore[typeddict-unknown-key]  # a key of ours
        if self._head_timer is not None:
            self._stop_head_timer()
        self.transport.is_peer_sending = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with the next request, unless the connection lingers. What is left of a body must arrive soon."""
        if self.transport.is_closing():  # no further answer; received bytes are read in order to discard them
            self.flow.resume_reading()
            return
        is_last = not self.pipeline
        super().on_response_complete()
        if is_last and self._rejection is not None:
            self.reject(self._rejection)
            return
        if self.transport.is_peer_sending and self._head_timer is None:
            self._start_head_timer()
        self._wait_for_count()  # of a pipelined request

    def reject(self, error: MirrorgateError) -> None:
        """Answer something that cannot become a request, and close: the start of a next request is unknown.

        The requests before it are answered first, so that none of their callers takes this answer for its own.
        """
        is_in_body = self.transport.is_peer_sending
        if self.pipeline or not (is_in_body or self.cycle is None or self.cycle.response_complete):
            if self.pipeline and is_in_body:
                self.pipeline.popleft()  # the request whose body is invalid, which waits for those before it
            self._rejection = error
            return
        request_id = uuid4().hex
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            response = problem_response(error)
            status = HTTPStatus(response.status_code)
            REQUESTS.labels("unmatched", int(status)).inc()
            client = self.client[0] if self.client else None
            log.info("request", method=None, route="unmatched", status=int(status), code=str(error.code), client=client)
        extra = [(b"x-request-id", request_id.encode()), (b"connection", b"close")]
        head = [*self.server_state.default_headers, *response.raw_headers, *extra]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in head)
        status_line = f"HTTP/1.1 {int(status)} {status.phrase}\r\n".encode()
        self.transport.write(status_line + lines + b"\r\n" + bytes(response.body))
        self.transport.is_peer_sending = True
        self.transport.close()

    def _check_head(self) -> RejectedInput | None:
        """Return what is wrong with a head: its size, or not exactly one `Host`, which HTTP/1.0 may omit."""
        if self._bytes_outside_bodies > MAX_HEAD_BYTES:  # a part of these bytes can be a body that came with its head
            lines = (len(name) + len(value) + 4 for name, value in self.headers)
            if len(self.url) + sum(lines) > MAX_HEAD_BYTES:
                return _head_too_large()
        hosts = sum([name == b"host" for name, _ in self.headers])
        if hosts != 1 and (hosts or self.parser.get_http_version() != "1.0"):
            return RejectedInput(Code.BAD_REQUEST, f"a request needs exactly one Host header; this one has {hosts}")
        return None

    def _wait_for_count(self) -> None:
        """Pause receiving a body until the application reads it. A body that is not read is received and dropped."""
        is_open = self.transport.is_peer_sending and not self.transport.is_closing()
        if is_open and not self.is_counted and not self.cycle.response_complete:
            self.flow.pause_reading()

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(MAX_HEAD_SECONDS, self._on_head_timeout)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_head_timeout(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:  # a pipelined request: it is not read while the one before it is answered
            self._start_head_timer()


def without_upgrade(data: bytes) -> bytes:
    """Return a head, and what follows it, without a wish for another protocol, which a server can ignore.

    Java's HTTP client wishes for HTTP/2 (`Upgrade: h2c`). httptools takes the body of such a request for data of the
    other protocol, so that the request would have no body and the next bytes would be invalid HTTP.
    """
    if data.find(b"pgrade", 0, MAX_HEAD_BYTES) < 0:
        return data
    head, end, body = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"\r\nX-Ignored-Upgrade:", head) + end + body


_UPGRADE: Final = re.compile(rb"\r\nupgrade[ \t]*:", re.IGNORECASE)


def _head_too_large() -> RejectedInput:
    return RejectedInput(Code.HEAD_TOO_LARGE, f"the request line and headers exceed {MAX_HEAD_BYTES} bytes")
