"""What an API process takes on at a time; the rest is answered 503 at once, and status and health always."""

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from app.api.admission import Reservation, Room
from app.errors import Code, TemporarilyUnavailable
from tests.api.calls import ADMIN_KEY, Gateway, insert, problem
from tests.limits.conftest import Serve
from tests.support.raw_http import RawClient, chunk, connected, head
from tests.support.waiting import wait_until

PATH = "/v1/changes/arcion"
BODY = json.dumps(insert("t", id="1")).encode()


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def half(gateway: Gateway, connections: ExitStack, size: int, *, path: str = PATH) -> RawClient:
    """A request that is known to the gateway, and of whose body of this size one byte has come."""
    client = connections.enter_context(connected(str(gateway.base_url)))
    client.send(head(path, ADMIN_KEY, f"Content-Length: {size}", "Expect: 100-continue"))
    assert client.answer().status == 100
    client.send(BODY[:1])
    return client


def rest(client: RawClient, size: int) -> int:
    """The status of a request once the rest of its body has come, filled up with blanks."""
    client.send(BODY[1:].ljust(size - 1))
    return client.answer().status


def refused(answer: httpx.Response) -> None:
    problem(answer, 503, "overloaded")
    assert answer.headers["retry-after"] == "1"


def assert_status_is_answered(gateway: Gateway) -> None:
    for path in ("/healthz", "/v1/tables", "/v1/tables/t", "/metrics", "/openapi.json"):
        assert gateway.get(path).status_code == 200, path


def test_beyond_so_many_requests_others_are_refused_until_one_is_done(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_concurrent_requests=3)
    waiting = [half(gateway, connections, len(BODY)) for _ in range(3)]
    refused(gateway.arcion(insert("t", id="2")))
    refused(gateway.arcion(insert("t", id="2"), dry_run="true"))
    assert_status_is_answered(gateway)
    assert rest(waiting[0], len(BODY)) == 202
    assert gateway.arcion(insert("t", id="2")).status_code == 202
    assert [rest(client, len(BODY)) for client in waiting[1:]] == [202, 202]
    assert gateway.status("t")["staged"]["rows"] == 4


def test_the_declared_size_is_reserved_before_the_body_comes(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=100_000, max_bytes_in_memory=250_000)
    waiting = [half(gateway, connections, size) for size in (100_000, 100_000, 49_000)]
    refused(gateway.post(PATH, content=BODY.ljust(1_001), headers={"Content-Type": "application/json"}))
    assert_status_is_answered(gateway)
    small = gateway.post(PATH, content=BODY.ljust(1_000), headers={"Content-Type": "application/json"})
    assert small.status_code == 202
    assert rest(waiting[0], 100_000) == 202
    assert gateway.post(PATH, content=BODY.ljust(100_000)).status_code == 202


def test_a_body_without_a_length_is_reserved_as_it_comes(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=100_000, max_bytes_in_memory=200_000)
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
    """Whether a body of this size is accepted; nothing else is a reason to refuse it."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"size-{size}"}
    answer = gateway.post(PATH, content=BODY.ljust(size), headers=headers)
    assert answer.status_code in {200, 202, 503}
    return answer.is_success


def test_what_a_body_expands_to_is_reserved(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=100_000, max_bytes_in_memory=200_000)
    half(gateway, connections, 100_000)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    refused(gateway.post(PATH, content=gzip.compress(BODY.ljust(100_000)), headers=headers))
    assert gateway.post(PATH, content=gzip.compress(BODY.ljust(99_000)), headers=headers).status_code == 202


def test_the_body_of_any_call_needs_room(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=50_000, max_bytes_in_memory=100_000)
    [half(gateway, connections, 50_000) for _ in range(2)]
    refused(gateway.put("/v1/tables/t", json={}))
    assert_status_is_answered(gateway)


def test_whatever_becomes_of_a_request_its_room_is_given_back(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=50_000, max_bytes_in_memory=100_000, max_concurrent_requests=2)
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


def test_a_room_never_holds_more_than_it_has_and_is_empty_in_the_end() -> None:
    source, room, inside = random.Random(3), Room(10, 1_000), list[tuple[Reservation, int]]()
    refusals = 0
    for _ in range(5_000):
        act = source.random()
        try:
            if act < 0.4:
                inside.append((room.enter(), 0))
            elif act < 0.7 and inside:
                place = source.randrange(len(inside))
                reservation, held = inside[place]
                wanted = source.randrange(300)
                reservation.hold(wanted)
                inside[place] = (reservation, max(held, wanted))
            elif inside:
                inside.pop(source.randrange(len(inside)))[0].leave()
        except TemporarilyUnavailable as error:
            assert error.code is Code.OVERLOADED
            refusals += 1
        assert len(inside) <= 10
        assert sum(held for _, held in inside) <= 1_000
    assert refusals > 100
    for reservation, _ in inside:
        reservation.leave()
    everything = [room.enter() for _ in range(10)]
    everything[0].hold(1_000)
    with pytest.raises(TemporarilyUnavailable):
        room.enter()
