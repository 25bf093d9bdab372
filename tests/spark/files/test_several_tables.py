"""Several tables share the transactions that plan, register and record; a failure stays with its table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.domain.model.landing_file import BuiltFile
from app.domain.model.names import TableName
from app.domain.model.table import Epoch, FileNumber, Generation, TableId, TableState
from app.landing.publish import make_visible
from app.landing.zone import LandingZone
from app.staging.ledger import planning as file_plans
from app.staging.tables.operations import request_repair, set_publishing
from mirrorgate.errors import Code, TemporarilyUnavailable
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.steps.publishing import ClaimedTable, Publishing
from tests.spark.conftest import NewWorker, drain
from tests.support.gateway_parts import current, dropping, landed_keys, registered, stage_keys
from tests.support.postgres import sql
from tests.support.samples.schemas import ID

NAMES = ("a", "b", "c", "d")
RECORD = "UPDATE mirrorgate.landing_files f SET state"
REGISTER = "UPDATE mirrorgate.landing_files f\n    SET nominated"
PLAN = "SELECT c.table_id, f.number"


@pytest.fixture
def tables(engine: sa.Engine) -> list[TableId]:
    """Four tables, one pending batch each."""
    found = [registered(engine, name, ID) for name in NAMES]
    for table in found:
        stage_keys(engine, table, [1])
    return [table.table_id for table in found]


@pytest.fixture
def worker(new_worker: NewWorker, tables: list[TableId]) -> DrainCycle:
    """Give a worker that holds the four tables and has published the first file of each."""
    worker = new_worker()
    drain(worker)
    return worker


def more(engine: sa.Engine, *keys: int) -> None:
    for name in NAMES:
        stage_keys(engine, current(engine, name), *([key] for key in keys))


def prepared(worker: DrainCycle, tables: Sequence[TableId]) -> list[ClaimedTable]:
    claimed, alone = worker.prepare_leased(tables)
    assert alone == []
    return claimed


@contextmanager
def held_counter(engine: sa.Engine, table_id: TableId) -> Iterator[None]:
    """Give an ingest transaction that has the table's sequence lock and does not end."""
    with engine.connect() as connection:
        connection.execute(
            sa.text("SELECT FROM mirrorgate.table_counters WHERE table_id = :id FOR UPDATE"), {"id": table_id}
        )
        yield
        connection.rollback()


def test_one_transaction_plans_one_registers_and_one_records_a_file_of_each_table(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle, tables: list[TableId]
) -> None:
    more(engine, 2)
    with (
        sql.counted(worker.context.engine, PLAN) as plans,
        sql.counted(worker.context.engine, REGISTER) as registrations,
        sql.counted(worker.context.engine, RECORD) as records,
    ):
        worker.build_and_publish(prepared(worker, tables))
    assert (len(plans), len(registrations), len(records)) == (1, 1, 1)
    assert [landed_keys(landing_zone, name) for name in NAMES] == [[[1], [2]]] * 4


def test_a_table_that_another_worker_took_over_does_not_keep_the_others_back(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle, tables: list[TableId]
) -> None:
    more(engine, 2)
    claimed = prepared(worker, tables)
    sql.run(engine, "UPDATE mirrorgate.table_leases SET epoch = epoch + 1 WHERE table_id = :id", id=tables[1])
    assert worker.build_and_publish(claimed) == {tables[0], tables[2], tables[3]}
    assert landed_keys(landing_zone, "b") == [[1]]
    assert [landed_keys(landing_zone, name) for name in ("a", "c", "d")] == [[[1], [2]]] * 3


def test_a_table_whose_sequence_lock_is_held_does_not_keep_the_others_back(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle, tables: list[TableId]
) -> None:
    more(engine, 2)
    claimed = prepared(worker, tables)
    with held_counter(engine, tables[2]):
        assert worker.build_and_publish(claimed) == {tables[0], tables[1], tables[3]}
    drain(worker)
    assert [landed_keys(landing_zone, name) for name in NAMES] == [[[1], [2]]] * 4


def test_a_file_that_cannot_be_renamed_or_was_not_built_keeps_no_other_back(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle, tables: list[TableId], monkeypatch: pytest.MonkeyPatch
) -> None:
    more(engine, 2)
    claimed = prepared(worker, tables)
    visible = make_visible

    def fails_for_b(zone: LandingZone, name: TableName, built: BuiltFile) -> None:
        if str(name) == "b":
            raise OSError("the disk is gone")
        visible(zone, name, built)

    monkeypatch.setattr("spark_jobs.steps.publishing.make_visible", fails_for_b)
    sql.run(engine, "UPDATE mirrorgate.block_payloads SET payload = 'x' WHERE table_id = :id", id=tables[2])
    assert worker.build_and_publish(claimed) == {tables[0], tables[3]}
    assert [landed_keys(landing_zone, name) for name in NAMES] == [[[1], [2]], [[1]], [[1]], [[1], [2]]]
    assert current(engine, "c").state is TableState.QUARANTINED
    assert current(engine, "b").state is TableState.ACTIVE


def test_an_answer_to_a_commit_that_was_lost_costs_nothing(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle, tables: list[TableId], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps are done, and done again for each table."""
    more(engine, 2)
    claimed = prepared(worker, tables)
    epochs = worker.leased.epochs(tables)
    for step in ("_register_builds", "_record"):
        original = getattr(Publishing, step)

        def lost(self: Publishing, files: Sequence[BuiltFile], original: Any = original) -> Any:
            answer = original(self, files)
            if len(files) > 1:
                raise TemporarilyUnavailable(Code.DATABASE_UNAVAILABLE, "Postgres does not answer")
            return answer

        monkeypatch.setattr(Publishing, step, lost)
    assert worker.build_and_publish(claimed) == set(tables)
    assert worker.leased.epochs(tables) == epochs
    assert [landed_keys(landing_zone, name) for name in NAMES] == [[[1], [2]]] * 4


def test_tables_that_need_more_than_a_plan_are_left_to_be_prepared_alone(
    engine: sa.Engine, worker: DrainCycle, tables: list[TableId], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One to be dropped, one with a file to repair, and one with a longer backlog than is planned together."""
    more(engine, 2)
    stage_keys(engine, current(engine, "c"), [3], [4])
    monkeypatch.setattr(file_plans, "MAX_BLOCKS", 6)
    dropping(engine, "a")
    sql.call(engine, request_repair, current(engine, "b").name, Generation(1), FileNumber(1), "test")
    claimed, alone = worker.prepare_leased(tables)
    assert [entry.table_id for entry in claimed] == [tables[3]]
    assert alone == tables[:3]


def test_a_paused_table_is_not_planned(engine: sa.Engine, worker: DrainCycle, tables: list[TableId]) -> None:
    more(engine, 2)
    sql.call(engine, set_publishing, current(engine, "a").name, Generation(1), TableState.PAUSED, "test")
    claimed, _ = worker.prepare_leased(tables)
    assert [entry.table_id for entry in claimed] == tables[1:]


def test_an_epoch_that_is_over_plans_nothing_for_any_table_of_its_transaction(
    engine: sa.Engine, worker: DrainCycle, tables: list[TableId]
) -> None:
    more(engine, 2)
    epoch = worker.leased.epoch(tables[1])
    assert epoch is not None
    worker.leased.add(tables[1], Epoch(epoch + 1))
    assert worker.prepare_leased(tables) == ([], tables)
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.landing_files WHERE state = 'planned'") == 0
