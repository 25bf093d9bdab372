"""Close a connection whose peer is still sending, without the peer losing the answer.

The kernel resets a socket that is closed with unread bytes, and a reset discards what the peer has not read yet: the
peer would see a broken connection instead of the rejection. Therefore the answer is followed by the end of our half of
the connection, and the bytes that still arrive are discarded for a short time (RFC 9112, section 9.6; decision 0022).
"""

import asyncio
from typing import Final

MAX_LINGER_SECONDS: Final = 2.0
"""How long a rejected caller can still send before its connection is closed."""

MAX_DISCARDED_BYTES: Final = 2**20
"""How many bytes of a rejected caller are discarded before its connection is closed."""


class LingeringClose(asyncio.Transport):
    """Wraps the transport of one connection. `close` delays the close while the peer is still sending."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._discarded = 0
        self.is_peer_sending = False
        """True while the peer has not sent all of its request."""
        self.is_lingering = False
        """True while received bytes are discarded until the connection is closed."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write to the connection."""
        self._transport.write(data)

    def is_closing(self) -> bool:
        """Return True if the connection lingers or is closed."""
        return self._timer is not None or self._transport.is_closing()

    def close(self) -> None:
        """Close now; if the peer is still sending, close after the time or the bytes allowed for it."""
        if not self.is_peer_sending or self._transport.is_closing():
            self._transport.close()
        elif self._timer is None:
            self.is_lingering = True
            self._timer = self._loop.call_later(MAX_LINGER_SECONDS, self._transport.close)
            if self._transport.can_write_eof():
                self._transport.write_eof()

    def discard(self, data: bytes) -> None:
        """Discard bytes that were received while the connection lingers."""
        self._discarded += len(data)
        if self._discarded > MAX_DISCARDED_BYTES:
            self._transport.close()

    def cancel_timer(self) -> None:
        """Stop the timer, because the connection has ended."""
        if self._timer is not None:
            self._timer.cancel()
