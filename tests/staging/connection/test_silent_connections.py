"""Connections that fell silent or were lost: they are replaced, limited in time, and listeners listen again."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psycopg
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from app.domain.model.table import Table
from app.staging.batches.batch import BlockKey, StagingRequest
from app.staging.batches.stage_transaction import encode_blocks
from app.staging.connection import database, notifications, raw_sql
from app.staging.connection.database import KEEPALIVES, answer_within, open_engine, translated_errors
from app.staging.connection.notifications import NotificationListener, NotificationSender
from app.staging.connection.raw_sql import PersistentConnection
from app.staging.writer.group_commit import GroupCommit
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.gateway_parts import inserts, running_writer, typed
from tests.support.postgres import sql
from tests.support.postgres.swallowing_proxy import SwallowingProxy, swallowing_proxy
from tests.support.waiting import wait_until

DEADLINE = 1.0
WITHIN = 25
"""Seconds: far above the deadline, far below what the tests wait for without one."""


@pytest.fixture
def through_proxy(proxy: SwallowingProxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[sa.Engine]:
    monkeypatch.setattr("app.staging.connection.database._PING_SECONDS", 0.2)
    monkeypatch.setattr(database, "CONNECT_SECONDS", 1)
    engine = open_engine(proxy.url, silence_seconds=DEADLINE, bound_statements=True)
    yield engine
    engine.dispose()


@pytest.fixture
def writer(through_proxy: sa.Engine) -> Iterator[GroupCommit]:
    with running_writer(through_proxy, deadline_seconds=DEADLINE) as writer:
        yield writer


def staged(writer: GroupCommit, table: Table, key: int) -> int:
    """Stage a row and return the sequence of its batch."""
    [receipt] = writer.submit(StagingRequest([typed(table, inserts([{"id": key}]))])).result(timeout=WITHIN)
    return receipt.sequence


def test_a_statement_on_a_silent_connection_fails_within_its_limit(
    proxy: SwallowingProxy, through_proxy: sa.Engine
) -> None:
    with pytest.raises(TemporarilyUnavailable) as rejection, translated_errors(), through_proxy.begin() as connection:
        connection.exec_driver_sql("SELECT 1")
        proxy.swallow()
        connection.exec_driver_sql("SELECT 1")
    assert rejection.value.code == Code.DATABASE_UNAVAILABLE


def test_a_silent_connection_of_the_pool_is_replaced_before_it_is_used(
    proxy: SwallowingProxy, through_proxy: sa.Engine
) -> None:
    with through_proxy.begin() as connection:
        before = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    proxy.swallow()
    with through_proxy.begin() as connection:
        assert connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one() != before


def test_the_kernel_is_told_to_give_up_a_dead_peer(through_proxy: sa.Engine) -> None:
    with through_proxy.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        parameters = driver.info.get_parameters()
    assert {name: int(parameters[name]) for name in KEEPALIVES} == KEEPALIVES


def test_all_statements_of_a_block_share_its_time(through_proxy: sa.Engine) -> None:
    started = time.monotonic()
    with pytest.raises(sa.exc.OperationalError), through_proxy.connect() as connection, answer_within(0.1):
        for _ in range(1_000):
            connection.exec_driver_sql("SELECT pg_sleep(0.03)")
    assert time.monotonic() - started < 25


def test_a_silent_connection_of_the_writer_is_replaced_and_its_request_rejected(
    proxy: SwallowingProxy, writer: GroupCommit, table: Table
) -> None:
    staged(writer, table, 1)
    proxy.swallow()
    with pytest.raises(TemporarilyUnavailable, match=Code.DATABASE_UNAVAILABLE):
        staged(writer, table, 2)
    assert staged(writer, table, 2) == 2


def test_an_idle_silent_connection_of_the_writer_costs_no_request(
    proxy: SwallowingProxy, writer: GroupCommit, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged(writer, table, 1)
    monkeypatch.setattr(raw_sql, "PING_AFTER", -1.0)
    monkeypatch.setattr(raw_sql, "PING_SECONDS", 0.1)
    proxy.swallow()
    assert staged(writer, table, 2) == 2


def test_while_every_connection_is_silent_each_request_is_answered(
    proxy: SwallowingProxy, writer: GroupCommit, table: Table
) -> None:
    proxy.swallow_new = True
    proxy.swallow()
    started = time.monotonic()
    futures = [writer.submit(StagingRequest([typed(table, inserts([{"id": key}]))])) for key in range(3)]
    for future in futures:
        with pytest.raises(TemporarilyUnavailable):
            future.result(timeout=WITHIN)
    assert time.monotonic() - started < WITHIN
    assert writer.state().failure is not None
    proxy.swallow_new = False
    assert staged(writer, table, 9) == 1
    assert writer.state().failure is None


def test_a_request_that_waits_too_long_to_be_begun_is_rejected(
    engine: sa.Engine, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = Event(), Event()

    def slow(requests: Sequence[StagingRequest]) -> dict[BlockKey, bytes]:
        begun.set()
        goes_on.wait(WITHIN)
        return encode_blocks(requests)

    monkeypatch.setattr("app.staging.writer.group_commit.encode_blocks", slow)
    with running_writer(engine, deadline_seconds=0.2) as writer:
        first = writer.submit(StagingRequest([typed(table, inserts([{"id": 1}]))]))
        assert begun.wait(WITHIN)
        with pytest.raises(TemporarilyUnavailable, match=Code.DATABASE_UNAVAILABLE):
            staged(writer, table, 2)
        goes_on.set()
        [receipt] = first.result(timeout=WITHIN)  # its own work took no time of Postgres
    assert receipt.sequence == 1


def test_a_commit_that_is_swallowed_is_told_as_not_done(
    proxy: SwallowingProxy, through_proxy: sa.Engine, writer: GroupCommit, table: Table, engine: sa.Engine
) -> None:
    def swallow(_: sa.Connection) -> None:
        proxy.swallow()

    sa.event.listen(through_proxy, "commit", swallow)
    with pytest.raises(TemporarilyUnavailable):
        staged(writer, table, 1)
    sa.event.remove(through_proxy, "commit", swallow)
    assert staged(writer, table, 2) == 1
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.staged_blocks") == 1


MARK = "INSERT INTO mirrorgate.producers (principal, producer) VALUES ('p', 'q')"
MARKS = "SELECT count(*) FROM mirrorgate.producers"


def backend(connection: sa.Connection, _: sa.RootTransaction | None = None) -> int:
    return int(connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one())


@pytest.fixture
def kept(engine: sa.Engine) -> Iterator[PersistentConnection]:
    kept = PersistentConnection(engine)
    yield kept
    kept.close()


def end(other: sa.Engine, pid: int) -> None:
    sql.run(other, "SELECT pg_terminate_backend(:pid, 10000)", pid=pid)


def test_transactions_share_a_connection(kept: PersistentConnection) -> None:
    assert kept.in_transaction(backend) == kept.in_transaction(backend)


@pytest.mark.parametrize("commits", [False, True])
def test_what_is_committed_stays_and_all_else_is_rolled_back(
    kept: PersistentConnection, other: sa.Engine, *, commits: bool
) -> None:
    def work(connection: sa.Connection, transaction: sa.RootTransaction) -> None:
        connection.exec_driver_sql(MARK)
        if commits:
            transaction.commit()

    kept.in_transaction(work)
    assert sql.value(other, MARKS) == int(commits)


def test_a_connection_that_was_lost_since_is_replaced_and_the_work_done(
    kept: PersistentConnection, other: sa.Engine
) -> None:
    lost = kept.in_transaction(backend)
    end(other, lost)
    assert kept.in_transaction(backend) != lost


def test_a_connection_lost_in_the_middle_of_the_work_is_replaced_once(
    kept: PersistentConnection, other: sa.Engine
) -> None:
    calls = []

    def work(connection: sa.Connection, transaction: sa.RootTransaction) -> None:
        connection.exec_driver_sql(MARK)
        calls.append(backend(connection))
        end(other, calls[-1])
        connection.exec_driver_sql("SELECT 1")

    kept.in_transaction(backend)
    with pytest.raises(sa.exc.DBAPIError) as raised:
        kept.in_transaction(work)
    assert raised.value.connection_invalidated
    assert len(set(calls)) == len(calls) == 2
    assert sql.value(other, MARKS) == 0


def test_work_that_fails_otherwise_is_not_done_again_and_leaves_nothing(
    kept: PersistentConnection, other: sa.Engine
) -> None:
    calls = []

    def work(connection: sa.Connection, transaction: sa.RootTransaction) -> None:
        calls.append(None)
        connection.exec_driver_sql(MARK)
        connection.exec_driver_sql(MARK)

    kept.in_transaction(backend)
    with pytest.raises(sa.exc.IntegrityError):
        kept.in_transaction(work)
    assert len(calls) == 1
    assert sql.value(other, MARKS) == 0
    assert kept.in_transaction(backend) > 0


def test_a_connection_given_back_is_used_by_others(engine: sa.Engine, kept: PersistentConnection) -> None:
    pid = kept.in_transaction(backend)
    kept.close()
    with engine.connect() as connection:
        assert backend(connection) == pid


@pytest.fixture
def was_staged(database_url: str) -> Iterator[Event]:
    """Give what a running sender watches."""
    event = Event()
    sender = NotificationSender(database_url, event)
    sender.start()
    yield event
    sender.close()


def wait_for_wake(listener: NotificationListener, was_staged: Event) -> None:
    """Stage until the listener, which would wait a minute, wakes."""
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(listener.wait, 60)

        def wake() -> bool:
            was_staged.set()
            return waiting.done()

        wait_until(wake, within=30, what="the listener woke")


def test_a_listener_wakes_long_before_its_time_when_something_is_staged(database_url: str, was_staged: Event) -> None:
    listener = NotificationListener(database_url)
    listener.wait(60)
    started = time.monotonic()
    wait_for_wake(listener, was_staged)
    listener.close()
    assert time.monotonic() - started < 30


def test_a_listener_without_a_database_waits_and_goes_on_and_says_so_once_a_minute() -> None:
    listener = NotificationListener("postgresql://unused@127.0.0.1:1/none")
    with capture_logs() as logs:
        for _ in range(3):
            listener.wait(0.01)
    listener.close()
    assert [line["event"] for line in logs] == ["notification_listen_failed"]


def test_a_sender_without_a_database_stops_when_it_is_told_to() -> None:
    sender = NotificationSender("postgresql://unused@127.0.0.1:1/none", Event())
    sender.start()
    sender.close()


def test_a_listener_whose_connection_fell_silent_listens_again(
    database_url: str, was_staged: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "PING_AFTER", -1.0)
    monkeypatch.setattr(notifications, "_SILENCE_SECONDS", 0.2)
    with swallowing_proxy(database_url) as proxy:
        listener = NotificationListener(proxy.url)
        listener.wait(0.01)
        proxy.swallow()
        listener.wait(0.01)  # finds that nothing answers
        listener.wait(0.01)  # listens again
        wait_for_wake(listener, was_staged)
        listener.close()
