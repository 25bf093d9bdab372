"""A request is staged once: idempotency keys, producers' numbers and their positions."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from hashlib import sha256
from threading import Barrier

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.api.changes.parameters import fingerprint
from app.domain.model.request_identity import RequestIdentity
from app.domain.model.table import Table
from app.staging.batches.batch import AlreadyStaged, Batch, Receipt, StagingRequest
from app.staging.batches.idempotency import PURGE_RECEIPTS, find_producer
from app.staging.batches.stage_transaction import encode_blocks, stage_requests
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


STAGED_ROWS = "SELECT coalesce(sum(row_count), 0) FROM mirrorgate.staged_blocks"


@dataclass(frozen=True)
class Sent:
    """A request as a producer sends it."""

    number: int
    content: int
    position: str | None

    def identity(self, producer: str) -> RequestIdentity:
        body = str(self.content).encode()
        print_ = fingerprint("POST", "/v1/changes/rows", "table=t", body, self.position)
        return RequestIdentity("p", producer, print_, self.number, self.position)


@dataclass
class Model:
    """What a gateway must remember of one producer."""

    accepted: list[Sent] = field(default_factory=list)

    @property
    def position(self) -> str | None:
        return next((sent.position for sent in reversed(self.accepted) if sent.position is not None), None)

    def expected(self, sent: Sent) -> object:
        """Return the outcome of a request, and take it if it is the next one."""
        if sent.number == len(self.accepted) + 1:
            self.accepted.append(sent)
            return "staged"
        if sent.number > len(self.accepted):
            return Code.PRODUCER_GAP
        return "again" if self.accepted[sent.number - 1] == sent else Code.PRODUCER_SEQUENCE_REUSED


def stage(engine: sa.Engine, table: Table, producer: str, group: list[Sent], *, dies: bool = False) -> list[object]:
    """Stage requests in one transaction, which ends before its COMMIT if it `dies`."""
    requests = [
        StagingRequest([typed(table, inserts([{"id": sent.content}]))], sent.identity(producer)) for sent in group
    ]
    payloads = encode_blocks(requests)
    with engine.connect() as connection, connection.begin() as transaction:
        outcomes = stage_requests(connection, requests, payloads).outcomes
        if dies:
            transaction.rollback()
    return [name_of(outcome) for outcome in outcomes]


def name_of(outcome: object) -> object:
    if isinstance(outcome, RejectedInput):
        return outcome.code
    return "again" if isinstance(outcome, AlreadyStaged) else "staged"


def progress(engine: sa.Engine, producer: str) -> tuple[int, str | None]:
    found = sql.call(engine, find_producer, "p", producer)
    return (0, None) if found is None else (found.sequence, found.position)


def test_dying_before_the_commit_leaves_neither_the_data_nor_the_position(engine: sa.Engine, table: Table) -> None:
    first, second = Sent(1, 10, "offset 9"), Sent(2, 20, "offset 19")
    assert stage(engine, table, "a", [first], dies=True) == ["staged"]
    assert (progress(engine, "a"), sql.value(engine, STAGED_ROWS)) == ((0, None), 0)
    assert stage(engine, table, "a", [first]) == ["staged"]
    assert stage(engine, table, "a", [second], dies=True) == ["staged"]
    assert (progress(engine, "a"), sql.value(engine, STAGED_ROWS)) == ((1, "offset 9"), 1)


def test_a_group_keeps_the_last_position_that_one_of_its_requests_has(engine: sa.Engine, table: Table) -> None:
    group = [Sent(1, 1, "one"), Sent(2, 2, "two"), Sent(3, 3, None)]
    assert stage(engine, table, "a", group) == ["staged"] * 3
    assert progress(engine, "a") == (3, "two")


def test_a_request_without_a_position_keeps_the_fingerprint_of_earlier_versions() -> None:
    assert fingerprint("POST", "/p", "q", b"body").hex() == (
        "0741e691bea2a18c239ac3cbdb62438042874afae2af9eb4f5c2e12bea0b96f1"
    )


def test_a_position_is_never_taken_for_a_part_of_the_body() -> None:
    plain = fingerprint("POST", "/p", "", b"1\nbody")
    assert len({plain, fingerprint("POST", "/p", "", b"body", "1"), fingerprint("POST", "/p", "1", b"body")}) == 3


def test_with_a_position_each_part_of_the_request_changes_the_fingerprint() -> None:
    base = ("POST", "/p", "q", b"body", "1")
    others = [("PUT", *base[1:]), ("POST", "/r", *base[2:]), ("POST", "/p", "", *base[3:]), (*base[:4], "2")]
    bodies = [b"", b"bodY", b"body\0", b"\0body", b"ydob", b"body" * 2**18]
    assert len({fingerprint(*one) for one in (base, *others, *((*base[:3], body, "1") for body in bodies))}) == 11


def test_the_database_bounds_a_position(engine: sa.Engine, table: Table) -> None:
    stage(engine, table, "a", [Sent(1, 1, "x" * 256)])
    for wrong in ("", "x" * 257):
        with pytest.raises(sa.exc.IntegrityError):
            sql.run(engine, "UPDATE mirrorgate.producers SET position = :position", position=wrong)


@given(
    steps=st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.integers(-2, 2), st.integers(0, 1), st.sampled_from([None, "a", "b"])),
                min_size=1,
                max_size=3,
            ),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_numbers_and_positions_follow_a_plain_model_through_repeats_gaps_and_deaths(
    engine: sa.Engine, table: Table, steps: list[tuple[list[tuple[int, int, str | None]], bool]]
) -> None:
    """Each step is a transaction of requests whose numbers are near the next one; some die before their COMMIT."""
    sql.run(engine, "TRUNCATE mirrorgate.producers, mirrorgate.request_receipts")
    model = Model()
    for entries, dies in steps:
        following = len(model.accepted) + 1
        group = [Sent(max(1, following + offset), content, position) for offset, content, position in entries]
        tried = Model(list(model.accepted))
        expected = [tried.expected(sent) for sent in group]
        assert stage(engine, table, "a", group, dies=dies) == expected
        if not dies:
            model = tried
        assert progress(engine, "a") == (len(model.accepted), model.position)
