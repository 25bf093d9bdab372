"""Repeated requests are staged once and answered alike, in one process or several."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from threading import Barrier

import pytest
import sqlalchemy as sa

from app.domain.model.request_identity import RequestIdentity
from app.domain.model.table import Table
from app.staging.batches.batch import AlreadyStaged, Batch, Receipt, StagingRequest
from app.staging.batches.idempotency import PURGE_RECEIPTS, find_producer
from app.staging.retention.rounds import purge
from mirrorgate.errors import Code, RejectedInput
from tests.support.gateway_parts import inserts, registered, running_writer, together, typed
from tests.support.postgres import sql
from tests.support.samples.schemas import ID


def key(name: str, content: str = "body", principal: str = "p") -> RequestIdentity:
    return RequestIdentity(principal, name, sha256(content.encode()).digest())


def numbered(sequence: int, content: str | None = None, producer: str = "a") -> RequestIdentity:
    return replace(key(producer, content or f"body {sequence}"), producer_sequence=sequence)


def batch(table: Table, number: int) -> list[Batch]:
    return [typed(table, inserts([{"id": number}]))]


def send(engine: sa.Engine, *requests: tuple[Sequence[Batch], RequestIdentity]) -> list["Future[list[Receipt]]"]:
    return together(engine, *(StagingRequest(batches, identity) for batches, identity in requests))


def outcome(future: "Future[list[Receipt]]") -> object:
    """Return the sequence of a staged request, the one that a repeated request got, or the code of a rejection."""
    error = future.exception()
    if isinstance(error, AlreadyStaged):
        return ("again", error.answer["receipts"][0]["sequence"])
    return error.code if isinstance(error, RejectedInput) else future.result()[0].sequence


@pytest.mark.parametrize("together", [True, False])
def test_a_repeated_request_is_staged_once_and_answered_as_before(
    engine: sa.Engine, table: Table, together: bool
) -> None:
    requests = [(batch(table, 1), key("k")) for _ in range(3)]
    futures = send(engine, *requests) if together else [send(engine, request)[0] for request in requests]
    assert [outcome(future) for future in futures] == [1, ("again", 1), ("again", 1)]
    assert sql.value(engine, "SELECT sum(row_count) FROM mirrorgate.staged_blocks") == 1


@pytest.mark.parametrize("together", [True, False])
def test_a_key_given_for_another_request_is_rejected_and_its_neighbours_go_on(
    engine: sa.Engine, table: Table, together: bool
) -> None:
    requests = [(batch(table, 1), key("k")), (batch(table, 2), key("k", "other")), (batch(table, 3), key("l"))]
    futures = send(engine, *requests) if together else [send(engine, request)[0] for request in requests]
    assert [outcome(future) for future in futures] == [1, Code.IDEMPOTENCY_KEY_REUSED, 2]


def test_keys_of_two_principals_are_two_keys(engine: sa.Engine, table: Table) -> None:
    futures = send(engine, (batch(table, 1), key("k")), (batch(table, 2), key("k", principal="q")))
    assert [outcome(future) for future in futures] == [1, 2]


def test_a_rejected_request_keeps_no_receipt(engine: sa.Engine, table: Table) -> None:
    sql.run(engine, "UPDATE mirrorgate.tables SET state = 'dropped'")
    send(engine, (batch(table, 1), key("k")))
    sql.run(engine, "UPDATE mirrorgate.tables SET state = 'active'")
    [future] = send(engine, (batch(table, 1), key("k")))
    assert outcome(future) == 1


def test_numbers_of_a_producer_are_dense_and_repeated_ones_get_their_own_receipts(
    engine: sa.Engine, table: Table
) -> None:
    numbers = [1, 2, 2, 4, 3, 1, 4]
    futures = send(engine, *((batch(table, number), numbered(number)) for number in numbers))
    expected = [1, 2, ("again", 2), Code.PRODUCER_GAP, 3, ("again", 1), 4]
    assert [outcome(future) for future in futures] == expected
    [future] = send(engine, (batch(table, 9), numbered(3, "other")))
    assert outcome(future) is Code.PRODUCER_SEQUENCE_REUSED
    with engine.begin() as connection:
        found = find_producer(connection, "p", "a")
        assert find_producer(connection, "p", "unknown") is None
    assert (found.sequence, found.answer["receipts"][0]["sequence"]) == (4, 4)


def test_a_gap_names_the_expected_number(engine: sa.Engine, table: Table) -> None:
    [future] = send(engine, (batch(table, 1), numbered(5)))
    assert "is 1, not 5" in str(future.exception())
    assert sql.call(engine, find_producer, "p", "a") is None


def test_a_durable_number_without_a_receipt_says_so(engine: sa.Engine, table: Table) -> None:
    send(engine, (batch(table, 1), numbered(1)), (batch(table, 2), numbered(2)))
    with engine.begin() as connection:
        assert purge(connection, PURGE_RECEIPTS, older_than_seconds=0, limit=1) == 1
        assert purge(connection, PURGE_RECEIPTS, older_than_seconds=3600, limit=10) == 0
    futures = [send(engine, (batch(table, number), numbered(number)))[0] for number in (1, 2)]
    assert [outcome(future) for future in futures] == [Code.RECEIPT_EXPIRED, ("again", 2)]


def test_a_request_without_changes_keeps_its_answer_too(engine: sa.Engine) -> None:
    first, second = send(engine, ([], key("k")), ([], key("k")))
    assert first.result() == []
    assert isinstance(second.exception(), AlreadyStaged)


@pytest.mark.parametrize("same_table", [True, False])
def test_twins_in_two_processes_are_staged_once(engine: sa.Engine, same_table: bool) -> None:
    """Also where they go to two tables, so that no table's lock keeps them apart."""
    tables = [registered(engine, name, ID) for name in ("one", "other")]
    rounds, meeting = 20, Barrier(2)

    def twin(process: int) -> list[object]:
        outcomes = []
        for number in range(rounds):
            meeting.wait(timeout=30)
            table = tables[0 if same_table else process]
            future = writers[process].submit(StagingRequest(batch(table, number), key(f"k{number}", "same")))
            future.exception(timeout=30)
            outcomes.append(outcome(future))
        return outcomes

    with running_writer(engine) as first, running_writer(engine) as second, ThreadPoolExecutor(2) as threads:
        writers = [first, second]
        one, other = threads.map(twin, range(2))
    staged = [isinstance(left, int) + isinstance(right, int) for left, right in zip(one, other, strict=True)]
    assert staged == [1] * rounds
    assert sql.value(engine, "SELECT sum(row_count) FROM mirrorgate.staged_blocks") == rounds


def test_producers_over_the_same_tables_in_any_order_do_not_block_each_other(engine: sa.Engine) -> None:
    tables = [registered(engine, name, ID) for name in "abc"]

    def produce(thread: int) -> None:
        order = tables if thread % 2 else tables[::-1]
        for number in range(1, 16):
            batches = [typed(table, inserts([{"id": number}])) for table in order]
            identity = numbered(number, f"{number}", f"producer {thread % 4}")
            error = writers[thread % 2].submit(StagingRequest(batches, identity)).exception(timeout=60)
            assert error is None or isinstance(error, AlreadyStaged)

    with running_writer(engine) as first, running_writer(engine) as second, ThreadPoolExecutor(8) as threads:
        writers = [first, second]
        list(threads.map(produce, range(8)))
    assert sql.rows(engine, "SELECT last_sequence FROM mirrorgate.producers") == [(15,)] * 4
    assert sql.rows(engine, "SELECT last_sequence FROM mirrorgate.table_counters") == [(60,)] * 3
