"""The HTTP parser's own bounds: how large the head of a request may be, and how long it may take to arrive.

uvicorn bounds neither with this parser. A body is bounded where it is read.
"""

import asyncio
from typing import Final

from app.api.problem_protocol import ProblemProtocol
from app.api.slow_bodies import BODY_IS_THERE
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

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._beside_bodies += len(data)
        super().data_received(data)
        if self._beside_bodies > MOST_HEAD_BYTES and not self.transport.is_closing():
            self.refuse(RejectedInput(Code.HEAD_TOO_LARGE, f"more than {MOST_HEAD_BYTES} bytes beside the body"))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_is_there()
        self._await_head()

    def on_headers_complete(self) -> None:
        self._beside_bodies = 0
        self._head_is_there()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._beside_bodies = 0
        super().on_body(body)
        if len(self.cycle.body) <= MOST_UNREAD_BYTES:  # uvicorn stops a quarter as late, and wakes the reader as often
            self.flow.resume_reading()

    def on_message_complete(self) -> None:
        self._beside_bodies = 0
        self.scope[BODY_IS_THERE] = True  # type: ignore[typeddict-unknown-key]  # a key of ours
        super().on_message_complete()

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
