"""Rebuilding a table from its row images, through the drain and the landing folder."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import Generation, Table, TableState
from app.domain.model.table_options import TableOptions
from app.domain.model.table_schema import Column, ColumnType
from app.domain.rebuild import RebuildPhase, RebuiltColumn, UnfitRows
from app.staging.batches.sequence_lock import lock_counters
from app.staging.images import BackfillState, find_backfill, request_backfill
from app.staging.rebuild.progress import Rebuild, begin_rebuild, find_rebuild
from app.staging.tables.operations import set_publishing
from app.staging.tables.registration import evolve_table
from mirrorgate.errors import Code
from spark_jobs.background import DrainStopped
from spark_jobs.drain_cycle import DrainCycle
from spark_jobs.drain_loop import DrainLoop
from spark_jobs.rebuilding import PartOrder, PartResult, RebuildRun, copy_part
from tests.spark.conftest import NewWorker, drain
from tests.support.gateway_parts import current, dropping, folded, registered, stage, typed
from tests.support.postgres import sql
from tests.support.postgres.ledger import end_lease
from tests.support.samples.changes import delete, insert, update
from tests.support.samples.images import KEEP, stored_images
from tests.support.samples.schemas import ID, schema_of

T = TableName.parse("t")
ONE = Generation(1)
SCHEMA = schema_of({"id": "int32", "code": "string", "amount": "decimal(10,2)"}, ["id"])


def column(name: str, type_: str, source: str | None = None) -> RebuiltColumn:
    return RebuiltColumn(Column(name, ColumnType.parse(type_)), source or name)


def begin(
    engine: sa.Engine,
    columns: Sequence[RebuiltColumn] | None = None,
    key_columns: Sequence[str] | None = None,
    *,
    dry_run: bool = False,
) -> None:
    sql.call(engine, begin_rebuild, T, ONE, columns, key_columns, "operator", dry_run=dry_run)


def marked(engine: sa.Engine) -> Table:
    """Return the table with the row marker, as its first change that is not an insert needs it."""
    table = current(engine, "t")
    return sql.call(engine, evolve_table, table, replace(table.schema, bare=False), marker_first=False).table


def rebuild_of(engine: sa.Engine) -> Rebuild:
    found = sql.call(engine, find_rebuild, current(engine, "t").table_id)
    assert found is not None
    return found


def settle(engine: sa.Engine, worker: DrainCycle) -> None:
    """Drain until the rebuild has ended and all is published: a switch ends a publication that runs beside it."""
    for _ in range(10):
        drain(worker)
        lags = sql.value(engine, "SELECT last_sequence > published_through FROM mirrorgate.table_counters")
        if rebuild_of(engine).finished_at is not None and not lags:
            return
    pytest.fail("the rebuild does not end")


def files(zone: Path) -> list[list[dict[str, Any]]]:
    return [pq.read_table(path).to_pylist() for path in sorted((zone / "t").glob("*.parquet"))]


@pytest.fixture
def worker(engine: sa.Engine, new_worker: NewWorker) -> DrainCycle:
    """Give the owner of table `t`, which has published three rows, with one changed and one deleted."""
    table = registered(engine, "t", SCHEMA, TableOptions.parse({"partial_updates": "complete"}))
    rows = [insert({"id": at, "code": f"c{at}", "amount": f"{at}.50"}, at - 1) for at in (1, 2, 3, 4)]
    changes = [*rows, update(None, {"id": 2, "amount": "7"}, 4), delete({"id": 4}, 5)]
    stage(engine, [typed(table, changes)])
    worker = new_worker()
    drain(worker)
    return worker


def test_a_changed_key_lands_in_files_without_markers_under_number_one(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle
) -> None:
    begin(engine, key_columns=["code"])
    settle(engine, worker)
    table = current(engine, "t")
    assert (table.generation, table.state, table.schema.key_columns) == (2, TableState.ACTIVE, ("code",))
    [rows] = files(landing_zone)
    assert [(row["code"], str(row["amount"])) for row in rows] == [("c1", "1.50"), ("c2", "7.00"), ("c3", "3.50")]
    assert "__rowMarker__" not in rows[0]
    assert rebuild_of(engine).phase is RebuildPhase.DONE
    stage(engine, [typed(marked(engine), [update(None, {"code": "c2", "amount": "8"}, 0)])])
    drain(worker)
    assert folded(landing_zone, "t", "code")["c2",] == {"id": 2, "code": "c2", "amount": Decimal(8)}


def test_types_names_and_columns_change_and_partial_updates_go_on(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle
) -> None:
    begin(engine, [column("total", "decimal(18,4)", "amount"), column("id", "string")])
    settle(engine, worker)
    [rows] = files(landing_zone)
    assert rows == [
        {"total": Decimal("1.5000"), "id": "1"},
        {"total": Decimal("7.0000"), "id": "2"},
        {"total": Decimal("3.5000"), "id": "3"},
    ]
    changes = [update(None, {"id": "3"}, 0), delete({"id": "1"}, 1), insert({"id": "x", "total": 1}, 2)]
    stage(engine, [typed(marked(engine), changes)])
    drain(worker)
    assert folded(landing_zone, "t", "id") == {
        (key,): {"id": key, "total": Decimal(total)} for key, total in (("2", 7), ("3", "3.5"), ("x", 1))
    }


def test_changes_while_images_are_copied_land_once_after_the_copied_rows(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change_then_copy(*args: Any) -> Any:
        table = current(engine, "t")
        swapped = [
            update({"id": 1, "code": "c1"}, {"id": 1, "code": "c3"}),
            update({"id": 3}, {"code": "c1", "id": 3}, 1),
        ]
        stage(engine, [typed(table, swapped)], [typed(table, [delete({"id": 2}), insert({"id": 9, "code": "c2"}, 1)])])
        stage(engine, [typed(table, [insert({"id": 8, "code": "c8"}), delete({"id": 8}, 1)])])
        return copy_part(*args)

    monkeypatch.setattr("spark_jobs.rebuilding.copy_part", change_then_copy)
    begin(engine, key_columns=["code"])
    settle(engine, worker)
    assert {key: row["id"] for (key,), row in folded(landing_zone, "t", "code").items()} == {"c1": 3, "c2": 9, "c3": 1}
    assert [len(rows) for rows in files(landing_zone)] == [3, 3]
    stage(engine, [typed(current(engine, "t"), [update(None, {"code": "c1", "amount": 5})])])
    drain(worker)
    assert folded(landing_zone, "t", "code")["c1",] == {"id": 3, "code": "c1", "amount": Decimal(5)}


def test_rows_that_do_not_fit_leave_the_table_as_it_is(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle
) -> None:
    stage(engine, [typed(current(engine, "t"), [insert({"id": 5, "code": "c1"}), insert({"id": 6}, 1)])])
    drain(worker)
    before = files(landing_zone)
    for columns, keys, finding in (
        (None, ["code"], UnfitRows("code", Code.NULL_KEY, 1, 5)),
        ([column("id", "int32"), column("code", "int64")], None, UnfitRows("code", Code.BAD_VALUE, 4, 1)),
    ):
        begin(engine, columns, keys)
        settle(engine, worker)
        found = rebuild_of(engine)
        assert (found.phase, found.findings) == (RebuildPhase.FAILED, [finding])
    stage(engine, [typed(current(engine, "t"), [delete({"id": 6})])])
    begin(engine, key_columns=["code"])
    settle(engine, worker)
    assert [(finding.column, finding.code) for finding in rebuild_of(engine).findings] == [(None, Code.KEY_IN_USE)]
    table = current(engine, "t")
    assert (table.generation, table.state, table.rebuild_due) == (1, TableState.ACTIVE, False)
    assert files(landing_zone)[: len(before)] == before
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.row_images WHERE generation = 2") == 0


def test_a_dry_run_counts_what_does_not_fit_and_changes_nothing(engine: sa.Engine, worker: DrainCycle) -> None:
    rows: list[dict[str, Any]] = [{"id": 4}, {"id": 5, "code": "c2"}, {"id": 6, "code": "c2"}]
    stage(engine, [typed(current(engine, "t"), [insert(row, at) for at, row in enumerate(rows)])])
    whole = [column("id", "int32"), column("code", "string")]
    begin(engine, [*whole, column("amount", "decimal(2,0)")], key_columns=["code"], dry_run=True)
    settle(engine, worker)
    found = rebuild_of(engine)
    assert (found.phase, found.rows_total, found.rows_done) == (RebuildPhase.CHECKED, 6, 6)
    keys = [UnfitRows("code", Code.NULL_KEY, 1, 4), UnfitRows(None, Code.KEY_IN_USE, 2, 5)]
    assert found.findings == [UnfitRows("amount", Code.BAD_VALUE, 2, 1), *keys]
    assert found.estimated_seconds is not None
    assert (current(engine, "t").generation, current(engine, "t").rebuild_due) == (1, False)


def test_audit_columns_and_new_names_are_those_of_a_snapshot(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker
) -> None:
    options = {
        "row_images": "on",
        "audit_columns": {"operation": "op", "row_order": "at_row", "source_timestamp": "ts"},
        "rename": {"code": "sku"},
    }
    table = registered(engine, "t", SCHEMA, TableOptions.parse(options))
    stage(engine, [typed(table, [insert({"id": at, "code": f"c{at}"}, at) for at in (0, 1)])])
    worker = new_worker()
    drain(worker)
    begin(engine, [column("id", "int64"), column("label", "string", "code")])
    settle(engine, worker)
    [rows] = files(landing_zone)
    assert rows == [{"id": at, "sku": f"c{at}", "op": "snapshot", "ts": None, "at_row": 2**32 + at} for at in (0, 1)]


def test_a_filter_decides_about_copied_rows_and_about_changes_while_they_are_copied(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    condition = {"column": "amount", "op": ">=", "value": "10"}
    options = TableOptions.parse({"partial_updates": "complete", "filter": condition})
    table = registered(engine, "t", SCHEMA, options)
    rows = {1: 5, 2: 20, 3: 30, 4: 6, 5: 7}
    inserts = [insert({"id": key, "code": f"c{key}", "amount": amount}, key - 1) for key, amount in rows.items()]
    stage(engine, [typed(table, inserts)])
    worker = new_worker()
    drain(worker)
    monkeypatch.setattr("spark_jobs.rebuilding.ROWS_PER_PART", 3)

    def change_then_run(run: RebuildRun, orders: Sequence[PartOrder]) -> list[PartResult]:
        changes = [update(None, {"id": 1, "amount": 11}), update(None, {"id": 2, "amount": 2}, 1)]
        stage(engine, [typed(marked(engine), changes)])
        return [copy_part(run.builder.config, order) for order in orders]

    monkeypatch.setattr(RebuildRun, "_run_tasks", change_then_run)
    begin(engine, [column("sum", "int64", "amount"), column("id", "int32"), column("code", "string")], ["code"])
    settle(engine, worker)
    assert folded(landing_zone, "t", "code") == {
        ("c1",): {"sum": 11, "id": 1, "code": "c1"},
        ("c3",): {"sum": 30, "id": 3, "code": "c3"},
    }
    stage(engine, [typed(current(engine, "t"), [update(None, {"code": "c4", "sum": 12})])])
    drain(worker)
    assert folded(landing_zone, "t", "code")["c4",] == {"sum": 12, "id": 4, "code": "c4"}


def test_deleted_rows_that_are_flagged_are_rebuilt_and_stay_flagged(
    engine: sa.Engine, landing_zone: Path, new_worker: NewWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = {"deletes": "flag", "row_images": "on", "audit_columns": {"deleted": "gone"}}
    table = registered(engine, "t", SCHEMA, TableOptions.parse(flag))
    rows = [insert({"id": at, "code": f"c{at}"}, at) for at in (0, 1, 2)]
    stage(engine, [typed(table, [*rows, delete({"id": 1}, 3)])])
    worker = new_worker()
    drain(worker)

    def delete_then_copy(*args: Any) -> Any:
        stage(engine, [typed(table, [delete({"id": 2})])])
        return copy_part(*args)

    monkeypatch.setattr("spark_jobs.rebuilding.copy_part", delete_then_copy)
    begin(engine, [column("code", "string"), column("number", "int64", "id")], ["number"])
    settle(engine, worker)
    expected = {(at,): {"code": f"c{at}", "number": at, "gone": at > 0} for at in (0, 1, 2)}
    assert folded(landing_zone, "t", "number") == expected
    stage(engine, [typed(current(engine, "t"), [insert({"number": 1, "code": "new"}), delete({"number": 2}, 1)])])
    drain(worker)
    assert folded(landing_zone, "t", "number") == expected | {(1,): {"code": "new", "number": 1, "gone": False}}


def test_many_parts_are_copied_by_spark_tasks(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.rebuilding.ROWS_PER_PART", 2)
    monkeypatch.setattr("spark_jobs.rebuilding.PARTS_PER_TASK", 1)
    rows = [insert({"id": 10 + at, "code": f"x{at}"}, at) for at in range(9)]
    stage(engine, [typed(current(engine, "t"), rows)])
    begin(engine, key_columns=["code"])
    settle(engine, worker)
    assert len(folded(landing_zone, "t", "code")) == 12
    assert sql.value(engine, "SELECT max(last_sequence) FROM mirrorgate.staged_blocks WHERE generation = 2") == 6


def test_a_quarantined_table_without_its_folder_is_whole_after_a_rebuild(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle
) -> None:
    shutil.rmtree(landing_zone / "t")
    stage(engine, [typed(current(engine, "t"), [insert({"id": 5, "code": "c5"})])])
    drain(worker)
    assert current(engine, "t").state is TableState.QUARANTINED
    begin(engine)
    settle(engine, worker)
    assert sorted(key for (key,) in folded(landing_zone, "t", "id")) == [1, 2, 3, 5]


def test_a_paused_table_is_paused_after_a_rebuild_until_it_is_resumed(
    engine: sa.Engine, landing_zone: Path, worker: DrainCycle
) -> None:
    sql.call(engine, set_publishing, T, ONE, TableState.PAUSED, "operator")
    begin(engine, key_columns=["code"])
    for _ in range(3):
        drain(worker)
    table = current(engine, "t")
    assert (table.generation, table.state, rebuild_of(engine).phase) == (2, TableState.PAUSED, RebuildPhase.DONE)
    assert files(landing_zone) == []
    sql.call(engine, set_publishing, T, table.generation, TableState.ACTIVE, "operator")
    settle(engine, worker)
    assert sorted(key for (key,) in folded(landing_zone, "t", "code")) == ["c1", "c2", "c3"]


STEPS = {
    "before the attempt": "spark_jobs.rebuilding.start_attempt",
    "before the copies": "spark_jobs.rebuilding.image_snapshot",
    "between copies and switch": "spark_jobs.rebuilding.switch_generation",
    "before the old folder is gone": "spark_jobs.steps.dropping.remove_table_folder",
    "before the end of the drop": "spark_jobs.steps.dropping.finish_drop",
}


@pytest.mark.parametrize("step", STEPS)
def test_a_drain_that_dies_at_a_step_leaves_the_rest_to_the_next(
    engine: sa.Engine,
    landing_zone: Path,
    new_worker: NewWorker,
    worker: DrainCycle,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    begin(engine, key_columns=["code"])
    with monkeypatch.context() as patch:
        patch.setattr(STEPS[step], lambda *_, **__: (_ for _ in ()).throw(OSError("died")))
        patch.setattr("spark_jobs.background.RETRY_SECONDS", 0)
        drain(worker)
    end_lease(engine, worker.context.worker_id)
    table = current(engine, "t")
    if table.generation == 1:
        stage(engine, [typed(table, [update(None, {"id": 3, "amount": 9})])])
    settle(engine, new_worker())
    assert sorted(key for (key,) in folded(landing_zone, "t", "code")) == ["c1", "c2", "c3"]
    assert current(engine, "t").state is TableState.ACTIVE


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
    sql.call(engine, set_publishing, table.name, ONE, TableState.ACTIVE, "operator")
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
    sql.call(engine, request_backfill, table.name, ONE, "operator")
    stopped = new_worker()
    stopped.stop()
    stopped.prepare(table.table_id)
    with pytest.raises(DrainStopped):
        stopped.backfills.run(table.table_id)
    stopped.backfills.start(table.table_id)
    assert not stopped.wait()
    end_lease(engine, stopped.context.worker_id)
    drain(new_worker())
    found = sql.call(engine, find_backfill, table)
    assert found is not None
    assert (found.state, found.batches_done) == (BackfillState.DONE, 1)
