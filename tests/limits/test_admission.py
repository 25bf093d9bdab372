"""Concurrent work of an API process is bounded; the excess gets 503 at once, and status and health always answer."""

import gzip
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial

import httpx
import pytest
import sqlalchemy as sa

from app.api.limits import (
    MAX_UNVERIFIED_BODIES,
    MAX_UNVERIFIED_BYTES,
    MIN_KEY_BYTES,
    READ_AHEAD_BYTES,
    Allowance,
    MemoryBudget,
    Reservation,
    UnverifiedRoom,
)
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.api.calls import ADMIN_KEY, Gateway, insert, problem
from tests.limits.conftest import Serve
from tests.limits.slow_commits import commit_freely, held_commits, wait_for_a_held_commit
from tests.support.http.raw_http import RawClient, chunk, connected, head, request
from tests.support.waiting import wait_until

PATH = "/v1/changes/arcion"
BODY = json.dumps(insert("t", id="1")).encode()
KEY = MIN_KEY_BYTES


@pytest.fixture
def connections() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def half(gateway: Gateway, connections: ExitStack, size: int, *, path: str = PATH, key: str = ADMIN_KEY) -> RawClient:
    """Return a connection on which the gateway has received a head and one byte of a body of this size."""
    client = connections.enter_context(connected(gateway.address))
    assert client.asks(path, key, size) == 100
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


def beyond(gateway: Gateway, connections: ExitStack, key: str = ADMIN_KEY) -> None:
    """Check that one more unfinished body of this key is rejected."""
    client = connections.enter_context(connected(gateway.address))
    client.send(head(PATH, key, f"Content-Length: {len(BODY)}"))
    answer = client.answer()
    assert (answer.status, answer.json()["code"], answer.headers["retry-after"]) == (503, "overloaded", "1")


def test_beyond_so_many_unfinished_bodies_others_are_rejected_until_one_is_done(
    serve: Serve, connections: ExitStack
) -> None:
    gateway = serve(max_concurrent_requests=3, max_key_share=1)
    waiting = [half(gateway, connections, len(BODY)) for _ in range(3)]
    beyond(gateway, connections)
    assert_status_is_answered(gateway)
    assert rest(waiting[0], len(BODY)) == 202
    waiting[0] = half(gateway, connections, len(BODY))
    beyond(gateway, connections)
    assert [rest(client, len(BODY)) for client in waiting] == [202] * 3
    assert gateway.status("t")["staged"]["rows"] == 4


def test_unfinished_bodies_take_no_place_of_requests_that_have_arrived(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_concurrent_requests=3, max_key_share=1)
    waiting = [half(gateway, connections, len(BODY)) for _ in range(3)]
    with connected(gateway.address) as whole:
        whole.send(request(PATH, ADMIN_KEY, BODY))  # head and body at once
        assert whole.answer().status == 202
    assert [rest(client, len(BODY)) for client in waiting] == [202] * 3


def test_beyond_so_many_requests_in_progress_others_are_rejected(
    serve: Serve, engine: sa.Engine, connections: ExitStack
) -> None:
    gateway = serve(max_concurrent_requests=2, max_key_share=1)
    before = gateway.metric("change_requests_in_flight")
    clients = [connections.enter_context(connected(gateway.address)) for _ in range(3)]
    connections.callback(commit_freely, engine)
    with held_commits(engine):
        for client in clients[:2]:
            client.send(request(PATH, ADMIN_KEY, BODY))
        wait_for_a_held_commit(engine)
        wait_until(
            lambda: gateway.metric("change_requests_in_flight") == before + 2, within=30, what="both are in progress"
        )
        clients[2].send(request(PATH, ADMIN_KEY, BODY))
        assert clients[2].answer().json()["code"] == "overloaded"
    assert [client.answer().status for client in clients[:2]] == [202, 202]


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
    clients = [connections.enter_context(connected(gateway.address)) for _ in range(7)]
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
    greedy = gateway.new_key("ingest")["key"]
    for _ in range(2):
        half(gateway, connections, 50_000, key=greedy)
    with Gateway.at(gateway.address, greedy) as client:
        answer = client.post(PATH, content=BODY, headers={"Content-Type": "application/json"})
        rejected(answer)
        assert "this key has 100000 bytes" in answer.json()["detail"]
        assert gateway.post(PATH, content=BODY.ljust(50_000)).status_code == 202


def test_one_key_gets_no_more_than_its_share_of_requests(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_concurrent_requests=4)
    greedy = gateway.new_key("ingest")["key"]
    for _ in range(2):
        half(gateway, connections, len(BODY), key=greedy)
    beyond(gateway, connections, greedy)
    assert gateway.arcion(insert("t", id="2")).status_code == 202


def test_whatever_other_keys_hold_the_first_request_of_a_key_gets_in(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=70_000, max_bytes_in_memory=140_000, max_concurrent_requests=4, max_key_share=1)
    for size in (70_000, 70_000, 10_000, 10_000):  # with two keys: one alone holds all bytes, the other the places
        key = gateway.new_key("ingest")["key"]
        half(gateway, connections, size, key=key)
    beyond(gateway, connections, key)
    assert gateway.arcion(insert("t", id="2")).status_code == 202


def test_several_busy_keys_leave_room_for_another(serve: Serve, connections: ExitStack) -> None:
    """Each can hold as much as stays free: of 20 places the first gets 10, the next 5, then 2 and 1."""
    gateway = serve(max_concurrent_requests=20)
    for places in (10, 5, 2, 1):
        key = gateway.new_key("ingest")["key"]
        for _ in range(places):
            half(gateway, connections, len(BODY), key=key)
        beyond(gateway, connections, key)


def test_a_body_without_a_length_is_reserved_as_it_comes(serve: Serve, connections: ExitStack) -> None:
    gateway = serve(max_body_bytes=100_000, max_bytes_in_memory=200_000, max_key_share=1)
    chunked = connections.enter_context(connected(gateway.address))
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
    """Return True if a body of this size is accepted; nothing else can be the reason of a rejection."""
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
    with connected(gateway.address) as gone:
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
    budget, inside = MemoryBudget(Allowance(10, 10 * KEY), 0.5, KEY), list[tuple[Reservation, str, int, bool]]()
    rejections = 0
    for _ in range(5_000):
        act, place = source.random(), source.randrange(len(inside) or 1)
        try:
            if act < 0.4:
                reservation, key = Reservation(budget), source.choice("abc")
                reservation.assign_to(key)
                reservation.hold_body(0, 0, is_complete=False)
                inside.append((reservation, key, 0, False))
            elif act < 0.5 and inside:
                reservation, key, held, _ = inside[place]
                reservation.hold_body(held, 0, is_complete=True)
                inside[place] = (reservation, key, held, True)
            elif act < 0.7 and inside:
                reservation, key, held, is_complete = inside[place]
                wanted = source.randrange(3 * KEY)
                reservation.reserve(wanted)
                inside[place] = (reservation, key, max(held, wanted), is_complete)
            elif inside:
                inside.pop(place)[0].release()
        except TemporarilyUnavailable as error:
            assert error.code is Code.OVERLOADED
            rejections += 1
        small = 0  # what a key gets even if all is used
        for key in "abc":
            own = [(held, is_complete) for _, owner, held, is_complete in inside if owner == key]
            assert sum(held for held, _ in own) <= 5 * KEY
            assert sum(is_complete for _, is_complete in own) <= 5
            assert sum(not is_complete for _, is_complete in own) <= 5
            small += min(KEY, sum(held for held, _ in own))
        assert sum(held for _, _, held, _ in inside) <= 10 * KEY + small
        for kind in (False, True):
            assert sum(is_complete is kind for *_, is_complete in inside) <= 10 + 3
    assert rejections > 100
    for reservation, *_ in inside:
        reservation.release()
    alone = Reservation(budget)
    alone.assign_to("d")
    alone.reserve(5 * KEY)
    with pytest.raises(TemporarilyUnavailable):
        alone.reserve(5 * KEY + 1)


def test_the_largest_request_of_a_key_fits_while_no_other_key_holds_much() -> None:
    budget = MemoryBudget(Allowance(10, 80 * KEY), 0.1, 60 * KEY)
    large, other = Reservation(budget), Reservation(budget)
    large.assign_to("a")
    other.assign_to("b")
    large.reserve(60 * KEY)
    with pytest.raises(TemporarilyUnavailable):
        large.reserve(60 * KEY + 1)
    with pytest.raises(TemporarilyUnavailable):
        other.reserve(11 * KEY)  # less than an eighth would stay free for others
    other.reserve(10 * KEY)


def test_in_a_full_room_of_callers_without_a_key_the_oldest_body_gives_way() -> None:
    room = UnverifiedRoom()
    budget = MemoryBudget(Allowance(10, KEY), 0.5, KEY)
    bodies = [Reservation(budget) for _ in range(MAX_UNVERIFIED_BODIES + 2)]
    gone = list[int]()
    for number, body in enumerate(bodies):
        body.give_way = partial(gone.append, number)
        room.hold(body, 1_000)
    assert gone == [0, 1]
    with pytest.raises(TemporarilyUnavailable):
        room.hold(bodies[0], 1_001)
    room.hold(bodies[2], MAX_UNVERIFIED_BYTES)  # grows to fill all of it: it stays, and the others go
    assert len(gone) == len(bodies) - 1
    room.leave(bodies[2])
    room.hold(Reservation(budget), MAX_UNVERIFIED_BYTES)
    assert len(gone) == len(bodies) - 1
