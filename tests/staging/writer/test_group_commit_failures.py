"""What the writer tells when a transaction fails, and what its probe says."""

import random
import string
from collections.abc import Iterator, Sequence

import pytest
import sqlalchemy as sa

from app.domain.model.table import Table
from app.domain.rows.source_order import Advance, Reached
from app.staging.batches.batch import Batch, BlockKey, StagingRequest
from app.staging.batches.stage_transaction import encode_blocks
from app.staging.batches.staged_blocks import TransactionId, current_transaction_id, is_committed
from app.staging.connection import database
from app.staging.connection.database import open_engine
from app.staging.writer import group_commit
from app.staging.writer.group_commit import GroupCommit, WriterProbe
from mirrorgate.errors import Code, RejectedInput, TemporarilyUnavailable
from tests.staging.writer.test_group_commit import OCCUPY_SEQUENCE
from tests.support.gateway_parts import inserts, registered, running_writer, stage, together, typed
from tests.support.postgres import sql
from tests.support.postgres.swallowing_proxy import SwallowingProxy

HOLD_COUNTERS = "SELECT FROM mirrorgate.table_counters WHERE table_id = :table_id FOR UPDATE"


@pytest.fixture
def impatient(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[sa.Engine]:
    """Give an engine that waits 50 ms for a lock."""
    monkeypatch.setattr(database, "_LOCK_MILLISECONDS", 50)
    engine = open_engine(database_url)
    yield engine
    engine.dispose()


def rejection_of(engine: sa.Engine, table: Table) -> TemporarilyUnavailable:
    with pytest.raises(TemporarilyUnavailable) as rejection:
        stage(engine, [typed(table, inserts([{"id": 1}]))])
    return rejection.value


def test_a_lock_that_is_not_granted_in_time_is_a_busy_table(
    engine: sa.Engine, impatient: sa.Engine, table: Table
) -> None:
    with sql.locked(engine, HOLD_COUNTERS, table_id=table.table_id):
        rejection = rejection_of(impatient, table)
    assert (rejection.code, rejection.retry_after) == (Code.TABLE_BUSY, 1)
    assert [receipt.sequence for receipt in stage(impatient, [typed(table, inserts([{"id": 1}]))])] == [1]


def test_a_failed_transaction_gives_its_numbers_back(engine: sa.Engine, table: Table) -> None:
    stage(engine, [typed(table, inserts([{"id": 1}]))])
    sql.run(engine, OCCUPY_SEQUENCE, table_id=table.table_id, sequence=2)
    with pytest.raises(sa.exc.IntegrityError):
        stage(engine, [typed(table, inserts([{"id": 2}]))])
    assert sql.value(engine, "SELECT last_sequence FROM mirrorgate.table_counters") == 1
    sql.run(engine, "DELETE FROM mirrorgate.staged_blocks WHERE first_sequence = 2")
    assert [receipt.sequence for receipt in stage(engine, [typed(table, inserts([{"id": 2}]))])] == [2]


def test_a_database_that_does_not_answer_is_told_so(table: Table) -> None:
    nowhere = open_engine("postgresql://unused@127.0.0.1:1/none")
    assert rejection_of(nowhere, table).code == Code.DATABASE_UNAVAILABLE
    nowhere.dispose()


def test_the_writer_outlives_a_lost_connection(engine: sa.Engine, other: sa.Engine, table: Table) -> None:
    with running_writer(engine) as writer:
        writer.submit(StagingRequest([typed(table, inserts([{"id": 1}]))])).result(timeout=30)
        sql.end_sessions(other)
        [receipt] = writer.submit(StagingRequest([typed(table, inserts([{"id": 2}]))])).result(timeout=30)
    assert receipt.sequence == 2


def test_a_connection_lost_before_its_commit_was_done_is_told_as_rolled_back(
    engine: sa.Engine, other: sa.Engine, table: Table
) -> None:
    def lose(connection: sa.Connection) -> None:
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        sql.run(other, "SELECT pg_terminate_backend(:pid, 10000)", pid=pid)

    sa.event.listen(engine, "commit", lose)
    rejection = rejection_of(engine, table)
    sa.event.remove(engine, "commit", lose)
    assert rejection.code == Code.DATABASE_UNAVAILABLE
    assert sql.value(other, "SELECT last_sequence FROM mirrorgate.table_counters") == 0


def lose_answer(connection: sa.Connection) -> None:
    """COMMIT is done and its answer lost: the connection breaks behind it."""
    connection.connection.driver_connection.commit()  # type: ignore[union-attr]
    raise sa.exc.OperationalError("COMMIT", None, Exception("connection lost"))


def test_a_commit_whose_answer_was_lost_is_found_to_be_done(engine: sa.Engine, other: sa.Engine, table: Table) -> None:
    sa.event.listen(engine, "commit", lose_answer)
    [receipt] = stage(engine, [typed(table, inserts([{"id": 1}]))])
    sa.event.remove(engine, "commit", lose_answer)
    assert receipt.sequence == sql.value(other, "SELECT last_sequence FROM mirrorgate.table_counters") == 1


def test_a_commit_that_cannot_be_verified_leaves_the_outcome_open(
    engine: sa.Engine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> bool:
        nowhere = open_engine("postgresql://unused@127.0.0.1:1/none")
        return is_committed(nowhere, TransactionId("1", None, None), max_seconds=0)

    monkeypatch.setattr("app.staging.writer.group_commit.is_committed", unknown)
    sa.event.listen(engine, "commit", lose_answer)
    rejection = rejection_of(engine, table)
    sa.event.remove(engine, "commit", lose_answer)
    assert rejection.code == Code.COMMIT_UNKNOWN


def test_of_a_transaction_without_a_block_nobody_can_tell_whose_id_it_was(engine: sa.Engine) -> None:
    known = sql.call(engine, current_transaction_id)
    with pytest.raises(TemporarilyUnavailable, match=Code.COMMIT_UNKNOWN):
        is_committed(engine, known, max_seconds=0)


def unstorable(table: Table) -> Batch:
    """Return a batch whose source position has a task that no index row can hold."""
    batch = typed(table, inserts([{"id": 99}]))
    task = "".join(random.Random(0).choices(string.ascii_letters + string.digits, k=9_000))  # no secret
    return batch._replace(advances=[Advance(task, "1", None, Reached("1"))])


def test_a_request_that_postgres_cannot_store_fails_alone(engine: sa.Engine, table: Table) -> None:
    other = registered(engine, "other", table.schema)
    good = [[typed(other, inserts([{"id": key}]))] for key in range(5)]
    *before, poisoned, last = together(engine, *good[:4], [unstorable(table)], good[4])
    assert [future.result()[0].sequence for future in [*before, last]] == [1, 2, 3, 4, 5]
    with pytest.raises(RejectedInput, match=Code.UNSTORABLE):
        poisoned.result()
    assert sql.value(engine, "SELECT last_sequence FROM mirrorgate.table_counters WHERE table_id = 1") == 0


def test_a_locked_table_fails_only_the_requests_for_it(engine: sa.Engine, impatient: sa.Engine, table: Table) -> None:
    other = registered(engine, "other", table.schema)
    with sql.locked(engine, HOLD_COUNTERS, table_id=table.table_id):
        busy, free = together(impatient, [typed(table, inserts([{"id": 1}]))], [typed(other, inserts([{"id": 1}]))])
    assert [receipt.sequence for receipt in free.result()] == [1]
    with pytest.raises(TemporarilyUnavailable, match=Code.TABLE_BUSY):
        busy.result()


def test_a_fault_of_ours_over_one_request_fails_it_alone(
    engine: sa.Engine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def encode(requests: Sequence[StagingRequest]) -> dict[BlockKey, bytes]:
        if any(request.ignored for request in requests):
            raise ZeroDivisionError
        return encode_blocks(requests)

    monkeypatch.setattr("app.staging.writer.group_commit.encode_blocks", encode)
    request = StagingRequest([typed(table, inserts([{"id": 1}]))], ignored=1)
    bad, good = together(engine, request, [typed(table, inserts([{"id": 2}]))])
    assert [receipt.sequence for receipt in good.result()] == [1]
    with pytest.raises(ZeroDivisionError):
        bad.result()


NO_SPACE = """
    CREATE FUNCTION public.no_space() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$;
    CREATE TRIGGER no_space BEFORE INSERT ON mirrorgate.staged_blocks
        FOR EACH ROW EXECUTE FUNCTION public.no_space()"""


@pytest.fixture
def writer(proxy: SwallowingProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[GroupCommit]:
    """Give a writer that is asked each time, however lately it committed."""
    monkeypatch.setattr(group_commit, "FRESH_SECONDS", -1.0)
    engine = open_engine(proxy.url, silence_seconds=1)
    writer = GroupCommit(engine, deadline_seconds=1)
    writer.start()
    yield writer
    writer.close()
    engine.dispose()


def test_a_writer_whose_connections_are_silent_is_told_although_others_work(
    proxy: SwallowingProxy, writer: GroupCommit, engine: sa.Engine
) -> None:
    probe = WriterProbe(writer)
    assert probe.check(5)[1] is None
    proxy.swallow_new = True
    proxy.swallow()
    _, trouble = probe.check(0.2)
    assert trouble.code == Code.DATABASE_UNAVAILABLE
    assert sql.value(engine, "SELECT 1") == 1


def test_a_database_without_space_shows_after_the_first_failure_and_until_a_commit(
    writer: GroupCommit, engine: sa.Engine, table: Table
) -> None:
    sql.run(engine, NO_SPACE)
    try:
        with pytest.raises(TemporarilyUnavailable) as rejection:
            writer.submit(StagingRequest([typed(table, inserts([{"id": 1}]))])).result(timeout=10)
    finally:
        sql.run(engine, "DROP FUNCTION public.no_space() CASCADE")
    assert rejection.value.code == Code.DATABASE_UNAVAILABLE
    state, trouble = WriterProbe(writer).check(5)
    assert trouble is None
    assert "disk space" in str(state.failure)
    writer.submit(StagingRequest([typed(table, inserts([{"id": 1}]))])).result(timeout=10)
    assert writer.state().failure is None


def test_a_read_only_database_is_told_and_so_is_its_end(writer: GroupCommit, engine: sa.Engine) -> None:
    probe = WriterProbe(writer)
    with sql.read_only(engine):
        _, trouble = probe.check(5)
    assert "read-only" in trouble.detail
    assert probe.check(5)[1] is None
