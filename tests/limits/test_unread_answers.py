"""Answers that nobody reads: they stay counted until they are read, and their connections are closed in the end."""

import json
from contextlib import AbstractContextManager, ExitStack

import pytest

from app.api.openapi.document import STATIC
from tests.api.calls import ADMIN_KEY, Gateway, insert
from tests.limits.conftest import Serve
from tests.support.http.raw_http import RawClient, connected
from tests.support.waiting import wait_until

BUFFER = 16 * 2**10
ASSET = "/docs/assets/swagger-ui-bundle.js"
DRY_RUN = "/v1/changes/rows?table=wide&dry_run=true"
CONSTANT = "x" * 2_000
IMPATIENT = {"body_grace_seconds": 2.0, "min_body_rate": 10**9}
PATIENT = {"body_grace_seconds": 600.0, "body_seconds": 900.0}


def narrow(gateway: Gateway) -> AbstractContextManager[RawClient]:
    """Give a connection whose kernel takes little that is not read."""
    return connected(gateway.address, receive_buffer=BUFFER)


def get(path: str, key: str = ADMIN_KEY) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {key}\r\n\r\n".encode()


def dry_run(key: str = ADMIN_KEY, size: int = 200_000) -> bytes:
    """Return a request whose answer has at least `size` bytes. Its body is small, and so arrives with its head."""
    rows = json.dumps([{"id": number} for number in range(size // len(CONSTANT))])
    lines = [f"POST {DRY_RUN} HTTP/1.1", "Host: g", f"Authorization: Bearer {key}", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(rows)}", "", rows]).encode()


def wide(gateway: Gateway) -> Gateway:
    """Register a table whose rows are wider than what is sent of them."""
    constants = {"text": {"type": "string", "value": CONSTANT}}
    gateway.register("wide", {"id": "int64"}, ["id"], constants=constants).raise_for_status()
    return gateway


def given_up(gateway: Gateway, route: str) -> float:
    return gateway.metric(f'requests_total{{route="{route}",status="499"}}')


def is_cut_off(client: RawClient) -> bool:
    """Read the answer; return whether the connection ends before the answer does."""
    try:
        answer = client.answer()
    except ConnectionResetError:
        return True
    return len(answer.body) < int(answer.headers["content-length"])


def test_a_connection_that_reads_nothing_is_closed_at_every_route_with_large_answers(serve: Serve) -> None:
    gateway = wide(serve(send_buffer=BUFFER, **IMPATIENT))
    for number in range(100):
        gateway.register(f"t_{number}", {f"column_{index}": "string" for index in range(3)}).raise_for_status()
    cases = {
        "/docs/assets/{name}": get(ASSET),
        "/openapi.json": get("/openapi.json"),
        "/v1/changes/rows": dry_run(size=900_000),
        "/v1/tables": get("/v1/tables"),
        "/metrics": get("/metrics"),
    }
    before = {name: gateway.metric(name) for name in ("answer_bytes_in_memory", "change_requests_in_flight")}
    with ExitStack() as stack:
        clients = [stack.enter_context(narrow(gateway)) for _ in range(4 * len(cases))]
        halves = [stack.enter_context(narrow(gateway)) for _ in cases]
        for client, content in zip(clients, 4 * [*cases.values()], strict=True):
            client.send(content)
        for client, content in zip(halves, cases.values(), strict=True):
            client.send(content)
            client.end_of_sending()  # such a caller gets no answer, and holds nothing
        for route in cases:
            wait_until(lambda route=route: given_up(gateway, route) >= 4, within=60, what=f"{route} is given up")
        for name, at_first in before.items():
            wait_until(lambda n=name, v=at_first: gateway.metric(n) == v, within=30, what=f"{name} is given back")
        assert all(is_cut_off(client) for client in clients)
        assert gateway.arcion(insert("t", id="1")).status_code == 202


def test_an_answer_keeps_its_memory_and_its_place_until_it_is_read(serve: Serve) -> None:
    gateway = wide(serve(send_buffer=BUFFER, max_concurrent_requests=2, max_key_share=1, **PATIENT))
    of_answers = "answer_bytes_in_memory"
    unread, working = gateway.metric(of_answers), gateway.metric("change_requests_in_flight")
    with ExitStack() as stack:
        clients = [stack.enter_context(narrow(gateway)) for _ in range(2)]
        for client in clients:
            client.send(dry_run())
        wait_until(lambda: gateway.metric(of_answers) > unread + 400_000, within=30, what="both wait for readers")
        assert gateway.metric("change_requests_in_flight") == working + 2
        assert gateway.arcion(insert("t", id="1")).status_code == 503
        for client in clients:
            assert len(client.answer().json()["tables"]) == 1
        wait_until(lambda: gateway.metric(of_answers) == unread, within=30, what="both are read")
        assert gateway.arcion(insert("t", id="1")).status_code == 202


def test_unread_answers_of_one_key_are_bounded_and_stop_no_other_key(serve: Serve) -> None:
    gateway = wide(serve(send_buffer=BUFFER, max_body_bytes=10**6, max_bytes_in_memory=2_000_000, **PATIENT))
    overloaded = 'rejected_requests_total{code="overloaded"}'
    before = gateway.metric(overloaded)
    greedy, other = (gateway.new_key("admin")["key"] for _ in range(2))
    with ExitStack() as stack:
        clients = [stack.enter_context(narrow(gateway)) for _ in range(5)]
        for client in clients:
            client.send(dry_run(greedy, 120_000))
        # Of 500,000 bytes for answers, the key gets a half.
        wait_until(lambda: gateway.metric(overloaded) >= before + 3, within=30, what="three answers are dropped")
        with Gateway.at(gateway.address, other) as client:
            assert client.rows("wide", *[{"id": 1}] * 60, dry_run="true").status_code == 200
            assert client.get("/metrics").status_code == 200
        assert sorted(client.answer().status for client in clients) == [200, 200, 503, 503, 503]


def test_a_slow_reader_that_keeps_the_rate_gets_all_of_its_answer(serve: Serve) -> None:
    gateway = serve(send_buffer=BUFFER, body_grace_seconds=60, min_body_rate=1)
    with narrow(gateway) as client:
        client.send(get(ASSET) + get("/healthz"))
        assert client.beginning().startswith(b"HTTP/1.1 200")
        assert gateway.arcion(insert("t", id="1")).status_code == 202
        assert client.answer().body == (STATIC / "swagger-ui-bundle.js").read_bytes()
        assert client.answer().status == 200


def test_the_rest_of_a_body_that_was_not_read_must_arrive(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.server.http_protocol.MAX_HEAD_SECONDS", 0.2)
    gateway = serve()
    with narrow(gateway) as client:
        client.send(b"GET /healthz HTTP/1.1\r\nHost: g\r\nContent-Length: 100000\r\n\r\n")
        assert client.answer().status == 200
        client.send(b"x")
        assert client.is_closed()
