"""Concurrent work of an API process is bounded; the excess gets 503 at once, and status and health always answer."""

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import pytest

from app.api.limits.memory_budget import READ_AHEAD_BYTES, Allowance, MemoryBudget, Reservation
from app.errors import Code, TemporarilyUnavailable
from tests.api.calls import ADMIN_KEY, Gateway, insert, problem
from tests.limits.conftest import Serve
from tests.support.http.raw_http import RawClient, chunk, connected, head
from tests.support.waiting import wait_until

PATH = "/v1/changes/arcion"
BODY = json.dumps(insert("t", id="1")).encode()


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def half(gateway: Gateway, connections: ExitStack, size: int, *, path: str = PATH, key: str = ADMIN_KEY) -> RawClient:
    """Return a connection on which the gateway has received a head and one byte of a body of this size."""
    client = connections.enter_context(connected(str(gateway.base_url)))
    client.send(head(path, key, f"Content-Length: {size}", "Expect: 100-continue"))
    assert client.answer().status == 100
    client.send(BODY[:1])
    return client


def rest(client: RawClient, size: int) -> int:
    """Send the rest of the body, padded with blanks, and return the status."""
    client.send(BODY[1:].ljust(size - 1))
    return client.answer().status


def rejected(answer: httpx.Response) -> None:
    problem(answer, 503, "overloaded")
    assert answer.headers["retry-after"] == "1"


def assert_status_is_answered(gateway: Gateway) -> None:
    for path in ("/healthz", "/v1/tables", "/v1/tables/t", "/metrics", "/openapi.json"):
        assert gateway.get(path).status_code == 200, path


def test_beyond_so_many_requests_others_are_rejected_until_one_is_done(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_concurrent_requests=3, max_key_share=1)
    waiting = [half(gateway, connections, len(BODY)) for _ in range(3)]
    rejected(gateway.arcion(insert("t", id="2")))
    rejected(gateway.arcion(insert("t", id="2"), dry_run="true"))
    assert_status_is_answered(gateway)
    assert rest(waiting[0], len(BODY)) == 202
    assert gateway.arcion(insert("t", id="2")).status_code == 202
    assert [rest(client, len(BODY)) for client in waiting[1:]] == [202, 202]
    assert gateway.status("t")["staged"]["rows"] == 4


def test_the_declared_size_of_a_small_body_is_reserved_before_it_comes(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=100_000, max_bytes_in_memory=250_000, max_key_share=1)
    waiting = [half(gateway, connections, size) for size in (100_000, 100_000, 49_000)]
    rejected(gateway.post(PATH, content=BODY.ljust(1_001), headers={"Content-Type": "application/json"}))
    assert_status_is_answered(gateway)
    small = gateway.post(PATH, content=BODY.ljust(1_000), headers={"Content-Type": "application/json"})
    assert small.status_code == 202
    assert rest(waiting[0], 100_000) == 202
    assert gateway.post(PATH, content=BODY.ljust(100_000)).status_code == 202


def test_a_caller_that_declares_much_and_sends_little_holds_little(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=4 * READ_AHEAD_BYTES, max_bytes_in_memory=8 * READ_AHEAD_BYTES, max_key_share=1)
    waiting = [half(gateway, connections, 4 * READ_AHEAD_BYTES) for _ in range(3)]
    assert gateway.post(PATH, content=BODY.ljust(4 * READ_AHEAD_BYTES)).status_code == 202
    assert [rest(client, 4 * READ_AHEAD_BYTES) for client in waiting] == [202] * 3


def test_bodies_that_are_half_there_do_not_block_each_other_for_ever(serve: Serve, connections: ExitStack) -> None:
    """Together they do not fit: some are rejected, at once and while none of them is finished, and the others go on."""
    size = 4 * READ_AHEAD_BYTES
    gateway = serve(max_body_bytes=size, max_bytes_in_memory=2 * size, max_key_share=1)
    clients = [connections.enter_context(connected(str(gateway.base_url))) for _ in range(7)]
    for client in clients:
        client.send(head(PATH, ADMIN_KEY, f"Content-Length: {size}") + BODY.ljust(READ_AHEAD_BYTES))
    for client in clients:
        with suppress(OSError):  # rejected already
            client.send(b" " * (size - READ_AHEAD_BYTES))
    statuses = [client.answer().status for client in clients]
    assert set(statuses) <= {202, 503}
    assert 202 in statuses
    assert gateway.post(PATH, content=BODY.ljust(size)).status_code == 202


def test_one_key_gets_no_more_than_its_share(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=50_000, max_bytes_in_memory=200_000, max_concurrent_requests=8)
    greedy = gateway.post("/v1/keys", json={"rights": ["ingest"]}).raise_for_status().json()["key"]
    for _ in range(2):
        half(gateway, connections, 50_000, key=greedy)
    with Gateway.at(str(gateway.base_url), greedy) as client:
        answer = client.post(PATH, content=BODY, headers={"Content-Type": "application/json"})
        rejected(answer)
        assert "its share of 100000 bytes" in answer.json()["detail"]
        assert gateway.post(PATH, content=BODY.ljust(50_000)).status_code == 202


def test_one_key_gets_no_more_than_its_share_of_requests(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_concurrent_requests=4)
    greedy = gateway.post("/v1/keys", json={"rights": ["ingest"]}).raise_for_status().json()["key"]
    for _ in range(2):
        half(gateway, connections, len(BODY), key=greedy)
    with Gateway.at(str(gateway.base_url), greedy) as client:
        rejected(client.arcion(insert("t", id="2")))
        assert gateway.arcion(insert("t", id="2")).status_code == 202


def test_a_body_without_a_length_is_reserved_as_it_comes(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=100_000, max_bytes_in_memory=200_000, max_key_share=1)
    chunked = connections.enter_context(connected(str(gateway.base_url)))
    chunked.send(head(PATH, ADMIN_KEY, "Transfer-Encoding: chunked") + chunk(BODY.ljust(50_000)))
    half(gateway, connections, 100_000)
    wait_until(lambda: not fits(gateway, 50_001), within=30, what="what came of the chunks is reserved")
    assert fits(gateway, 50_000)
    chunked.send(chunk(b" " * 50_000))
    chunked.send(chunk(b" "))
    answer = chunked.answer()
    assert (answer.status, answer.json()["code"]) == (503, "overloaded")
    assert gateway.status("t")["staged"]["rows"] in {1, 2}  # what fitted, before or after the chunks had come


def fits(gateway: Gateway, size: int) -> bool:
    """Tell whether a body of this size is accepted; nothing else can be the reason of a rejection."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"size-{size}"}
    answer = gateway.post(PATH, content=BODY.ljust(size), headers=headers)
    assert answer.status_code in {200, 202, 503}
    return answer.is_success


def test_what_a_body_expands_to_is_reserved(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=100_000, max_bytes_in_memory=200_000, max_key_share=1)
    half(gateway, connections, 100_000)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    rejected(gateway.post(PATH, content=gzip.compress(BODY.ljust(100_000)), headers=headers))
    assert gateway.post(PATH, content=gzip.compress(BODY.ljust(99_000)), headers=headers).status_code == 202


def test_the_body_of_any_call_needs_room(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=50_000, max_bytes_in_memory=100_000, max_key_share=1)
    [half(gateway, connections, 50_000) for _ in range(2)]
    rejected(gateway.put("/v1/tables/t", json={}))
    assert_status_is_answered(gateway)


def test_whatever_becomes_of_a_request_its_room_is_given_back(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=50_000, max_bytes_in_memory=100_000, max_concurrent_requests=2, max_key_share=1)
    compressed = {"Content-Encoding": "gzip"}
    for content, headers, status in (
        (b" " * 50_001, {}, 413),
        (b"[" * 40_000, {}, 400),
        (b"x" * 40_000, compressed, 400),
        (gzip.compress(bytes(60_000)), compressed, 413),
        (BODY, {"Content-Type": "text/plain"}, 415),
        (BODY, {"Authorization": "Bearer none"}, 401),
        (json.dumps(insert("none", id="1")).encode(), {}, 404),
        (BODY.ljust(50_000), {}, 202),
    ):
        sent = {"Content-Type": "application/json", **headers}
        assert gateway.post(PATH, content=content, headers=sent).status_code == status
    with connected(str(gateway.base_url)) as gone:
        gone.send(head(PATH, ADMIN_KEY, "Content-Length: 50000") + BODY)
    wait_until(
        lambda: gateway.post(PATH, content=BODY.ljust(50_000)).is_success,
        within=30,
        what="a caller's leaving is noticed",
    )
    waiting = [half(gateway, connections, 50_000) for _ in range(2)]
    assert [rest(client, 50_000) for client in waiting] == [202, 202]


def test_a_budget_never_holds_more_than_it_has_and_is_empty_in_the_end() -> None:
    source = random.Random(3)
    budget, inside = MemoryBudget(Allowance(10, 1_000), Allowance(4, 400)), list[tuple[Reservation, str, int]]()
    rejections = 0
    for _ in range(5_000):
        act = source.random()
        try:
            if act < 0.4:
                reservation, key = Reservation(budget), source.choice("abc")
                reservation.assign_to(key)
                inside.append((reservation, key, 0))
            elif act < 0.7 and inside:
                place = source.randrange(len(inside))
                reservation, key, held = inside[place]
                wanted = source.randrange(300)
                reservation.reserve(wanted)
                inside[place] = (reservation, key, max(held, wanted))
            elif inside:
                inside.pop(source.randrange(len(inside)))[0].release()
        except TemporarilyUnavailable as error:
            assert error.code is Code.OVERLOADED
            rejections += 1
        assert len(inside) <= 10
        assert sum(held for _, _, held in inside) <= 1_000
        for key in "abc":
            own = [held for _, owner, held in inside if owner == key]
            assert len(own) <= 4
            assert sum(own) <= 400
    assert rejections > 100
    for reservation, _, _ in inside:
        reservation.release()
    everything = [Reservation(budget) for _ in range(10)]
    for number, reservation in enumerate(everything):
        reservation.assign_to(str(number // 4))
    everything[0].reserve(400)
    everything[4].reserve(400)
    everything[8].reserve(200)
    for step in (lambda: Reservation(budget).assign_to("d"), lambda: everything[8].reserve(201)):
        with pytest.raises(TemporarilyUnavailable):
            step()
