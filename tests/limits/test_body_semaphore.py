"""Large bodies are read a few at a time; the others wait unread, and none is rejected for it."""

import asyncio
import gzip
import json
import random
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from app.api.limits.body_semaphore import LARGE_BODY, Turn, Turns
from tests.api.calls import ADMIN_KEY, insert
from tests.limits.conftest import Serve
from tests.limits.slow_commits import commit_freely, held_commits, wait_for_a_held_commit
from tests.support.http.raw_http import connected, head

PATH = "/v1/changes/arcion"
SIZE = LARGE_BODY + 1_000
BODY = json.dumps(insert("t", id="1")).encode()
LARGE = BODY.ljust(SIZE)
JSON = {"Content-Type": "application/json"}
MANY = 12_000
HOURS = 10_000.0


@pytest.fixture
def slow_database(engine: sa.Engine) -> Iterator[sa.Engine]:
    yield engine
    commit_freely(engine)


def begun(turn: Turn, size: int = SIZE) -> "asyncio.Task[None]":
    return asyncio.create_task(turn.begin(size))


async def settled() -> None:
    """Everything that can go on has gone on."""
    for _ in range(5):
        await asyncio.sleep(0)


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_a_large_body_waits_unread_while_those_before_it_are_worked_on(serve: Serve, slow_database: sa.Engine) -> None:
    gateway = serve(max_large_bodies_bytes=SIZE)
    with connected(str(gateway.base_url)) as first, connected(str(gateway.base_url)) as second:
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
    with connected(str(gateway.base_url)) as slow:
        slow.send(head(PATH, ADMIN_KEY, f"Content-Length: {SIZE}", "Expect: 100-continue"))
        assert slow.answer().status == 100
        slow.send(LARGE[:1])
        assert gateway.post(PATH, content=LARGE, headers=JSON).status_code == 202
        slow.send(LARGE[1:])
        assert slow.answer().status == 202


def test_however_bodies_are_sent_all_of_them_get_their_turn(serve: Serve) -> None:
    gateway = serve(max_large_bodies_bytes=SIZE)
    packed = JSON | {"Content-Encoding": "gzip"}
    many = json.dumps([insert("t", id=str(number)) for number in range(MANY)]).encode()
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
    assert gateway.status("t")["staged"]["rows"] == 8 * (1 + MANY + 1)


def test_turns_are_taken_in_order_and_never_by_more_than_fit() -> None:
    async def test() -> None:
        turns, source = Turns(10 * SIZE, HOURS), random.Random(5)
        inside: list[tuple[Turn, int]] = []
        order: list[int] = []

        async def caller(number: int, turn: Turn, size: int) -> None:
            await turn.begin(size)
            order.append(number)
            inside.append((turn, size))

        for number in range(2_000):
            size = source.randrange(SIZE, 12 * SIZE)
            waiting = asyncio.create_task(caller(number, Turn(turns), size))
            await settled()
            assert len(inside) == 1 or sum(size for _, size in inside) <= 10 * SIZE
            if source.random() < 0.1 and not waiting.done():
                waiting.cancel()
            while inside and source.random() < 0.6:
                inside.pop(source.randrange(len(inside)))[0].end()
            await settled()
        while inside:
            inside.pop()[0].end()
            await settled()
        assert order == sorted(order)
        assert len(order) > 1_500
        await asyncio.wait_for(Turn(turns).begin(100 * SIZE), 30)  # nothing is left of all that

    run(test())


def test_a_key_with_many_large_bodies_lets_those_of_others_in_between() -> None:
    async def test() -> None:
        turns = Turns(SIZE, HOURS)
        first = Turn(turns)
        await first.begin(SIZE, "greedy")
        order: list[str] = []
        waiting: list[Turn] = []

        async def caller(key: str) -> None:
            turn = Turn(turns)
            await turn.begin(SIZE, key)
            order.append(key)
            waiting.append(turn)

        tasks = [asyncio.create_task(caller(key)) for key in ["greedy"] * 50 + ["small"] * 2]
        await settled()
        first.end()
        while len(order) < len(tasks):
            await settled()
            waiting.pop().end()
        assert order[:5] == ["greedy", "small", "greedy", "small", "greedy"]

    run(test())


def test_small_bodies_wait_for_nobody() -> None:
    async def test() -> None:
        turns = Turns(1, HOURS)
        await Turn(turns).begin(SIZE)
        await Turn(turns).begin(LARGE_BODY)
        small = Turn(turns)
        small.has_come(LARGE_BODY)
        small.end()

    run(test())


def test_a_body_that_turned_out_smaller_or_larger_counts_as_what_it_is() -> None:
    async def test() -> None:
        turns = Turns(4 * SIZE, HOURS)
        first, second, third = Turn(turns), Turn(turns), Turn(turns)
        await first.begin(4 * SIZE)
        first.has_come(SIZE)
        await second.begin(SIZE)
        second.has_come(3 * SIZE)
        waiting = begun(third)
        await settled()
        assert not waiting.done()
        first.end()
        await waiting

    run(test())


def test_a_body_that_does_not_come_counts_only_once_it_has_come() -> None:
    async def test() -> None:
        turns = Turns(SIZE, 0.0)
        slow, other, last = Turn(turns), Turn(turns), Turn(turns)
        await slow.begin(SIZE)
        await other.begin(SIZE)
        other.has_come(SIZE)
        slow.has_come(SIZE)
        waiting = begun(last)
        other.end()
        await settled()
        assert not waiting.done()
        slow.end()
        await waiting

    run(test())


def test_a_caller_that_is_given_up_with_its_turn_gives_it_back() -> None:
    async def test() -> None:
        turns = Turns(SIZE, HOURS)
        first, second, third = Turn(turns), Turn(turns), Turn(turns)
        await first.begin(SIZE)
        given_up, waiting = begun(second), begun(third)
        await settled()
        first.end()
        given_up.cancel()  # which has its turn by now, and has not yet gone on
        await waiting

    run(test())
