"""Retention removes data that is published and old, and nothing else."""

from dataclasses import replace

import pytest
import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, DropAction, DropPlan, FileNumber, Generation, TableState
from app.staging.batches.staged_blocks import BatchStatus, find_batch
from app.staging.ledger.files import list_files
from app.staging.ledger.leases import check_epoch
from app.staging.retention.rounds import PURGE_BLOCKS, PURGE_FILES
from app.staging.tables.operations import finish_drop, request_repair, set_publishing
from mirrorgate.errors import InvariantBroken
from tests.staging.connection.test_query_plans import explained
from tests.support.gateway_parts import current, dropping, next_generation, registered, stage_keys, staged_ids
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, claim, counts_of, owned_table, plan, publish, publish_all
from tests.support.postgres.retention import (
    AT_ONCE,
    WEEK,
    count,
    partition_states,
    partitions_of_payloads,
    purge,
)
from tests.support.samples.schemas import schema_of

T = TableName.parse("t")


def batch(engine: sa.Engine, owned: Owned, sequence: int, generation: int = 1) -> BatchStatus | None:
    return sql.call(engine, find_batch, owned.table.table_id, Generation(generation), BatchSequence(sequence))


def test_what_is_published_and_old_is_purged_and_the_counts_stay(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1, 2], [3], [4, 5, 6])
    publish_all(engine, owned)
    before = counts_of(engine, owned.table)
    report = purge(engine)
    assert (report.dropped_partitions, report.moved_payloads, report.purged_blocks, report.purged_files) == (1, 0, 3, 2)
    assert [count(engine, name) for name in ("block_payloads", "staged_blocks", "landing_files")] == [0, 0, 1]
    assert counts_of(engine, owned.table) == before
    assert (before.staged_rows, before.published_rows, before.published_files) == (6, 6, 3)


def test_old_blocks_and_files_are_each_read_a_few_times_also_without_statistics(engine: sa.Engine) -> None:
    owned = owned_table(engine, *([key] for key in range(200)))
    publish_all(engine, owned)
    sql.run(engine, "UPDATE mirrorgate.staged_blocks SET bucket = -1")
    life: dict[str, object] = {"table_id": owned.table.table_id, "generation": 1, "limit": 5_000}
    plans = [*explained(engine, PURGE_BLOCKS, **life), *explained(engine, PURGE_FILES, **life, keep_seconds=0)]
    assert max(node["Actual Loops"] * node["Actual Rows"] for node in plans) <= 2 * 200
    assert (count(engine, "staged_blocks"), count(engine, "landing_files")) == (0, 1)


def test_counts_add_up_over_many_rounds_and_new_batches(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    for size in (1, 3, 2, 5):
        stage_keys(engine, owned.table, *([key] for key in range(size)))
        publish_all(engine, owned)
        purge(engine)
        counts = counts_of(engine, owned.table)
        accepted = (counts.last_sequence, counts.accepted_changes, counts.accepted_rows)
        assert (counts.staged_batches, counts.staged_changes, counts.staged_rows) == accepted
        assert (counts.published_batches, counts.published_changes, counts.published_rows) == accepted
        assert counts.published_files == counts.last_file
    assert (counts.last_sequence, count(engine, "landing_files")) == (11, 1)


def test_what_is_not_published_moves_on_and_is_published_later(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2], [3])
    first, *rest = plan(engine, owned)
    publish(engine, owned, first)
    assert purge(engine).moved_payloads == 2
    assert set(partitions_of_payloads(engine)) == {2, 3}
    assert purge(engine).moved_payloads == 2
    assert staged_ids(engine, owned.table, first=2) == [2, 3]
    assert (counts_of(engine, owned.table).staged_batches, counts_of(engine, owned.table).pending_batches) == (3, 2)
    for file in rest:
        publish(engine, owned, file)
    purge(engine)
    assert count(engine, "block_payloads") == 0


@pytest.mark.parametrize("state", ["paused", "quarantined", "dropping"])
def test_a_table_that_does_not_publish_loses_nothing_and_holds_no_partition_back(engine: sa.Engine, state: str) -> None:
    stopped = registered(engine, "stopped", schema_of({"id": "int64"}, ["id"]))
    owned = owned_table(engine, [1], [2])
    stage_keys(engine, stopped, [7], [8, 9])
    plan_of = "'{}'" if state == "dropping" else "NULL"
    stop = f"UPDATE mirrorgate.tables SET state = :state, drop_plan = {plan_of} WHERE table_id = :id"
    sql.run(engine, stop, state=state, id=stopped.table_id)
    publish_all(engine, owned)
    before = min(partition_states(engine))
    report = purge(engine)
    assert (report.dropped_partitions, report.moved_payloads) == (1, 2)
    assert before not in partition_states(engine)
    assert staged_ids(engine, stopped) == [7, 8, 9]


def test_a_partition_is_moved_in_pieces(engine: sa.Engine) -> None:
    owned = owned_table(engine, *([key] for key in range(6)))
    with sql.counted(engine, "WITH needed") as moves:
        assert purge(engine, replace(AT_ONCE, chunk_bytes=1)).moved_payloads == 6
    assert len(moves) == 6 + 1
    assert staged_ids(engine, owned.table) == list(range(6))


def test_history_is_deleted_in_pieces(engine: sa.Engine) -> None:
    owned = owned_table(engine, *([key] for key in range(7)))
    publish_all(engine, owned)
    before = counts_of(engine, owned.table)
    with sql.counted(engine, "WITH ending") as blocks, sql.counted(engine, "WITH head") as files:
        report = purge(engine, replace(AT_ONCE, chunk_rows=2))
    assert (report.purged_blocks, len(blocks)) == (7, 4 + 1)
    assert (report.purged_files, len(files)) == (6, 3 + 1)
    assert counts_of(engine, owned.table) == before


def test_the_ledger_goes_on_after_the_file_it_begins_with(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2], [3])
    publish_all(engine, owned)
    purge(engine)
    stage_keys(engine, owned.table, [4])
    [file] = plan(engine, owned)
    assert (file.identity.number, file.identity.first_sequence) == (4, 4)
    publish(engine, owned, file)
    files = sql.call(engine, list_files, owned.table.table_id, owned.table.generation, after=FileNumber(0), limit=10)
    assert [entry.number for entry in files] == [3, 4]


def test_the_last_published_file_stays_beside_planned_ones(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2], [3], [4])
    first, second, *_ = plan(engine, owned)
    publish(engine, owned, first)
    publish(engine, owned, second)
    purge(engine)
    files = sql.rows(engine, "SELECT number, state, begins_ledger FROM mirrorgate.landing_files ORDER BY 1")
    assert files == [(2, "published", True), (3, "planned", False), (4, "planned", False)]


def test_a_purged_batch_is_still_known_to_be_published(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2, 3])
    publish_all(engine, owned)
    purge(engine)
    assert batch(engine, owned, 1) == BatchStatus(None, None, "published", None)
    assert batch(engine, owned, 2) == BatchStatus(2, 2, "published", 2)
    assert batch(engine, owned, 3) is None
    assert batch(engine, owned, 0) is None


def test_what_an_ended_generation_left_is_purged_published_or_not(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2])
    publish(engine, owned, plan(engine, owned, limit=1)[0])
    next_generation(engine, "t", DropPlan(DropAction.RECREATE))
    stage_keys(engine, current(engine, "t"), [5])
    assert purge(engine).moved_payloads == 1
    assert staged_ids(engine, current(engine, "t")) == [5]
    assert (count(engine, "block_payloads"), count(engine, "staged_blocks")) == (1, 1)
    old = [batch(engine, owned, sequence) for sequence in (1, 2)]
    assert [status.state if status else None for status in old] == ["published", "pending"]


def test_images_and_positions_of_ended_generations_are_deleted_in_pieces(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    images = """INSERT INTO mirrorgate.row_images (table_id, generation, row_key, sequence, image)
        SELECT :table_id, :generation, int4send(n), 1, '' FROM generate_series(1, :keys) n"""
    position = "INSERT INTO mirrorgate.source_positions VALUES (:table_id, :generation, 'task', '1', '{}')"
    for generation, keys in ((1, 5), (2, 3)):
        sql.run(engine, images, table_id=owned.table.table_id, generation=generation, keys=keys)
        sql.run(engine, position, table_id=owned.table.table_id, generation=generation)
    sql.run(
        engine,
        """INSERT INTO mirrorgate.schema_versions (table_id, generation, version, key_columns, columns)
        SELECT table_id, 2, version, key_columns, columns FROM mirrorgate.schema_versions""",
    )
    sql.run(engine, """UPDATE mirrorgate.tables SET generation = 2, options = options || '{"row_images": "on"}'""")
    assert purge(engine, replace(AT_ONCE, chunk_rows=2)).purged_images == 5
    for name in ("row_images", "source_positions"):
        assert sql.rows(engine, f"SELECT DISTINCT generation FROM mirrorgate.{name}") == [(2,)]


def test_the_payloads_of_a_file_to_be_repaired_are_kept(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2], [3])
    publish_all(engine, owned)
    sql.call(engine, request_repair, T, Generation(1), FileNumber(2), "operator")
    assert purge(engine).moved_payloads == 1
    assert list(partitions_of_payloads(engine)) == [2]
    assert staged_ids(engine, owned.table, first=2, last=2) == [2]


def test_a_table_can_be_resumed_after_its_payloads_were_moved(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2])
    sql.call(engine, set_publishing, T, Generation(1), TableState.PAUSED, "operator")
    purge(engine)
    purge(engine)
    sql.call(engine, set_publishing, T, Generation(1), TableState.ACTIVE, "operator")
    publish_all(engine, owned)
    assert staged_ids(engine, owned.table) == [1, 2]


def test_a_dropped_table_keeps_its_counters_and_lease_only_until_its_blocks_are_purged(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1, 2], [3])
    publish_all(engine, owned)
    table = dropping(engine, "t")
    epoch = claim(engine, table.table_id, owned.worker)
    sql.call(engine, finish_drop, table, epoch, marker_first=False)
    registered(engine, "t", schema_of({"id": "int64"}, ["id"]))
    rows = ("table_counters", "table_leases", "staged_blocks")
    purge(engine, WEEK)
    assert [count(engine, name) for name in rows] == [2, 1, 2]
    purge(engine)
    assert [count(engine, name) for name in rows] == [1, 0, 0]
    with pytest.raises(InvariantBroken, match="stale_epoch"), engine.begin() as connection:
        check_epoch(connection, table.table_id, epoch)
    assert current(engine, "t").table_id != table.table_id
