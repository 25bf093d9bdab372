"""The position of a producer is stored with the data: both are durable, or neither."""

from dataclasses import dataclass, field

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.api.changes.parameters import fingerprint
from app.domain.model.request_identity import RequestIdentity
from app.domain.model.table import Table
from app.staging.batches.batch import AlreadyStaged, StagingRequest
from app.staging.batches.idempotency import find_producer
from app.staging.batches.stage_transaction import encode_blocks, stage_requests
from mirrorgate.errors import Code, RejectedInput
from tests.support.gateway_parts import inserts, typed
from tests.support.postgres import sql

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
