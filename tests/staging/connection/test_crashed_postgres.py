"""Acknowledged changes survive a crash of Postgres, and lost ones are reported as lost."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.staging.batches.batch import StagingRequest
from app.staging.batches.staged_blocks import SELECT_STATUS, current_transaction_id
from app.staging.connection.database import open_engine
from app.staging.connection.schema_revision import migrate
from app.staging.writer.group_commit import GroupCommit
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.gateway_parts import current, inserts, registered, stage, typed
from tests.support.postgres import sql
from tests.support.postgres.crashing_postgres import CrashingPostgres
from tests.support.samples.schemas import schema_of
from tests.support.waiting import wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CrashingPostgres]:
    # What no commit has flushed stays in memory until the crash.
    server = CrashingPostgres(tmp_path, wal_writer_delay="10s")
    migrate(server.url)
    yield server
    server.stop()


def crash(server: CrashingPostgres, engine: sa.Engine) -> None:
    """Let Postgres crash and restart."""

    def answers() -> bool:
        server.tend()
        with suppress(sa.exc.OperationalError):
            return bool(sql.value(engine, "SELECT 1"))
        return False

    server.crash()
    wait_until(answers, within=30, what="Postgres is back")


@pytest.fixture
def engines(server: CrashingPostgres) -> Iterator[tuple[sa.Engine, sa.Engine]]:
    """Give the connections of two processes."""
    engines = open_engine(server.url), open_engine(server.url)
    yield engines
    for engine in engines:
        engine.dispose()


def test_a_batch_that_a_crash_took_is_not_acknowledged_for_another_that_got_its_transaction_id(
    server: CrashingPostgres, engines: tuple[sa.Engine, sa.Engine]
) -> None:
    """Postgres gives a transaction id again if nothing of the first one had reached its log."""
    engine, other = engines
    table = registered(other, "t", schema_of({"id": "int64"}, ["id"]))
    ids: list[str] = []
    staged, crashed = threading.Event(), threading.Event()

    def wait_for_the_crash(connection: sa.Connection) -> None:
        ids.append(current_transaction_id(connection).xid)
        staged.set()
        crashed.wait(timeout=60)

    sa.event.listen(engine, "commit", wait_for_the_crash)
    writer = GroupCommit(engine)
    writer.start()
    lost = writer.submit(StagingRequest([typed(table, inserts([{"id": 1}]))]))
    assert staged.wait(timeout=30)
    crash(server, other)
    [later] = stage(other, [typed(current(other, "t"), inserts([{"id": 2}]))])
    crashed.set()
    rejection = lost.exception(timeout=30)
    writer.close()
    with other.connect() as connection:
        assert connection.execute(SELECT_STATUS, {"xid": ids[0]}).scalar() == "committed"
    assert isinstance(rejection, TemporarilyUnavailable)
    assert rejection.code == Code.DATABASE_UNAVAILABLE
    assert later.sequence == 1
