"""Dropping, recreating, renaming and repairing, through the drain and the landing folder."""

import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan, FileNumber, Generation, TableState
from app.domain.model.table_options import TableOptions
from app.landing.local_zone import LocalZone
from app.staging.tables.operations import begin_drop, request_flush, request_repair, set_publishing
from app.staging.tables.registration import register_table
from mirrorgate.errors import Code, RejectedInput
from spark_jobs.drain_cycle import DrainCycle
from tests.spark.conftest import NewWorker, drain
from tests.support.gateway_parts import current, dropping, landed_keys, registered, stage, stage_keys, typed
from tests.support.postgres import sql
from tests.support.postgres.ledger import end_lease
from tests.support.samples.changes import insert, update
from tests.support.samples.schemas import ID, schema_of

T = TableName.parse("t")
ONE = Generation(1)


def test_a_dropped_tables_folder_is_gone_and_others_stay(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle
) -> None:
    stage_keys(engine, registered(engine, "other", ID), [5])
    stage_keys(engine, current(engine, "t"), [3])
    dropping(engine, "t")
    drain(worker)
    assert not (landing_zone / "t").exists()
    assert landed_keys(landing_zone, "other") == [[5]]
    details = "SELECT (details ->> 'discarded_rows')::int FROM mirrorgate.table_events WHERE action = 'drop done'"
    assert sql.value(engine, details) == 1


def test_a_recreated_table_lands_from_file_one_and_nothing_of_before(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle
) -> None:
    stage_keys(engine, current(engine, "t"), [3])
    dropping(engine, "t", DropAction.RECREATE)
    drain(worker)
    stage_keys(engine, current(engine, "t"), [7], [8])
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[7, 8]]


def test_a_renamed_table_with_row_images_lands_whole_under_its_new_name(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    with engine.begin() as connection:
        schema = schema_of({"id": "int64", "note": "string"}, ["id"])
        table = register_table(connection, T, schema, TableOptions.parse({"partial_updates": "complete"})).table
    changes = [insert({"id": 1, "note": "a"}), insert({"id": 2, "note": "b"}, 1), update({"id": 1}, {"id": 3}, 2)]
    stage(engine, [typed(table, changes)])
    worker = new_worker()
    drain(worker)
    dropping(engine, "t", DropAction.RENAME, new_name="other.name")
    drain(worker)
    assert landed_keys(landing_zone, "other.name") == [[2, 3]]
    assert not (landing_zone / "t").exists()


@pytest.mark.parametrize("new_name", [None, "other"], ids=["dropped", "renamed"])
def test_a_later_table_of_the_name_is_not_hit_by_a_repeated_operation(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle, new_name: str | None
) -> None:
    action = DropAction.RENAME if new_name else DropAction.DROP
    dropping(engine, "t", action, new_name=new_name)
    drain(worker)
    later = registered(engine, "t", ID)
    stage_keys(engine, later, [3])
    with engine.begin() as connection, pytest.raises(RejectedInput) as error:
        begin_drop(connection, T, ONE, DropPlan(action, new_name=TableName.parse("third")), "test")
    assert error.value.code is Code.GENERATION_MISMATCH
    drain(worker)
    assert (later.generation, landed_keys(landing_zone, "t")) == (2, [[3]])


def test_an_owner_that_was_building_when_the_drop_began_makes_nothing_visible(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, worker: DrainCycle
) -> None:
    other = new_worker()
    stage_keys(engine, current(engine, "t"), [3])
    claimed = worker.prepare(current(engine, "t").table_id)
    assert claimed is not None
    dropping(engine, "t", DropAction.RECREATE)
    end_lease(engine, worker.context.worker_id)
    drain(other)
    assert worker.build_and_publish([claimed]) == set()
    assert landed_keys(landing_zone, "t") == []
    assert (current(engine, "t").generation, current(engine, "t").state) == (2, TableState.ACTIVE)


def test_a_worker_that_dies_after_deleting_the_folder_leaves_the_rest_to_the_next(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, worker: DrainCycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropping(engine, "t")
    with monkeypatch.context() as patch:
        patch.setattr("spark_jobs.steps.dropping.finish_drop", lambda *_, **__: (_ for _ in ()).throw(OSError("died")))
        assert worker.prepare(current(engine, "t").table_id) is None
    assert not (landing_zone / "t").exists()
    assert current(engine, "t").state is TableState.DROPPING
    end_lease(engine, worker.context.worker_id)
    drain(new_worker())
    assert sql.value(engine, "SELECT state FROM mirrorgate.tables") == "dropped"


def test_a_folder_in_use_is_tried_again_and_the_state_says_so(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, worker: DrainCycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def in_use(*_: object) -> None:
        raise PermissionError("in use")

    dropping(engine, "t")
    with monkeypatch.context() as patch:
        patch.setattr(LocalZone, "remove_folder", in_use)
        assert worker.prepare(current(engine, "t").table_id) is None
    reason = sql.value(engine, "SELECT state_reason FROM mirrorgate.tables")
    assert reason == "storage_failed: in use; the drain retries"
    assert landed_keys(landing_zone, "t") == [[1, 2]]
    drain(worker)
    assert not (landing_zone / "t").exists()


def test_a_folder_that_is_anothers_is_not_deleted(engine: sa.Engine, landing_zone: Path, worker: DrainCycle) -> None:
    (landing_zone / "t" / "_gateway.json").write_text("{}")
    dropping(engine, "t")
    assert worker.prepare(current(engine, "t").table_id) is None
    assert landed_keys(landing_zone, "t") == [[1, 2]]
    reason = sql.value(engine, "SELECT state_reason FROM mirrorgate.tables")
    assert reason.startswith("landing_folder_lost: ")


@pytest.mark.parametrize("damage", ["empty", "deleted", "other"])
def test_a_repaired_file_has_its_rows_again_and_the_others_stay(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle, damage: str
) -> None:
    stage_keys(engine, current(engine, "t"), [3])
    drain(worker)
    first, second = (landing_zone / "t" / f"{number:020d}.parquet" for number in (1, 2))
    if damage == "empty":
        first.write_bytes(b"")
    elif damage == "deleted":
        first.unlink()
    else:
        shutil.copy(second, first)
    sql.call(engine, request_repair, T, ONE, FileNumber(1), "operator")
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[1, 2], [3]]
    assert not sql.value(engine, "SELECT bool_or(repair_requested) FROM mirrorgate.landing_files")


def test_a_flush_publishes_before_the_delay_and_a_pause_keeps_back(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1])
    worker = new_worker(delay_seconds=3600)
    drain(worker)
    assert landed_keys(landing_zone, "t") == []
    with engine.begin() as connection:
        request_flush(connection, T, ONE, "operator")
        set_publishing(connection, T, ONE, TableState.PAUSED, "operator")
    drain(worker)
    assert landed_keys(landing_zone, "t") == []
    sql.call(engine, set_publishing, T, ONE, TableState.ACTIVE, "operator")
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[1]]
