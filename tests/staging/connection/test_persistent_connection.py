"""A persistent connection serves many transactions and is replaced after a failure."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from app.staging.connection.raw_sql import PersistentConnection
from tests.support.postgres import sql

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
