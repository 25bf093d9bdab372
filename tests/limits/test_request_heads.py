"""Request heads: their size, their single Host, and URLs that are not text."""

import asyncio

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from app.api.server import http_protocol
from tests.api.calls import ADMIN_KEY, Gateway, problem
from tests.support.http.raw_http import RawAnswer, connected, head

MAX = http_protocol.MAX_HEAD_BYTES


def answer(gateway: Gateway, content: bytes) -> RawAnswer:
    with connected(gateway.address) as client:
        client.send(content)
        return client.answer()


class Wire(asyncio.Transport):
    """Keeps what the protocol writes."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = b""
        self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...

    def is_closing(self) -> bool:
        return self.ended

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.ended = True

    def get_write_buffer_size(self) -> int:
        return 0


async def never(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("the request is not one")


def test_a_head_beyond_the_limit_is_rejected_also_when_it_comes_at_once() -> None:
    async def written() -> bytes:
        config = uvicorn.Config(never, log_config=None)
        config.load()
        wire = Wire()
        protocol = http_protocol.BoundedHttpProtocol(config, ServerState(), {}, asyncio.get_running_loop())
        protocol.connection_made(wire)
        protocol.data_received(b"GET / HTTP/1.1\r\nHost: g\r\nX-Long: " + b"x" * MAX + b"\r\n\r\n")
        protocol.connection_lost(None)
        return wire.written

    assert asyncio.run(written()).startswith(b"HTTP/1.1 431 ")


def test_the_answer_to_a_head_beyond_the_limit_arrives(gateway: Gateway) -> None:
    lines = b"GET /healthz HTTP/1.1\r\nHost: gateway\r\nX-Long: " + b"x" * 3 * MAX + b"\r\n\r\n"
    rejected = answer(gateway, lines)
    assert (rejected.status, rejected.json()["code"]) == (431, "head_too_large")


def test_a_large_body_that_comes_with_its_head_is_no_large_head(gateway: Gateway) -> None:
    body = b" " * (2 * MAX)
    head = f"POST /v1/changes/arcion HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {ADMIN_KEY}\r\n"
    length = f"Content-Length: {len(body)}\r\n\r\n"
    assert answer(gateway, (head + length).encode() + body).json()["code"] == "empty_request"


@pytest.mark.parametrize(
    ("request_line", "hosts", "status"),
    [
        ("HTTP/1.1", ["one"], 200),
        ("HTTP/1.1", [], 400),
        ("HTTP/1.1", ["one", "two"], 400),
        ("HTTP/1.1", ["one", "one"], 400),
        ("HTTP/1.0", ["one"], 200),
        ("HTTP/1.0", [], 200),
        ("HTTP/1.0", ["one", "two"], 400),
    ],
)
def test_a_request_has_exactly_one_host(gateway: Gateway, request_line: str, hosts: list[str], status: int) -> None:
    lines = [f"GET /healthz {request_line}", *(f"Host: {host}" for host in hosts), "", ""]
    given = answer(gateway, "\r\n".join(lines).encode())
    assert given.status == status
    if status == 400:
        assert "Host" in given.json()["detail"]


@pytest.mark.parametrize(
    "url",
    [
        "/v1/producers/a%00b",
        "/v1/producers/a%ff",
        "/v1/tables/%ed%a0%80",
        "/v1/tables/t%00",
        "/v1/tables/t/files?after=%00",
        "/v1/audit?subject=a%00b",
        "/v1/audit?table=%ff",
        "/v1/keys/%00",
        "/v1/batches/t%00/1/1",
        "/%00",
    ],
)
def test_a_url_that_is_no_text_is_rejected(gateway: Gateway, url: str) -> None:
    problem(gateway.get(url), 400, "bad_request")


def test_any_other_text_in_a_url_is_looked_for(gateway: Gateway) -> None:
    for url in ("/v1/producers/%E2%82%AC", "/v1/tables/sales.%C3%A4"):
        assert gateway.get(url).status_code in {200, 404}


def test_a_wish_for_http_2_is_ignored_and_the_body_is_read(gateway: Gateway) -> None:
    """As the client of Java's library sends its first request."""
    wish = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAA")
    columns = b'{"key_columns": ["id"], "columns": [{"name": "id", "type": "int64", "nullable": false}]}'
    gateway.put("/v1/tables/t", content=columns).raise_for_status()
    body = b'[{"id": 1}]'
    with connected(gateway.address) as client:
        for _ in range(2):
            client.send(head("/v1/changes/rows?table=t", ADMIN_KEY, *wish, f"Content-Length: {len(body)}"))
            client.send(body)
            answered = client.answer()
            assert (answered.status, answered.json()["receipts"][0]["changes"]) == (202, 1)
