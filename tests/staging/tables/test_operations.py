"""Operations on tables in the database: states, generations, events. Folders are tested elsewhere."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import DropAction, DropPlan, Epoch, FileNumber, Generation, Table, TableState
from app.domain.model.table_options import TableOptions
from app.staging.batches.batch import TableMoved
from app.staging.tables.events import list_events
from app.staging.tables.operations import (
    FinishedDrop,
    begin_drop,
    finish_drop,
    release,
    request_flush,
    request_repair,
    set_publishing,
)
from app.staging.tables.registration import register_table
from app.staging.tables.registry import find_table, find_table_by_id, list_tables, lock_routing, quarantine_table
from mirrorgate.errors import Code, InvariantBroken
from tests.support.gateway_parts import current, finished_drop, inserts, registered, stage, stage_keys, together, typed
from tests.support.postgres import sql
from tests.support.postgres.retention import purge
from tests.support.rejections import rejected
from tests.support.samples.images import count_row_images
from tests.support.samples.schemas import ID, schema_of
from tests.support.waiting import wait_until

WIDE = schema_of({"id": "string", "note": "string"}, ["id"])
T = TableName.parse("t")
ONE = Generation(1)
DROP = DropPlan(DropAction.DROP)
RECREATE = DropPlan(DropAction.RECREATE)


def begin(engine: sa.Engine, plan: DropPlan, name: TableName = T, generation: Generation = ONE) -> Table:
    return sql.call(engine, begin_drop, name, generation, plan, "operator")


def actions(engine: sa.Engine, name: TableName = T) -> list[str]:
    return [event.action for event in sql.call(engine, list_events, name, after=0, limit=100)]


def test_a_dropped_table_is_unknown_its_name_is_free_and_what_was_not_published_is_counted(engine: sa.Engine) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1, 2], [3])
    table = begin(engine, DROP)
    assert table.state is TableState.DROPPING
    assert finished_drop(engine, table) == FinishedDrop(1, discarded_batches=2, discarded_rows=3, landed_again=0)
    with engine.begin() as connection:
        assert find_table(connection, T) is find_table_by_id(connection, table.table_id) is None
        assert list_tables(connection) == []
    assert registered(engine, "t", WIDE).table_id != table.table_id
    assert actions(engine) == ["drop", "drop done"]


def test_changes_and_registrations_are_rejected_while_a_table_is_being_dropped(engine: sa.Engine, table: Table) -> None:
    begin(engine, DROP)
    with pytest.raises(TableMoved):
        stage_keys(engine, table, [1])
    with rejected(Code.TABLE_NOT_ACCEPTING), engine.begin() as connection:
        register_table(connection, T, ID)


def test_a_recreated_table_begins_at_one_in_the_next_generation_with_what_was_asked(engine: sa.Engine) -> None:
    stage_keys(engine, registered(engine, "t", ID), [1], [2])
    options = TableOptions.parse({"exclude": ["note"], "insert_marker": "upsert"})
    finished_drop(engine, begin(engine, DropPlan(DropAction.RECREATE, WIDE, options)))
    table = current(engine, "t")
    assert (table.generation, table.schema_version, table.state) == (2, 1, TableState.ACTIVE)
    assert (table.schema.names, str(table.schema.columns[0].type), table.options) == (("id",), "string", options)
    [receipt] = stage(engine, [typed(table, inserts([{"id": "a"}]))])
    assert (receipt.generation, receipt.sequence) == (2, 1)
    counters = "SELECT next_file_number, recorded_file_number, published_through FROM mirrorgate.table_counters"
    assert sql.rows(engine, counters) == [(1, 0, 0)]
    kinds = "SELECT event ->> 'kind' FROM mirrorgate.metadata_blocks WHERE generation = 2 ORDER BY sequence_number"
    assert sql.rows(engine, kinds) == [("Seed",), ("SetDataSchema",)]


def test_a_recreated_table_keeps_columns_and_options_and_forgets_its_images(engine: sa.Engine) -> None:
    options = TableOptions.parse({"partial_updates": "complete"})
    table = sql.call(engine, register_table, T, WIDE, options).table
    stage(engine, [typed(table, inserts([{"id": "a", "note": "b"}]))])
    finished_drop(engine, begin(engine, RECREATE))
    table = current(engine, "t")
    assert (table.schema, table.options, table.cdc_started) == (WIDE, options, False)
    assert sql.call(engine, count_row_images, table.table_id, table.generation) == 0
    assert purge(engine).purged_images == 1


def test_a_renamed_table_lands_its_rows_again_from_their_images(engine: sa.Engine) -> None:
    table = sql.call(engine, register_table, T, WIDE, TableOptions.parse({"partial_updates": "complete"})).table
    stage(engine, [typed(table, inserts([{"id": key, "note": key} for key in ("", "a", "b")]))])
    new_name = TableName.parse("other.name")
    finished = finished_drop(engine, begin(engine, DropPlan(DropAction.RENAME, new_name=new_name)))
    assert finished.landed_again == 3
    with engine.begin() as connection:
        assert find_table(connection, T) is None
        renamed = find_table(connection, new_name)
        assert (renamed.table_id, renamed.generation) == (table.table_id, 2)
        assert count_row_images(connection, renamed.table_id, renamed.generation) == 3
    blocks = "SELECT first_sequence, row_count FROM mirrorgate.staged_blocks WHERE generation = 2"
    assert sql.rows(engine, blocks) == [(1, 3)]
    assert sql.value(engine, "SELECT last_sequence FROM mirrorgate.table_counters") == 1


HISTORY = {"row_images": "on", "history": "append_only"}


@pytest.mark.parametrize(
    ("first", "later"),
    [({}, {"row_images": "on"}), (HISTORY, HISTORY)],
    ids=["incomplete images", "history"],
)
def test_a_renamed_table_whose_images_are_not_its_rows_begins_empty(
    engine: sa.Engine, first: dict[str, str], later: dict[str, str]
) -> None:
    for options, key in ((first, "a"), (later, "b")):
        table = registered(engine, "t", WIDE, TableOptions.parse(options))
        stage(engine, [typed(table, inserts([{"id": key, "note": "x"}]))])
    new_name = TableName.parse("other")
    assert finished_drop(engine, begin(engine, DropPlan(DropAction.RENAME, new_name=new_name))).landed_again == 0
    renamed = current(engine, "other")
    assert renamed.images_complete
    assert sql.call(engine, count_row_images, renamed.table_id, renamed.generation) == 0
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.staged_blocks WHERE generation = 2") == 0


def test_a_name_that_a_table_is_to_get_is_taken_from_then_on(engine: sa.Engine) -> None:
    registered(engine, "t", ID)
    registered(engine, "taken", ID)
    for name in ("taken", "T"):
        with rejected(Code.BAD_NAME):
            begin(engine, DropPlan(DropAction.RENAME, new_name=TableName.parse(name)))
    begin(engine, DropPlan(DropAction.RENAME, new_name=TableName.parse("new")))
    with rejected(Code.BAD_NAME):
        registered(engine, "NEW", ID)


def test_a_name_that_a_table_is_just_getting_cannot_be_reserved_by_who_waits_for_it(engine: sa.Engine) -> None:
    registered(engine, "t", ID)
    registered(engine, "other", ID)
    rename = DropPlan(DropAction.RENAME, new_name=TableName.parse("new"))
    renaming = begin(engine, rename)
    lease = "INSERT INTO mirrorgate.table_leases VALUES (:table_id, 7, gen_random_uuid())"
    sql.run(engine, lease, table_id=renaming.table_id)
    with ThreadPoolExecutor(1) as thread:
        with engine.begin() as connection:
            finish_drop(connection, renaming, Epoch(7), marker_first=False)
            other = thread.submit(begin, engine, rename, TableName.parse("other"))
            wait_until(lambda: sql.lock_waits(engine) == 1, within=30, what="the other rename waits for the name")
        with rejected(Code.BAD_NAME):
            other.result(timeout=30)


def test_sources_that_a_recreated_table_is_to_get_are_its_own_from_then_on(engine: sa.Engine) -> None:
    registered(engine, "t", ID)
    registered(engine, "other", ID, TableOptions(sources=("fed",)))
    for source in ("fed", "other"):
        with rejected(Code.BAD_OPTION):
            begin(engine, DropPlan(DropAction.RECREATE, options=TableOptions(sources=(source,))))
    recreating = begin(engine, DropPlan(DropAction.RECREATE, options=TableOptions(sources=("new",))))
    with rejected(Code.BAD_NAME):
        registered(engine, "NEW", ID)
    with rejected(Code.BAD_OPTION):
        registered(engine, "other", None, TableOptions(sources=("new",)))
    finished_drop(engine, recreating)
    assert current(engine, "t").options.sources == ("new",)


NAMED: dict[str, Callable[[sa.Engine], Table]] = {
    "rename": lambda engine: begin(engine, DropPlan(DropAction.RENAME, new_name=TableName.parse("new"))),
    "recreate": lambda engine: begin(engine, DropPlan(DropAction.RECREATE, options=TableOptions())),
    "register": lambda engine: registered(engine, "new", ID),
}


@pytest.mark.parametrize("act", NAMED)
def test_who_waits_for_the_lock_of_names_holds_neither_a_table_nor_a_name(engine: sa.Engine, act: str) -> None:
    registered(engine, "t", ID)
    with ThreadPoolExecutor(1) as thread:
        with engine.begin() as connection:
            lock_routing(connection)
            acting = thread.submit(NAMED[act], engine)
            wait_until(lambda: sql.lock_waits(engine) == 1, within=30, what="the other transaction waits")
            connection.execute(sa.text("SELECT FROM mirrorgate.table_counters FOR UPDATE NOWAIT"))
            connection.execute(sa.text("SET LOCAL lock_timeout = '1s'"))
            connection.execute(sa.text("UPDATE mirrorgate.tables SET folded_name = 'new'"))
            connection.execute(sa.text("UPDATE mirrorgate.tables SET folded_name = 't'"))
        acting.result(timeout=30)


def test_the_same_drop_again_changes_nothing_and_another_is_rejected(engine: sa.Engine) -> None:
    registered(engine, "t", ID)
    assert begin(engine, RECREATE) == begin(engine, RECREATE)
    with rejected(Code.WRONG_TABLE_STATE):
        begin(engine, DROP)
    assert actions(engine) == ["recreate"]


def test_a_drop_ends_the_owners_epoch(engine: sa.Engine, table: Table) -> None:
    lease = "INSERT INTO mirrorgate.table_leases VALUES (:table_id, 3, gen_random_uuid())"
    sql.run(engine, lease, table_id=table.table_id)
    dropping = begin(engine, DROP)
    assert sql.value(engine, "SELECT epoch FROM mirrorgate.table_leases") == 4
    with pytest.raises(InvariantBroken, match=Code.STALE_EPOCH), engine.begin() as connection:
        finish_drop(connection, dropping, Epoch(3), marker_first=False)


ACTS: dict[str, Callable[[sa.Connection, Generation], Table]] = {
    "drop": lambda connection, generation: begin_drop(connection, T, generation, DROP, "operator"),
    "pause": lambda connection, generation: set_publishing(connection, T, generation, TableState.PAUSED, "operator"),
    "resume": lambda connection, generation: set_publishing(connection, T, generation, TableState.ACTIVE, "operator"),
    "release": lambda connection, generation: release(connection, T, generation, "operator", "looked"),
    "flush": lambda connection, generation: request_flush(connection, T, generation, "operator"),
    "repair": lambda connection, generation: request_repair(connection, T, generation, FileNumber(1), "operator"),
}


@pytest.mark.parametrize("act", [act for act in ACTS if act != "drop"])
def test_an_act_on_a_table_that_is_being_dropped_is_rejected(engine: sa.Engine, act: str) -> None:
    registered(engine, "t", ID)
    begin(engine, DROP)
    with rejected(Code.WRONG_TABLE_STATE):
        sql.call(engine, ACTS[act], ONE)


def test_pausing_stops_publishing_only_and_resuming_ends_it(engine: sa.Engine, table: Table) -> None:
    for act, state in (("pause", TableState.PAUSED), ("pause", TableState.PAUSED), ("resume", TableState.ACTIVE)):
        assert sql.call(engine, ACTS[act], ONE).state is state
        stage_keys(engine, table, [1])
    assert actions(engine) == ["pause", "resume"]


@pytest.mark.parametrize("plan", [RECREATE, DropPlan(DropAction.RENAME, new_name=TableName.parse("other"))])
def test_a_paused_table_stays_paused_in_its_next_generation(engine: sa.Engine, table: Table, plan: DropPlan) -> None:
    sql.call(engine, ACTS["pause"], ONE)
    begun = begin(engine, plan)
    assert begin(engine, plan) == begun
    finished_drop(engine, begun)
    name = plan.new_name or T
    assert current(engine, str(name)).state is TableState.PAUSED
    assert sql.call(engine, set_publishing, name, Generation(2), TableState.ACTIVE, "x").state is TableState.ACTIVE


def test_only_a_quarantined_table_is_released_and_it_is_kept_who_and_why(engine: sa.Engine, table: Table) -> None:
    with rejected(Code.WRONG_TABLE_STATE):
        sql.call(engine, ACTS["release"], ONE)
    assert sql.call(engine, quarantine_table, table.table_id, "foreign_file")
    for act in ("pause", "resume"):
        with rejected(Code.WRONG_TABLE_STATE):
            sql.call(engine, ACTS[act], ONE)
    with engine.begin() as connection:
        assert ACTS["release"](connection, ONE).state is TableState.ACTIVE
        _, event = list_events(connection, T, after=0, limit=10)
    assert (event.actor, event.action, event.reason) == ("operator", "release", "looked")


def test_a_repair_needs_a_published_file_whose_payloads_are_kept(engine: sa.Engine, table: Table) -> None:
    stage_keys(engine, table, [1])
    with rejected(Code.UNKNOWN_FILE):
        sql.call(engine, ACTS["repair"], ONE)
    sql.run(
        engine,
        """INSERT INTO mirrorgate.landing_files (table_id, generation, number, first_sequence, last_sequence,
            schema_version, row_count, change_count, digest, state, nominated_epoch, nominated_temp, published_at)
        VALUES (:table_id, 1, 1, 1, 1, 1, 1, 1, '', 'published', 1, 't', now())""",
        table_id=table.table_id,
    )
    sql.call(engine, ACTS["repair"], ONE)
    assert sql.value(engine, "SELECT repair_requested FROM mirrorgate.landing_files")
    sql.run(engine, "DELETE FROM mirrorgate.block_payloads")
    with rejected(Code.PAYLOADS_PURGED):
        sql.call(engine, ACTS["repair"], ONE)


def test_a_batch_typed_before_a_recreation_is_typed_again(engine: sa.Engine, table: Table) -> None:
    batch = typed(table, inserts([{"id": 1}]))
    finished_drop(engine, begin(engine, RECREATE))
    [future] = together(engine, [batch])
    assert isinstance(future.exception(), TableMoved)
    assert sql.call(engine, find_table_by_id, table.table_id) is not None
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.staged_blocks") == 0
