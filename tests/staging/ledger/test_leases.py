"""Leases: one live owner per table, and a new epoch with each claim."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from app.domain.model.table import Epoch, Table, TableId
from app.domain.publication import FileLimits
from app.staging.ledger.leases import check_epoch, claim_table, due_tables, give_up_lease, live_workers, renew_lease
from app.staging.tables.operations import request_flush
from mirrorgate.errors import Code, InvariantBroken
from tests.support.gateway_parts import dropping, registered, stage_keys
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, claim, end_lease, owned_table, plan, publish
from tests.support.samples.schemas import schema_of
from tests.support.waiting import wait_until

NOW = FileLimits(payload_bytes=2**30, rows=2**30, max_delay_seconds=0)
PATIENT = FileLimits(payload_bytes=2**30, rows=3, max_delay_seconds=3600)


def due(engine: sa.Engine, worker: UUID, limits: FileLimits = NOW) -> list[TableId]:
    return sql.call(engine, due_tables, worker, limits)


def is_current(engine: sa.Engine, owned: Owned) -> bool:
    with engine.begin() as connection:
        try:
            check_epoch(connection, owned.table.table_id, owned.epoch)
        except InvariantBroken as error:
            assert error.code == Code.STALE_EPOCH
            return False
    return True


def test_the_first_claim_begins_epoch_one(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    assert owned.epoch == 1
    assert is_current(engine, owned)


def test_a_held_epoch_is_kept_and_a_forgotten_one_is_replaced(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    assert claim(engine, owned.table.table_id, owned.worker, held=owned.epoch) == 1
    assert claim(engine, owned.table.table_id, owned.worker) == 2
    assert claim(engine, owned.table.table_id, owned.worker, held=owned.epoch) == 3
    assert not is_current(engine, owned)


def test_a_table_of_a_living_worker_is_not_taken(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    assert claim(engine, owned.table.table_id, uuid4()) is None
    assert is_current(engine, owned)


def test_a_table_is_taken_over_once_its_worker_has_stopped_renewing(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    end_lease(engine, owned.worker)
    assert claim(engine, owned.table.table_id, uuid4()) == 2
    assert not is_current(engine, owned)


def test_a_worker_that_wakes_after_a_takeover_neither_keeps_nor_retakes_its_table(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    end_lease(engine, owned.worker)
    claim(engine, owned.table.table_id, uuid4())
    assert claim(engine, owned.table.table_id, owned.worker, held=owned.epoch) is None


def test_a_worker_that_wakes_before_a_takeover_keeps_its_epoch(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    end_lease(engine, owned.worker)
    assert claim(engine, owned.table.table_id, owned.worker, held=owned.epoch) == owned.epoch


def test_a_worker_that_gives_up_leaves_its_tables_at_once(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    sql.call(engine, give_up_lease, owned.worker)
    assert claim(engine, owned.table.table_id, uuid4()) == 2


def test_of_workers_that_claim_at_once_one_gets_the_table(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    end_lease(engine, owned.worker)
    together = Barrier(4)
    workers = [uuid4() for _ in range(4)]
    with engine.begin() as connection:
        for worker in workers:
            renew_lease(connection, worker, 60)

    def take(worker: UUID) -> Epoch | None:
        together.wait(timeout=30)
        return sql.call(engine, claim_table, owned.table.table_id, worker, held=None)

    with ThreadPoolExecutor(4) as threads:
        epochs = list(threads.map(take, workers))
    assert sorted(epochs, key=str) == [2, None, None, None]


def test_a_claim_that_waited_for_another_one_sees_that_its_worker_lives(engine: sa.Engine) -> None:
    owned, other = owned_table(engine), uuid4()
    end_lease(engine, owned.worker)
    with ThreadPoolExecutor(1) as thread:
        with engine.begin() as connection:
            renew_lease(connection, other, 60)
            assert claim_table(connection, owned.table.table_id, other, held=None) == 2
            late = thread.submit(claim, engine, owned.table.table_id, uuid4())
            wait_until(lambda: sql.lock_waits(engine) == 1, within=30, what="the late claim waits")
        assert late.result(timeout=30) is None


def test_only_workers_with_a_running_lease_are_live(engine: sa.Engine) -> None:
    one, other = uuid4(), uuid4()
    with engine.begin() as connection:
        assert live_workers(connection) == 0
        renew_lease(connection, one, 60)
        renew_lease(connection, other, 60)
        renew_lease(connection, other, 60)
        assert live_workers(connection) == 2
    end_lease(engine, one)
    assert sql.call(engine, live_workers) == 1


def test_workers_that_died_long_ago_are_forgotten(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        for worker in (uuid4(), uuid4()):
            renew_lease(connection, worker, 60)
    sql.run(engine, "UPDATE mirrorgate.workers SET lease_until = now() - interval '2 days'")
    sql.call(engine, give_up_lease, uuid4())
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.workers") == 0


def test_a_table_is_due_when_its_oldest_block_is_old_enough_or_a_file_is_full(engine: sa.Engine, table: Table) -> None:
    worker = uuid4()
    assert due(engine, worker) == []
    stage_keys(engine, table, [1, 2])
    assert due(engine, worker) == [table.table_id]
    assert due(engine, worker, PATIENT) == []
    stage_keys(engine, table, [3])
    assert due(engine, worker, PATIENT) == [table.table_id]


def test_many_small_payloads_that_fill_a_file_make_a_table_due(engine: sa.Engine, table: Table) -> None:
    stage_keys(engine, table, [1], [2], [3])
    size = sql.value(engine, "SELECT sum(payload_bytes) FROM mirrorgate.staged_blocks")
    assert due(engine, uuid4(), FileLimits(int(size), 2**30, 3600)) == [table.table_id]
    assert due(engine, uuid4(), FileLimits(int(size) + 1, 2**30, 3600)) == []


def test_a_published_table_is_no_longer_due(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2])
    one, two = plan(engine, owned)
    publish(engine, owned, one)
    assert due(engine, owned.worker) == [owned.table.table_id]
    publish(engine, owned, two)
    assert due(engine, owned.worker) == []


def test_a_table_is_due_for_its_owner_and_for_others_only_when_the_owner_is_gone(engine: sa.Engine) -> None:
    owned, other = owned_table(engine, [1]), uuid4()
    assert due(engine, owned.worker) == [owned.table.table_id]
    assert due(engine, other) == []
    end_lease(engine, owned.worker)
    assert due(engine, other) == [owned.table.table_id]


@pytest.mark.parametrize("state", ["paused", "quarantined", "dropped"])
def test_only_active_tables_are_due(engine: sa.Engine, state: str) -> None:
    owned = owned_table(engine, [1])
    sql.run(engine, "UPDATE mirrorgate.tables SET state = :state", state=state)
    assert due(engine, owned.worker) == []


def test_a_table_that_is_being_dropped_is_due_without_anything_pending(engine: sa.Engine, table: Table) -> None:
    assert due(engine, uuid4()) == []
    dropping(engine, "t")
    assert due(engine, uuid4()) == [table.table_id]


def test_a_flushed_table_is_due_before_its_delay(engine: sa.Engine, table: Table) -> None:
    stage_keys(engine, table, [1])
    assert due(engine, uuid4(), PATIENT) == []
    sql.call(engine, request_flush, table.name, table.generation, "test")
    assert due(engine, uuid4(), PATIENT) == [table.table_id]


def test_the_table_that_waits_longest_is_due_first_and_a_rebuild_last(engine: sa.Engine) -> None:
    tables = [registered(engine, name, schema_of({"id": "int64"})) for name in "abc"]
    for table in (tables[1], tables[2], tables[0]):
        stage_keys(engine, table, [1])
    ids = [table.table_id for table in tables]
    assert due(engine, uuid4()) == [ids[1], ids[2], ids[0]]
    sql.run(engine, "UPDATE mirrorgate.tables SET rebuild_due = true WHERE table_id = :id", id=ids[1])
    assert due(engine, uuid4()) == [ids[2], ids[0], ids[1]]
