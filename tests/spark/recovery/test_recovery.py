"""Leftovers of a dead, paused or late worker never appear twice, out of order or with a gap."""

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from app.domain.model.table import FileNumber, TableId, TableState
from app.landing.local_zone import LocalZone
from app.staging.tables.operations import release, request_repair
from mirrorgate.errors import Code, InvariantBroken
from tests.spark.conftest import NewWorker, die_at, drain
from tests.support.gateway_parts import current, landed_keys, registered, stage_keys
from tests.support.postgres import sql
from tests.support.postgres.ledger import end_lease
from tests.support.samples.schemas import ID

ONE, TWO = f"{1:020}.parquet", f"{2:020}.parquet"


def unreadable(*_: object) -> None:
    raise OSError(errno.EIO, "input/output error")


@pytest.fixture
def staged(engine: sa.Engine) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1], [2])


def test_a_worker_that_dies_after_planning_leaves_the_plan_to_the_next(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None
) -> None:
    first = new_worker()
    assert first.prepare(current(engine, "t").table_id) is not None
    stage_keys(engine, current(engine, "t"), [3])
    end_lease(engine, first.context.worker_id)
    drain(new_worker())
    assert landed_keys(landing_zone, "t") == [[1, 2], [3]]


def test_a_file_that_is_visible_but_not_recorded_is_recorded_not_landed_again(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None
) -> None:
    first = new_worker()
    die_at("record_published", first, current(engine, "t").table_id)
    assert landed_keys(landing_zone, "t") == [[1, 2]]
    end_lease(engine, first.context.worker_id)
    stage_keys(engine, current(engine, "t"), [3])
    drain(new_worker())
    assert landed_keys(landing_zone, "t") == [[1, 2], [3]]


def test_a_file_that_mirroring_took_before_it_was_recorded_is_not_landed_again(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None
) -> None:
    first = new_worker()
    die_at("record_published", first, current(engine, "t").table_id)
    processed = landing_zone / "t" / "_ProcessedFiles"
    processed.mkdir()
    (landing_zone / "t" / ONE).rename(processed / ONE)
    end_lease(engine, first.context.worker_id)
    stage_keys(engine, current(engine, "t"), [3])
    drain(new_worker())
    assert sorted(file.name for file in (landing_zone / "t").glob("*.parquet")) == [TWO]
    assert current(engine, "t").state is TableState.ACTIVE


def test_a_worker_that_dies_between_registration_and_rename_lands_nothing_twice(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None
) -> None:
    first = new_worker()
    die_at("make_visible", first, current(engine, "t").table_id)
    end_lease(engine, first.context.worker_id)
    drain(new_worker())
    assert landed_keys(landing_zone, "t") == [[1, 2]]


def test_a_worker_that_wakes_after_another_took_over_changes_nothing_visible(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, other = new_worker(), new_worker()
    claimed = paused.prepare(current(engine, "t").table_id)
    assert claimed is not None

    publish = paused.publishing.publish

    def late(*arguments: Any) -> dict[TableId, Exception]:
        end_lease(engine, paused.context.worker_id)
        drain(other)
        return publish(*arguments)

    monkeypatch.setattr(paused, "publishing", SimpleNamespace(publish=late))
    assert paused.build_and_publish([claimed]) == set()
    assert landed_keys(landing_zone, "t") == [[1, 2]]
    assert current(engine, "t").state is TableState.ACTIVE


def test_what_a_worker_saw_before_another_took_over_quarantines_nothing(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner, paused, other = new_worker(), new_worker(), new_worker()
    table_id = current(engine, "t").table_id
    assert planner.prepare(table_id) is not None
    end_lease(engine, planner.context.worker_id)

    def late(*_: object) -> bool:
        monkeypatch.undo()
        end_lease(engine, paused.context.worker_id)
        drain(other)
        raise InvariantBroken(Code.FOREIGN_FILE, "seen long ago")

    monkeypatch.setattr("spark_jobs.steps.take_over.recover_visible_file", late)
    assert paused.prepare(table_id) is None
    assert landed_keys(landing_zone, "t") == [[1, 2]]
    assert current(engine, "t").state is TableState.ACTIVE


def test_a_store_that_fails_while_it_is_looked_at_only_delays(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = new_worker(), new_worker()
    die_at("record_published", first, current(engine, "t").table_id)
    end_lease(engine, first.context.worker_id)
    with monkeypatch.context() as patch:
        patch.setattr("app.landing.landed_state.read_identity", unreadable)
        assert second.prepare(current(engine, "t").table_id) is None
    stage_keys(engine, current(engine, "t"), [3])
    drain(second)
    assert landed_keys(landing_zone, "t") == [[1, 2], [3]]


def test_a_lost_landing_folder_quarantines_instead_of_restarting_at_1(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None
) -> None:
    worker = new_worker()
    drain(worker)
    (landing_zone / "t").rename(landing_zone / "elsewhere")
    stage_keys(engine, current(engine, "t"), [3])
    drain(worker)
    assert current(engine, "t").state is TableState.QUARANTINED
    assert not (landing_zone / "t").exists()


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_a_last_file_that_is_gone_stops_its_table_until_it_is_written_again(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None, is_taken_over: bool
) -> None:
    worker = new_worker()
    drain(worker)
    (landing_zone / "t" / ONE).unlink()
    stage_keys(engine, current(engine, "t"), [3])
    if is_taken_over:
        end_lease(engine, worker.context.worker_id)
        worker = new_worker()
    drain(worker)
    table = current(engine, "t")
    assert (table.state, landed_keys(landing_zone, "t")) == (TableState.QUARANTINED, [])
    assert sql.value(engine, "SELECT state_reason FROM mirrorgate.tables") == (
        "last_file_missing: gone from t, not moved by Fabric: 1"
    )
    with engine.begin() as connection:
        request_repair(connection, table.name, table.generation, FileNumber(1), "operator")
        release(connection, table.name, table.generation, "operator", "the file is written again")
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[1, 2], [3]]


def test_no_file_is_written_again_behind_a_gap(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None
) -> None:
    worker = new_worker()
    for key in (3, 4, 5):
        drain(worker)
        stage_keys(engine, current(engine, "t"), [key])
    for number in (2, 3):
        (landing_zone / "t" / f"{number:020}.parquet").unlink()
    drain(worker)
    assert sql.value(engine, "SELECT state_reason FROM mirrorgate.tables") == (
        "last_file_missing: gone from t, not moved by Fabric: 2, 3"
    )
    for number, content in ((3, [[1, 2]]), (2, [[1, 2], [3], [4], [5]])):
        table = current(engine, "t")
        with engine.begin() as connection:
            request_repair(connection, table.name, table.generation, FileNumber(number), "operator")
            release(connection, table.name, table.generation, "operator", "the files are written again")
        drain(worker)
        assert landed_keys(landing_zone, "t") == content
    assert current(engine, "t").state is TableState.ACTIVE


def test_no_new_file_appears_before_every_file_that_was_asked_for_is_written_again(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.drain_cycle.MAX_FILES_AHEAD", 1)
    worker = new_worker()
    for key in (3, 4):
        drain(worker)
        stage_keys(engine, current(engine, "t"), [key])
    table = current(engine, "t")
    for number in (1, 2):
        (landing_zone / "t" / f"{number:020}.parquet").unlink()
        with engine.begin() as connection:
            request_repair(connection, table.name, table.generation, FileNumber(number), "operator")
    assert worker.prepare(table.table_id) is not None
    assert landed_keys(landing_zone, "t") == [[1, 2], [3]]
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[1, 2], [3], [4]]


def test_a_corrupt_payload_quarantines_and_publishes_nothing(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None
) -> None:
    with engine.begin() as connection:
        connection.execute(
            sa.text("UPDATE mirrorgate.block_payloads SET payload = payload || '\\x00' WHERE first_sequence = 2")
        )
    drain(new_worker())
    assert current(engine, "t").state is TableState.QUARANTINED
    assert landed_keys(landing_zone, "t") == []


def test_storage_that_fails_for_a_while_only_delays(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, staged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = new_worker()
    with monkeypatch.context() as patch:
        patch.setattr(LocalZone, "rename", lambda *_: (_ for _ in ()).throw(OSError("no space")))
        drain(worker)
    assert landed_keys(landing_zone, "t") == []
    drain(worker)
    assert landed_keys(landing_zone, "t") == [[1, 2]]
    assert current(engine, "t").state is TableState.ACTIVE
