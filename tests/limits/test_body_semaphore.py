"""The body semaphore admits a few large bodies at a time; the others wait unread, and none is rejected."""

import asyncio
import gzip
import json
import random
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from app.api.limits import LARGE_BODY_BYTES, BodyPermit, BodySemaphore
from tests.api.calls import ADMIN_KEY, insert
from tests.limits.conftest import Serve
from tests.limits.slow_commits import commit_freely, held_commits, wait_for_a_held_commit
from tests.support.http.raw_http import connected, head

PATH = "/v1/changes/arcion"
SIZE = LARGE_BODY_BYTES + 1_000
BODY = json.dumps(insert("t", id="1")).encode()
LARGE = BODY.ljust(SIZE)
JSON = {"Content-Type": "application/json"}
ROWS_OF_LARGE_BODY = 12_000
HOURS = 10_000.0


@pytest.fixture
def slow_database(engine: sa.Engine) -> Iterator[sa.Engine]:
    yield engine
    commit_freely(engine)


def begun(permit: BodyPermit, size: int = SIZE) -> "asyncio.Task[None]":
    return asyncio.create_task(permit.acquire(size))


async def settled() -> None:
    """Everything that can go on has gone on."""
    for _ in range(5):
        await asyncio.sleep(0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_a_large_body_waits_unread_while_those_before_it_are_worked_on(serve: Serve, slow_database: sa.Engine) -> None:
    gateway = serve(max_large_bodies_bytes=SIZE)
    with connected(gateway.address) as first, connected(gateway.address) as second:
        with held_commits(slow_database):
            first.send(head(PATH, ADMIN_KEY, f"Content-Length: {SIZE}") + LARGE)
            wait_for_a_held_commit(slow_database)
            second.send(head(PATH, ADMIN_KEY, f"Content-Length: {SIZE}", "Expect: 100-continue"))
            assert gateway.get("/v1/tables/t").status_code == 200
            assert not second.has_answer()
        assert first.answer().status == 202
        assert second.answer().status == 100
        second.send(LARGE)
        assert second.answer().status == 202
    assert gateway.status("t")["staged"]["rows"] == 2


def test_a_slow_caller_lets_others_in(serve: Serve) -> None:
    gateway = serve(max_large_bodies_bytes=SIZE)
    with connected(gateway.address) as slow:
        assert slow.asks(PATH, ADMIN_KEY, SIZE) == 100
        slow.send(LARGE[:1])
        assert gateway.post(PATH, content=LARGE, headers=JSON).status_code == 202
        slow.send(LARGE[1:])
        assert slow.answer().status == 202


def test_however_bodies_are_sent_all_of_them_get_their_turn(serve: Serve) -> None:
    gateway = serve(max_large_bodies_bytes=SIZE)
    packed = JSON | {"Content-Encoding": "gzip"}
    many = json.dumps([insert("t", id=str(number)) for number in range(ROWS_OF_LARGE_BODY)]).encode()
    assert len(many) > SIZE
    noise = json.dumps(insert("t", id="1", note=random.Random(1).randbytes(SIZE // 4).hex())).encode()
    sent: list[tuple[bytes, dict[str, str], int]] = [
        (LARGE, JSON, 202),
        (gzip.compress(many), packed, 202),
        (gzip.compress(noise), packed, 422),  # no such column
        (gzip.compress(noise)[:-9], packed, 400),
        (BODY, JSON, 202),
    ]

    def answer(number: int) -> bool:
        content, headers, status = sent[number % len(sent)]
        pieces = iter([content[:5], content[5:]]) if number % 2 else content  # without a length, or with
        return gateway.post(PATH, content=pieces, headers=headers).status_code == status

    with ThreadPoolExecutor(10) as callers:
        assert all(callers.map(answer, range(40)))
    assert gateway.status("t")["staged"]["rows"] == 8 * (1 + ROWS_OF_LARGE_BODY + 1)


def test_turns_are_taken_in_order_and_never_by_more_than_fit() -> None:
    async def test() -> None:
        semaphore, source = BodySemaphore(10 * SIZE, HOURS), random.Random(5)
        inside: list[tuple[BodyPermit, int]] = []
        order: list[int] = []

        async def caller(number: int, permit: BodyPermit, size: int) -> None:
            await permit.acquire(size)
            order.append(number)
            inside.append((permit, size))

        for number in range(2_000):
            size = source.randrange(SIZE, 12 * SIZE)
            waiting = asyncio.create_task(caller(number, BodyPermit(semaphore), size))
            await settled()
            assert len(inside) == 1 or sum(size for _, size in inside) <= 10 * SIZE
            if source.random() < 0.1 and not waiting.done():
                waiting.cancel()
            while inside and source.random() < 0.6:
                inside.pop(source.randrange(len(inside)))[0].release()
            await settled()
        while inside:
            inside.pop()[0].release()
            await settled()
        assert order == sorted(order)
        assert len(order) > 1_500
        await asyncio.wait_for(BodyPermit(semaphore).acquire(100 * SIZE), 30)  # nothing is left of all that

    run(test())


def test_a_key_with_many_large_bodies_lets_those_of_others_in_between() -> None:
    async def test() -> None:
        semaphore = BodySemaphore(SIZE, HOURS)
        first = BodyPermit(semaphore)
        await first.acquire(SIZE, "greedy")
        order: list[str] = []
        waiting: list[BodyPermit] = []

        async def caller(key: str) -> None:
            permit = BodyPermit(semaphore)
            await permit.acquire(SIZE, key)
            order.append(key)
            waiting.append(permit)

        tasks = [asyncio.create_task(caller(key)) for key in ["greedy"] * 50 + ["small"] * 2]
        await settled()
        first.release()
        while len(order) < len(tasks):
            await settled()
            waiting.pop().release()
        assert order[:5] == ["greedy", "small", "greedy", "small", "greedy"]

    run(test())


def test_small_bodies_never_wait() -> None:
    async def test() -> None:
        semaphore = BodySemaphore(1, HOURS)
        await BodyPermit(semaphore).acquire(SIZE)
        await BodyPermit(semaphore).acquire(LARGE_BODY_BYTES)
        small = BodyPermit(semaphore)
        small.complete(LARGE_BODY_BYTES)
        small.release()

    run(test())


def test_a_body_that_turned_out_smaller_or_larger_counts_as_what_it_is() -> None:
    async def test() -> None:
        semaphore = BodySemaphore(4 * SIZE, HOURS)
        first, second, third = BodyPermit(semaphore), BodyPermit(semaphore), BodyPermit(semaphore)
        await first.acquire(4 * SIZE)
        first.complete(SIZE)
        await second.acquire(SIZE)
        second.complete(3 * SIZE)
        waiting = begun(third)
        await settled()
        assert not waiting.done()
        first.release()
        await waiting

    run(test())


def test_a_body_that_does_not_come_counts_only_once_it_has_come() -> None:
    async def test() -> None:
        semaphore = BodySemaphore(SIZE, 0.0)
        slow, other, last = BodyPermit(semaphore), BodyPermit(semaphore), BodyPermit(semaphore)
        await slow.acquire(SIZE)
        await other.acquire(SIZE)
        other.complete(SIZE)
        slow.complete(SIZE)
        waiting = begun(last)
        other.release()
        await settled()
        assert not waiting.done()
        slow.release()
        await waiting

    run(test())


def test_a_caller_that_is_given_up_with_its_turn_gives_it_back() -> None:
    async def test() -> None:
        semaphore = BodySemaphore(SIZE, HOURS)
        first, second, third = BodyPermit(semaphore), BodyPermit(semaphore), BodyPermit(semaphore)
        await first.acquire(SIZE)
        given_up, waiting = begun(second), begun(third)
        await settled()
        first.release()
        given_up.cancel()  # which has its permit by now, and has not yet gone on
        await waiting

    run(test())
