"""Bodies of callers without a valid key are not read, and no body is read before its memory counts."""

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
import uvicorn
import uvloop
from uvicorn.server import ServerState

from app.api.server import http_protocol
from app.api.server.http_protocol import MAX_UNCOUNTED_BYTES, BoundedHttpProtocol
from app.api.server.request_facts import CONNECTION
from tests.api.calls import ADMIN_KEY, Gateway, insert
from tests.limits.conftest import Serve
from tests.support.http.raw_http import connected, head

PATH = "/v1/changes/arcion"
BODY = json.dumps(insert("t", id="1")).encode()
WRONG_KEY = "mg_00000000ffffffff_" + "x" * 43
MIB = 2**20

ROUTES = [
    ("POST", PATH),
    ("POST", "/v1/changes/arrow"),
    ("POST", "/v1/keys"),
    ("PUT", "/v1/tables/t"),
    ("PATCH", "/v1/tables/t"),
    ("POST", "/v1/tables/t/recreate"),
    ("POST", "/v1/nothing"),
    ("GET", "/v1/tables"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_caller_without_a_key_is_rejected_before_a_byte_of_its_body_is_read(
    gateway: Gateway, method: str, path: str
) -> None:
    with connected(gateway.address) as client:
        client.send(head(path, WRONG_KEY, "Content-Length: 1000", "Expect: 100-continue", method=method))
        answer = client.answer()  # no 100: the body is not asked for
        assert answer.status in ({404} if path == "/v1/nothing" else {401, 405})
    with connected(gateway.address) as client:
        client.send(head(path, WRONG_KEY, "Content-Length: 1000", method=method))
        assert client.answer().status in {401, 404, 405}


def test_the_connection_of_a_rejected_caller_is_closed_after_it_got_its_answer(gateway: Gateway) -> None:
    with connected(gateway.address) as client:
        client.send(head("/v1/keys", WRONG_KEY, f"Content-Length: {MIB}") + b" " * (MIB // 2))
        answer = client.answer()
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        assert client.is_closed()


@pytest.mark.parametrize(("key", "status"), [(WRONG_KEY, 401), (ADMIN_KEY, 413)])
def test_a_rejected_caller_that_sends_its_whole_body_first_gets_its_answer(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, key: str, status: int
) -> None:
    monkeypatch.setattr(http_protocol, "MAX_LINGER_SECONDS", 60)
    gateway = serve(max_body_bytes=MIB)
    with connected(gateway.address) as client:
        client.send(head(PATH, key, f"Content-Length: {32 * MIB}") + b" " * (32 * MIB))  # more than sockets buffer
        assert client.answer().status == status


def test_a_rejected_caller_that_goes_on_sending_is_cut_off(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "MAX_LINGER_SECONDS", 0.1)
    gateway = serve()
    with connected(gateway.address) as client:
        client.send(head("/v1/keys", WRONG_KEY, f"Content-Length: {2**40}"))
        assert client.answer().status == 401
        with pytest.raises(OSError, match=r"reset|pipe"):
            while True:
                client.send(b" " * MIB)


def test_bodies_of_callers_without_a_key_take_nothing_from_the_memory_of_others(serve: Serve) -> None:
    gateway = serve(max_body_bytes=100_000, max_bytes_in_memory=200_000, max_concurrent_requests=2, max_key_share=1)
    with ExitStack() as senders:
        for path in ("/v1/keys", *[PATH] * 7):
            sender = senders.enter_context(connected(gateway.address))
            sender.send(head(path, WRONG_KEY, "Content-Length: 100000") + b" " * 99_999)
        assert gateway.post(PATH, content=BODY.ljust(100_000)).status_code == 202


def test_a_caller_with_a_key_may_go_on_after_a_rejection_of_another_kind(gateway: Gateway) -> None:
    with connected(gateway.address) as client:
        wrong = b"{}".ljust(1_000)
        client.send(head("/v1/tables/t", ADMIN_KEY, f"Content-Length: {len(wrong)}", method="PUT") + wrong)
        assert client.answer().status in {200, 400, 422}
        client.send(head(PATH, ADMIN_KEY, f"Content-Length: {len(BODY)}") + BODY)
        assert client.answer().status == 202


def test_probes_and_the_contract_need_no_key_whatever_is_sent_with_them(gateway: Gateway) -> None:
    with Gateway.at(gateway.address, WRONG_KEY) as stranger:
        for path in ("/healthz", "/openapi.json"):
            assert stranger.request("GET", path, content=b" " * 1_000).status_code == 200


LARGE = 2**20
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
        (post(LARGE) + bytes(LARGE), [LARGE]),
        (CHUNKED, [2**20]),
        (post(0) + post(LARGE) + bytes(LARGE), [0, LARGE]),
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
