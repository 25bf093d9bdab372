"""The HTTP parser's own bounds: how large the head of a request may be, and how long it may take to arrive.

uvicorn bounds neither with this parser, and takes requests with no `Host` header or several. A body is bounded where
it is read.
"""

import asyncio
from typing import Final

from app.api.server.lingering_close import Lingering
from app.api.server.problem_protocol import ProblemProtocol
from app.api.server.request_facts import BODY_IS_THERE
from app.errors import Code, RejectedInput

MOST_HEAD_BYTES: Final = 64 * 2**10
"""Bytes of a request line with its headers, or of the trailers and chunk extensions of a body."""

MOST_UNREAD_BYTES: Final = 256 * 2**10
"""Of a body, beside one piece more, before the connection waits for its reader."""

HEAD_SECONDS: Final = 10.0
"""How long a connection may wait for its first request, and a request for the end of its headers."""


class BoundedHttpProtocol(ProblemProtocol):
    """One connection. It is closed when a head is too large (431) or does not come in time."""

    _beside_bodies = 0
    """Bytes since the last piece of a body, or the last end of a head or a request."""
    _head_timer: asyncio.TimerHandle | None = None

    _rejection: RejectedInput | None = None
    """Why the request whose head was just read is rejected before it becomes one."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.lingering = Lingering(transport, self.loop)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        self.lingering.is_lost()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.lingering.discards(data):
            return
        self._beside_bodies += len(data)
        super().data_received(data)
        if self._beside_bodies > MOST_HEAD_BYTES and not self.lingering.is_closing():
            self.reject(_head_too_large())

    def send_400_response(self, msg: str) -> None:
        self.reject(self._rejection or RejectedInput(Code.BAD_REQUEST, "the request is not valid HTTP/1.1"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_is_there()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._head_is_there()
        self._rejection = self._rejected_head()
        if self._rejection is not None:
            raise self._rejection  # which ends the parser, and comes back as send_400_response
        self._beside_bodies = 0
        super().on_headers_complete()
        self.lingering.is_peer_sending = True
        self.cycle.transport = self.lingering

    def on_body(self, body: bytes) -> None:
        self._beside_bodies = 0
        super().on_body(body)
        if len(self.cycle.body) <= MOST_UNREAD_BYTES:  # uvicorn stops a quarter as late, and wakes the reader as often
            self.flow.resume_reading()

    def on_message_complete(self) -> None:
        self._beside_bodies = 0
        self.scope[BODY_IS_THERE] = True  # type: ignore[typeddict-unknown-key]  # a key of ours
        self.lingering.is_peer_sending = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.lingering.is_closing():  # nothing is answered any more; what still comes is read and thrown away
            self.flow.resume_reading()
        else:
            super().on_response_complete()

    def _rejected_head(self) -> RejectedInput | None:
        """What is wrong with the head of a request: its size, or not exactly one `Host`, which HTTP/1.0 may omit."""
        if self._beside_bodies > MOST_HEAD_BYTES:  # some of it may be a body that came with its head
            lines = (len(name) + len(value) + 4 for name, value in self.headers)
            if len(self.url) + sum(lines) > MOST_HEAD_BYTES:
                return _head_too_large()
        hosts = [name for name, _ in self.headers if name == b"host"]
        if len(hosts) != 1 and (hosts or self.parser.get_http_version() != "1.0"):
            return RejectedInput(Code.BAD_REQUEST, f"a request has exactly one Host header, this one has {len(hosts)}")
        return None

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _head_is_there(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:  # a pipelined request; nothing of it is read while the one before is answered
            self._await_head()


def _head_too_large() -> RejectedInput:
    return RejectedInput(Code.HEAD_TOO_LARGE, f"more than {MOST_HEAD_BYTES} bytes beside the body")
