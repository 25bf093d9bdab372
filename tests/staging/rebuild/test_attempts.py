"""An attempt to rebuild a table that another one has replaced changes nothing any more."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import Generation, TableId
from app.domain.model.table_options import InitialLoad, InsertMarker
from app.domain.rebuild import RebuildPhase
from app.staging.rebuild.copies import image_snapshot, parts_of, read_part, require_parts
from app.staging.rebuild.progress import (
    AttemptIsOver,
    Rebuild,
    begin_rebuild,
    count_touched,
    fail_rebuild,
    find_rebuild,
    note_detail,
    start_attempt,
)
from spark_jobs.rebuilding import PartOrder, PartResult, RebuildRun, copy_part
from tests.staging.batches.test_dead_letters import discard, store
from tests.support.gateway_parts import current, registered, stage, typed
from tests.support.postgres import sql
from tests.support.postgres.dead_letters import waiting
from tests.support.postgres.retention import WEEK, purge
from tests.support.samples.changes import insert, update
from tests.support.samples.images import KEEP
from tests.support.samples.schemas import schema_of
from tests.support.small_drain import open_small_cycle

SCHEMA = schema_of({"id": "int32", "code": "string"}, ["id"])
BLOCKS = (
    "SELECT first_sequence, schema_version, row_count FROM mirrorgate.staged_blocks WHERE generation = 2 ORDER BY 1"
)
IMAGES = "SELECT count(*) FROM mirrorgate.row_images WHERE generation = 2"


@pytest.fixture
def run(engine: sa.Engine, database_url: str, tmp_path: Path) -> Iterator[RebuildRun]:
    """Give the rebuilds of a drain for table `t`, which has three rows and is to be rebuilt with the key `code`."""
    table = registered(engine, "t", SCHEMA, KEEP)
    stage(engine, [typed(table, [insert({"id": at, "code": f"c{at}"}, at) for at in range(3)])])
    sql.call(engine, begin_rebuild, TableName.parse("t"), Generation(1), None, ["code"], "operator", dry_run=False)
    drain = open_small_cycle(database_url, tmp_path, rows=40)
    yield RebuildRun(drain.context, drain.builder, lambda: False)
    drain.context.engine.dispose()


def attempt(engine: sa.Engine) -> Rebuild:
    return sql.call(engine, start_attempt, table_id(engine))


def table_id(engine: sa.Engine) -> TableId:
    return current(engine, "t").table_id


def change(engine: sa.Engine) -> None:
    stage(engine, [typed(current(engine, "t"), [update(None, {"id": 1, "code": "changed"})])])


def test_the_failure_of_a_replaced_attempt_leaves_the_generation_that_another_one_made(
    engine: sa.Engine, run: RebuildRun
) -> None:
    replaced = attempt(engine)
    run.run(table_id(engine))
    assert current(engine, "t").generation == 2
    sql.call(engine, fail_rebuild, replaced, [], "the table has changed")
    assert (sql.rows(engine, BLOCKS), sql.value(engine, IMAGES)) == ([(1, 1, 3)], 3)


def test_a_replaced_attempt_corrects_nothing_before_the_parts_of_the_present_one(
    engine: sa.Engine, run: RebuildRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced_then_counted(connection: sa.Connection, table: TableId) -> int:
        change(engine)
        attempt(engine)
        return count_touched(connection, table)

    monkeypatch.setattr("spark_jobs.rebuilding.count_touched", replaced_then_counted)
    monkeypatch.setattr("spark_jobs.rebuilding.MAX_LAST_CORRECTIONS", 0)
    with pytest.raises(AttemptIsOver):
        run.run(table_id(engine))
    assert (sql.rows(engine, BLOCKS), sql.value(engine, IMAGES)) == ([], 0)
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.rebuild_touched") == 1


def test_a_replaced_attempt_takes_no_snapshot_and_forgets_no_changed_row(engine: sa.Engine, run: RebuildRun) -> None:
    replaced, present = attempt(engine), attempt(engine)
    with image_snapshot(engine, present):
        change(engine)
        with pytest.raises(AttemptIsOver), image_snapshot(engine, replaced):
            pytest.fail("a replaced attempt takes no snapshot")
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.rebuild_touched") == 1


def test_a_rebuild_that_succeeds_keeps_no_error_of_an_earlier_attempt(engine: sa.Engine, run: RebuildRun) -> None:
    failed = attempt(engine)
    sql.call(engine, note_detail, failed, "worker lost; tried again")
    run.run(table_id(engine))
    found = sql.call(engine, find_rebuild, table_id(engine))
    assert (found.phase, found.detail) == (RebuildPhase.REPLACING, None)


def test_registering_a_rebuilt_table_again_changes_nothing(engine: sa.Engine, run: RebuildRun) -> None:
    run.run(table_id(engine))
    rebuilt = current(engine, "t")
    assert (rebuilt.schema.bare, rebuilt.options.initial_load) == (True, InitialLoad.WITH_MARKER)
    assert registered(engine, "t", schema_of({"id": "int32", "code": "string"}, ["code"])) == rebuilt
    upserts = replace(rebuilt.options, insert_marker=InsertMarker.UPSERT)
    assert not registered(engine, "t", rebuilt.schema, upserts).schema.bare


def test_a_table_that_changed_while_it_was_copied_fails_its_rebuild_with_the_reason(
    engine: sa.Engine, run: RebuildRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def registered_then_counted(connection: sa.Connection, table: TableId) -> int:
        registered(engine, "t", schema_of({"id": "int32", "code": "string", "late": "string"}, ["id"]))
        return count_touched(connection, table)

    monkeypatch.setattr("spark_jobs.rebuilding.count_touched", registered_then_counted)
    run.run(table_id(engine))
    found = sql.call(engine, find_rebuild, table_id(engine))
    assert (found.phase, current(engine, "t").generation) == (RebuildPhase.FAILED, 1)
    assert "changed meanwhile" in found.detail


def test_dead_letters_that_wait_can_be_replayed_after_a_rebuild(engine: sa.Engine, run: RebuildRun) -> None:
    waits, discarded = store(engine, current(engine, "t"), 2)
    discard(engine, current(engine, "t"), discarded, discarded)
    run.run(table_id(engine))
    purge(engine, WEEK)
    assert [(letter.letter_id, letter.generation) for letter in waiting(engine)] == [(waits, 2)]


def test_corrections_do_not_count_as_parts(engine: sa.Engine, run: RebuildRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed_then_counted(connection: sa.Connection, table: TableId) -> int:
        if not sql.value(engine, "SELECT count(*) FROM mirrorgate.rebuild_touched"):
            change(engine)
        return count_touched(connection, table)

    monkeypatch.setattr("spark_jobs.rebuilding.count_touched", changed_then_counted)
    run.run(table_id(engine))
    assert sql.rows(engine, BLOCKS) == [(1, 1, 3), (2, 2, 2)]
    with engine.begin() as connection:
        rebuild = find_rebuild(connection, table_id(engine))
        require_parts(connection, rebuild, 1)
        with pytest.raises(AttemptIsOver):
            require_parts(connection, rebuild, 2)


@pytest.mark.parametrize("corrects", [True, False], ids=["before a correction", "before the switch"])
def test_an_attempt_is_over_if_postgres_has_lost_one_of_its_parts(
    engine: sa.Engine, run: RebuildRun, monkeypatch: pytest.MonkeyPatch, *, corrects: bool
) -> None:
    def lost_then_counted(connection: sa.Connection, table: TableId) -> int:
        sql.run(engine, "DELETE FROM mirrorgate.block_payloads WHERE generation = 2")
        sql.run(engine, "DELETE FROM mirrorgate.staged_blocks WHERE generation = 2 AND first_sequence = 2")
        if corrects:
            change(engine)
        return count_touched(connection, table)

    monkeypatch.setattr("spark_jobs.rebuilding.count_touched", lost_then_counted)
    monkeypatch.setattr("spark_jobs.rebuilding.MAX_LAST_CORRECTIONS", 0)
    monkeypatch.setattr("spark_jobs.rebuilding.ROWS_PER_PART", 2)

    def copy_all(run: RebuildRun, orders: Sequence[PartOrder]) -> list[PartResult]:
        return [copy_part(run.builder.config, order) for order in orders]

    monkeypatch.setattr(RebuildRun, "_run_tasks", copy_all)
    with pytest.raises(AttemptIsOver):
        run.run(table_id(engine))
    assert current(engine, "t").generation == 1
    assert sql.rows(engine, BLOCKS) == [(1, 1, 2)]


@pytest.mark.parametrize(("most_bytes", "size"), [(10**6, 2), (20, 5)], ids=["rows", "long images"])
def test_parts_have_all_rows_once_and_fewer_of_long_images(
    engine: sa.Engine, run: RebuildRun, monkeypatch: pytest.MonkeyPatch, most_bytes: int, size: int
) -> None:
    monkeypatch.setattr("app.staging.rebuild.copies.MAX_PART_BYTES", most_bytes)
    with image_snapshot(engine, attempt(engine)) as (source, reader):
        parts = parts_of(reader, source, size=size)
        assert [(part.number, part.first_row, part.rows) for part in parts] == [(1, 1, 2), (2, 3, 1)]
        assert [len(read_part(reader, source, part)) for part in parts] == [2, 1]
        exactly = [(part.rows, len(read_part(reader, source, part))) for part in parts_of(reader, source, size=1)]
        assert exactly == [(1, 1)] * 3
        assert parts_of(reader, replace(source, generation=Generation(9)), size=1) == []
