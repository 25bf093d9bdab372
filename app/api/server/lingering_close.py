"""Lingering close: ends a connection whose peer is still sending, without the peer losing the answer.

A socket that is closed with unread bytes is reset, and a reset discards what the peer has not read yet: it would see a
broken connection instead of the rejection. So the answer is followed by the end of our half, and what still arrives is
thrown away for a short time.
"""

import asyncio
from typing import Final

SECONDS: Final = 2.0
"""How long a rejected caller may still send before its connection is closed."""

MOST_BYTES: Final = 2**20
"""How much of it is thrown away before the connection is closed."""


class Lingering(asyncio.Transport):
    """The transport of one connection as uvicorn writes to it; `close` waits for the peer where it is still sending."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._discarded = 0
        self.is_peer_sending = False
        """Whether the peer has not yet sent all of its request."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        return self._timer is not None or self._transport.is_closing()

    def close(self) -> None:
        """Close now, or once the peer has been quiet, has sent too much, or took too long."""
        if not self.is_peer_sending or self._transport.is_closing():
            self._transport.close()
        elif self._timer is None:
            self._timer = self._loop.call_later(SECONDS, self._transport.close)
            if self._transport.can_write_eof():
                self._transport.write_eof()

    def discards(self, data: bytes) -> bool:
        """Whether the connection lingers, so that these bytes are thrown away."""
        if self._timer is None:
            return False
        self._discarded += len(data)
        if self._discarded > MOST_BYTES:
            self._transport.close()
        return True

    def is_lost(self) -> None:
        """Stop the timer: the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
