"""Bodies whose memory counts towards nobody yet stay on the socket, however many connections send them."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
import uvloop
from uvicorn.server import ServerState

from app.api.server.http_protocol import MAX_UNCOUNTED_BYTES, BoundedHttpProtocol
from app.api.server.request_facts import CONNECTION

BODY = 2**20
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def post(size: int) -> bytes:
    return f"POST / HTTP/1.1\r\nHost: g\r\nContent-Length: {size}\r\n\r\n".encode()


CHUNKED = (
    b"POST / HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n" + bytes(2**20) + b"\r\n0\r\n\r\n"
)


class Application:
    """Reads each body once it may, and answers with its size."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[None] = asyncio.Queue()
        self.may_read = asyncio.Event()
        self.sizes: list[int] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.put_nowait(None)
        await self.may_read.wait()
        scope[CONNECTION].begin_body()
        size, more = 0, True
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        self.sizes.append(size)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def received_early(sent: bytes, requests: int) -> tuple[int, list[int]]:
    """Send all requests before the application reads a body: the bytes that were received, and the sizes it read."""
    application = Application()
    config = uvicorn.Config(application, log_config=None, ws="none", lifespan="off")
    config.load()
    loop, made = asyncio.get_running_loop(), []

    def connection() -> BoundedHttpProtocol:
        made.append(BoundedHttpProtocol(config, ServerState(), {}))
        return made[-1]

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = await loop.create_server(connection, sock=listener)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(sent)
        await application.asked.get()
        early = len(made[0].cycle.body)
        for _ in range(20):  # turns of the loop, in which more would arrive
            await asyncio.sleep(0)
            early = max(early, len(made[0].cycle.body))
        application.may_read.set()
        for _ in range(requests):
            await reader.readuntil(b"\r\n\r\n")
        writer.close()
        server.close()
        await server.wait_closed()
    return early, application.sizes


@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
@pytest.mark.parametrize(
    ("sent", "sizes"),
    [
        (post(BODY) + bytes(BODY), [BODY]),
        (CHUNKED, [2**20]),
        (post(0) + post(BODY) + bytes(BODY), [0, BODY]),
        (post(100) + bytes(100), [100]),
    ],
    ids=["declared", "chunked", "pipelined", "small"],
)
def test_only_the_beginning_of_a_body_is_received_before_it_counts(
    new_loop: Callable[[], asyncio.AbstractEventLoop], sent: bytes, sizes: list[int]
) -> None:
    with asyncio.Runner(loop_factory=new_loop) as runner:
        early, read = runner.run(received_early(sent, len(sizes)))
    assert early <= MAX_UNCOUNTED_BYTES
    assert read == sizes
