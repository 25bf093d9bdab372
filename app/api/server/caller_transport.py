"""Close connections so that the caller gets its answer, and so that no caller keeps a connection open by doing nothing.

The kernel resets a socket that is closed with unread bytes, and a reset discards what the peer has not read yet: the
peer would see a broken connection instead of the rejection. Therefore the answer is followed by the end of our half of
the connection, and the bytes that still arrive are discarded for a short time (RFC 9112, section 9.6; decision 0022).
A closed transport keeps what its peer has not read, for ever if the peer never reads it. So that time is bounded too.
"""

import asyncio
from typing import Any, Final

MAX_LINGER_SECONDS: Final = 2.0
"""How long a rejected caller can still send before its connection is closed."""

MAX_DISCARDED_BYTES: Final = 2**20
"""How many bytes of a rejected caller are discarded before its connection is closed."""

MAX_FLUSH_SECONDS: Final = 10.0
"""How long a caller can take to read the rest of an answer from a connection that is closed."""


class CallerTransport(asyncio.Transport):
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
        """Write to the connection."""
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
        """Close now; if the peer is still sending, close after the time or the bytes allowed for it."""
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

    def discard(self, data: bytes) -> None:
        """Discard bytes that were received while the connection lingers."""
        self._discarded += len(data)
        if self._discarded > MAX_DISCARDED_BYTES:
            self._end()

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
