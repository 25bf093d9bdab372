"""A backfill of row images by the drain, beside the publication of the same table."""

import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table, TableState
from app.staging.batches.sequence_lock import lock_counters
from app.staging.images import BackfillState, find_backfill, request_backfill
from app.staging.tables.operations import set_publishing
from spark_jobs.background import DrainStopped
from spark_jobs.drain_loop import DrainLoop
from tests.spark.conftest import NewWorker, drain
from tests.support.gateway_parts import current, dropping, registered, stage, typed
from tests.support.postgres import sql
from tests.support.postgres.ledger import end_lease
from tests.support.samples.changes import insert
from tests.support.samples.images import KEEP, stored_images
from tests.support.samples.schemas import ID

ONE = Generation(1)


def asked(engine: sa.Engine, name: str) -> Table:
    """Return a paused table with a row, whose backfill is asked for."""
    table = registered(engine, name, ID)
    stage(engine, [typed(table, [insert({"id": 1})])])
    registered(engine, name, None, KEEP)
    with engine.begin() as connection:
        set_publishing(connection, table.name, ONE, TableState.PAUSED, "operator")
        return request_backfill(connection, table.name, ONE, "operator")


def test_the_drain_gives_images_to_active_and_paused_tables(engine: sa.Engine, new_worker: NewWorker) -> None:
    for name in ("active", "paused", "quiet"):
        stage(engine, [typed(registered(engine, name, ID), [insert({"id": key}, key) for key in (1, 2, 3)])])
        registered(engine, name, None, KEEP)
    with engine.begin() as connection:
        set_publishing(connection, TableName.parse("paused"), ONE, TableState.PAUSED, "operator")
        for name in ("active", "paused"):
            request_backfill(connection, TableName.parse(name), ONE, "operator")
    worker = new_worker()
    drain(worker)
    for name in ("active", "paused"):
        table = current(engine, name)
        assert (table.images_complete, table.backfill_due, len(stored_images(engine, table))) == (True, False, 3)
    assert not current(engine, "quiet").images_complete
    lags = "SELECT count(*) FROM mirrorgate.table_counters WHERE last_sequence > published_through"
    assert sql.value(engine, lags) == 1


def test_a_paused_table_keeps_its_epoch_until_it_publishes_again(engine: sa.Engine, new_worker: NewWorker) -> None:
    table = asked(engine, "t")
    worker = new_worker()
    with engine.begin() as connection:
        lock_counters(connection, [table.table_id])  # the backfill is under way
        for _ in range(3):
            assert worker.prepare(table.table_id) is None
            assert not worker.leased.must_back_off(table.table_id)
    worker.wait()
    with engine.begin() as connection:
        set_publishing(connection, table.name, ONE, TableState.ACTIVE, "operator")
    drain(worker)
    lags = "SELECT last_sequence > published_through FROM mirrorgate.table_counters"
    assert (current(engine, "t").images_complete, sql.value(engine, lags)) == (True, False)
    assert sql.value(engine, "SELECT epoch FROM mirrorgate.table_leases") == worker.leased.epoch(table.table_id) == 1


def test_a_table_dropped_while_its_backfill_waits_is_not_due_any_more(engine: sa.Engine, new_worker: NewWorker) -> None:
    busy, dropped = (asked(engine, name) for name in ("busy", "dropped"))
    worker = new_worker()
    with engine.begin() as connection:
        lock_counters(connection, [busy.table_id])
        for table in (busy, dropped):
            worker.prepare(table.table_id)
        dropping(engine, "dropped")
        assert not current(engine, "dropped").backfill_due
        worker.prepare(dropped.table_id)
    worker.wait()
    end_lease(engine, worker.context.worker_id)
    assert DrainLoop(new_worker(), worker_slots=2).drain_pending() == set()
    assert current(engine, "busy").images_complete
    assert sql.value(engine, "SELECT state FROM mirrorgate.tables WHERE name = 'dropped'") == "dropped"


def test_a_drain_that_stops_leaves_it_to_the_next(engine: sa.Engine, new_worker: NewWorker) -> None:
    table = registered(engine, "t", ID)
    stage(engine, [typed(table, [insert({"id": 1})])])
    registered(engine, "t", None, KEEP)
    with engine.begin() as connection:
        request_backfill(connection, table.name, ONE, "operator")
    stopped = new_worker()
    stopped.stop()
    stopped.prepare(table.table_id)
    with pytest.raises(DrainStopped):
        stopped.backfills.run(table.table_id)
    stopped.backfills.start(table.table_id)
    assert not stopped.wait()
    end_lease(engine, stopped.context.worker_id)
    drain(new_worker())
    with engine.begin() as connection:
        found = find_backfill(connection, table)
    assert found is not None
    assert (found.state, found.batches_done) == (BackfillState.DONE, 1)
