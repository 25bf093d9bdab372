"""The writer probe reports the state of the writer, whatever other connections do."""

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from app.domain.model.table import Table
from app.staging.batches.batch import StagingRequest
from app.staging.connection.database import open_engine
from app.staging.writer import group_commit
from app.staging.writer.group_commit import GroupCommit, WriterProbe
from mirrorgate.errors import Code, TemporarilyUnavailable
from tests.support.gateway_parts import inserts, typed
from tests.support.postgres import sql
from tests.support.postgres.swallowing_proxy import SwallowingProxy

NO_SPACE = """
    CREATE FUNCTION public.no_space() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$;
    CREATE TRIGGER no_space BEFORE INSERT ON mirrorgate.staged_blocks
        FOR EACH ROW EXECUTE FUNCTION public.no_space()"""


@pytest.fixture(autouse=True)
def _always_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "FRESH_SECONDS", -1.0)


@pytest.fixture
def writer(proxy: SwallowingProxy) -> Iterator[GroupCommit]:
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
