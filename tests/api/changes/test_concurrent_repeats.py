"""The same requests from many threads to two API processes: each is staged once, and every caller gets its receipt."""

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier

import httpx
import pytest
import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY, Gateway, insert
from tests.support.http.server import api_process
from tests.support.postgres import sql
from tests.support.postgres.databases import clear

THREADS = 16
REQUESTS = 6
STAGED_ROWS = "SELECT coalesce(sum(row_count), 0) FROM mirrorgate.staged_blocks"


@pytest.fixture(scope="module")
def addresses(api_database: str) -> Iterator[list[str]]:
    """Run two API processes on one database."""
    with ExitStack() as stack:
        yield [stack.enter_context(api_process(api_database, ADMIN_KEY))[1] for _ in range(2)]


@pytest.fixture
def gateways(addresses: list[str], api_engine: sa.Engine) -> Iterator[list[Gateway]]:
    """Give a client per thread, alternating between the processes, whose database is empty but for a table."""
    sql.call(api_engine, clear, restart_ids=False)
    with ExitStack() as stack:
        clients = [stack.enter_context(Gateway.at(addresses[n % 2], ADMIN_KEY)) for n in range(THREADS)]
        clients[0].register("t", {"id": "int64"}, ["id"]).raise_for_status()
        yield clients


def send(client: Gateway, number: int, **headers: str) -> httpx.Response:
    return client.post("/v1/changes/arcion", json=[insert("t", id=str(number))], headers=headers)


def staged_once(answers: list[httpx.Response]) -> None:
    """Check that one answer is new, the others are replayed, and all have the same receipt."""
    assert sorted(answer.status_code for answer in answers) == [200] * (len(answers) - 1) + [202]
    assert len({str(answer.json()["receipts"]) for answer in answers}) == 1


@pytest.mark.slow
def test_sixteen_threads_with_the_same_keys_stage_each_request_once(
    gateways: list[Gateway], api_engine: sa.Engine
) -> None:
    meeting = Barrier(THREADS)

    def twin(client: Gateway) -> list[httpx.Response]:
        answers = []
        for number in range(REQUESTS):
            meeting.wait(timeout=60)
            answers.append(send(client, number, **{"Idempotency-Key": f"key-{number}"}))
        return answers

    with ThreadPoolExecutor(THREADS) as threads:
        by_thread = list(threads.map(twin, gateways))
    for answers in zip(*by_thread, strict=True):
        staged_once(list(answers))
    assert sql.value(api_engine, STAGED_ROWS) == REQUESTS


@pytest.mark.slow
def test_two_processes_with_the_same_producers_stage_each_number_once(
    gateways: list[Gateway], api_engine: sa.Engine
) -> None:
    """A thread sends a number when it has the answer to the one before, so that it never leaves a gap."""
    producers = ["outbox", "ledger"]

    def produce(thread: int) -> dict[tuple[str, int], httpx.Response]:
        answers = {}
        producer = producers[thread // 2 % 2]
        for number in range(1, REQUESTS + 1):
            headers = {"Mirrorgate-Producer": producer, "Mirrorgate-Producer-Sequence": str(number)}
            answers[producer, number] = send(gateways[thread], number, **headers)
        return answers

    with ThreadPoolExecutor(THREADS) as threads:
        by_thread = list(threads.map(produce, range(THREADS)))
    by_number = defaultdict(list)
    for answers in by_thread:
        for number, answer in answers.items():
            by_number[number].append(answer)
    assert len(by_number) == len(producers) * REQUESTS
    for answers_of_number in by_number.values():
        staged_once(answers_of_number)
    assert sql.value(api_engine, STAGED_ROWS) == len(producers) * REQUESTS
