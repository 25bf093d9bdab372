"""Idempotency keys and producer numbers over HTTP: one request, and many at once to two API processes."""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier
from urllib.parse import quote

import httpx
import pytest
import sqlalchemy as sa

from tests.api.calls import ADMIN_KEY, Gateway, insert, problem
from tests.api.conftest import ClientWith
from tests.support.http.server import api_process
from tests.support.postgres import sql
from tests.support.postgres.databases import clear


@pytest.fixture
def table(gateway: Gateway) -> Gateway:
    gateway.register("t", {"id": "int64"}, ["id"]).raise_for_status()
    return gateway


def post(client: Gateway, number: int, headers: dict[str, str], **parameters: str) -> httpx.Response:
    content = json.dumps([insert("t", id=str(number))]).encode()
    if headers.get("Content-Encoding") == "gzip":
        content = gzip.compress(content)
    return client.body("arcion", content, headers=headers, **parameters)


def test_a_repeated_key_gets_the_first_answer_and_says_so(table: Gateway) -> None:
    key = {"Idempotency-Key": "order-1"}
    first, second = post(table, 1, headers=key), post(table, 1, headers=key)
    assert (first.status_code, second.status_code) == (202, 200)
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert second.json() == first.json() | {"replayed": True}
    assert table.status("t")["accepted"]["rows"] == 1


def test_a_key_in_quotes_is_the_same_and_so_is_a_compressed_body(table: Gateway) -> None:
    post(table, 1, headers={"Idempotency-Key": "k"}).raise_for_status()
    again = post(table, 1, headers={"Idempotency-Key": '"k"', "Content-Encoding": "gzip"})
    assert (again.status_code, again.json()["replayed"]) == (200, True)


@pytest.mark.parametrize("difference", ["body", "query"])
def test_a_key_for_another_request_is_rejected(table: Gateway, difference: str) -> None:
    key = {"Idempotency-Key": "k"}
    post(table, 1, headers=key).raise_for_status()
    other = post(table, 2, headers=key) if difference == "body" else post(table, 1, headers=key, table="t")
    problem(other, 422, "idempotency_key_reused")


def test_a_repeated_request_is_answered_although_its_table_is_gone(table: Gateway) -> None:
    key = {"Idempotency-Key": "k"}
    first = post(table, 1, headers=key)
    table.delete("/v1/tables/t", params={"generation": 1}).raise_for_status()
    problem(post(table, 2, {}), 409, "table_not_accepting")
    assert post(table, 1, headers=key).json()["receipts"] == first.json()["receipts"]


def numbered(number: int, producer: str = "crm", position: str | None = None) -> dict[str, str]:
    headers = {"Mirrorgate-Producer": producer, "Mirrorgate-Producer-Sequence": str(number)}
    return headers if position is None else headers | {"Mirrorgate-Producer-Position": position}


def test_a_producer_finds_out_what_is_durable_and_goes_on(table: Gateway) -> None:
    problem(table.get("/v1/producers/crm"), 404, "unknown_producer")
    for number in (1, 2):
        assert post(table, number, headers=numbered(number)).status_code == 202
    state = table.get("/v1/producers/crm").json()
    assert (state["producer"], state["sequence"], state["receipts"][0]["sequence"]) == ("crm", 2, 2)
    assert post(table, 2, headers=numbered(2)).json()["replayed"] is True
    gap = problem(post(table, 9, headers=numbered(9)), 409, "producer_gap")
    assert "next number of this producer is 3" in gap["detail"]
    problem(post(table, 7, headers=numbered(1)), 422, "producer_sequence_reused")
    assert table.status("t")["accepted"]["rows"] == 2


def test_a_producer_belongs_to_the_key_that_it_sends_with(table: Gateway, client_with: ClientWith) -> None:
    post(table, 1, headers=numbered(1)).raise_for_status()
    other = client_with("ingest")
    problem(other.get("/v1/producers/crm"), 404, "unknown_producer")
    assert post(other, 5, headers=numbered(1)).status_code == 202


def test_a_producer_finds_its_position_again(table: Gateway) -> None:
    post(table, 1, headers=numbered(1)).raise_for_status()
    assert table.get("/v1/producers/crm").json()["position"] is None
    for number, position in ((2, "orders-0 offset 41"), (3, None)):
        post(table, number, headers=numbered(number, position=position)).raise_for_status()
    state = table.get("/v1/producers/crm").json()
    assert (state["sequence"], state["position"]) == (3, "orders-0 offset 41")


@pytest.mark.parametrize("name", ["kafka:prod/sink/sales.orders/0", "a%2Fb?#", "/", "x" * 255])
def test_any_name_of_a_producer_can_be_asked_for(table: Gateway, name: str) -> None:
    post(table, 1, headers=numbered(1, name)).raise_for_status()
    assert table.get(f"/v1/producers/{quote(name, safe='')}").json()["producer"] == name


@pytest.mark.parametrize(
    "headers",
    [
        {"Mirrorgate-Producer-Position": "41"},
        {"Mirrorgate-Producer-Position": "41", "Idempotency-Key": "k"},
        {"Mirrorgate-Producer-Position": "41", "Mirrorgate-Producer": "crm"},
        numbered(1, position=""),
        numbered(1, position="x" * 257),
        numbered(1, position="a\tb"),
        {"Mirrorgate-Producer": "crm"},
        {"Mirrorgate-Producer-Sequence": "1"},
        *({"Mirrorgate-Producer": "p", "Mirrorgate-Producer-Sequence": number} for number in ("1_0", "+1", "1.0")),
        numbered(0),
        numbered(2**63),
        numbered(1) | {"Idempotency-Key": "k"},
        {"Idempotency-Key": "a b"},
        {"Idempotency-Key": "k" * 256},
    ],
)
def test_headers_that_name_nothing_sure_are_rejected(table: Gateway, headers: dict[str, str]) -> None:
    problem(post(table, 1, headers=headers), 400, "bad_request")
    assert table.status("t")["last_sequence"] == 0


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
