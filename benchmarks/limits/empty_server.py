"""A server that answers every request at once, `python -m benchmarks.limits.empty_server`.

It prints its port, and ends when its parent does.
"""

import asyncio
import sys
from typing import Any

import uvloop

from app.local.child_process import exit_with_parent

ANSWER = b'HTTP/1.1 202 Accepted\r\nContent-Length: 15\r\n\r\n{"status":"ok"}'


class EmptyServer(asyncio.Protocol):
    """Counts bytes until a request is complete by its Content-Length, and answers it."""

    def __init__(self) -> None:
        self._head = b""
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        """Answer each complete request."""
        while data:
            if self._missing:
                taken = min(self._missing, len(data))
                self._missing -= taken
                data = data[taken:]
            else:
                head, found, data = (self._head + data).partition(b"\r\n\r\n")
                if not found:
                    self._head = head
                    return
                self._head = b""
                _, _, rest = head.lower().partition(b"\r\ncontent-length:")
                self._missing = int(rest.partition(b"\r\n")[0] or 0)
            if not self._missing:
                self._transport.write(ANSWER)


async def serve() -> None:
    """Listen on a free port and print it."""
    server = await asyncio.get_running_loop().create_server(EmptyServer, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    exit_with_parent()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
