"""The landing ledger: plan, register, record."""

from dataclasses import replace
from uuid import UUID, uuid4

import msgspec
import pytest
import sqlalchemy as sa

from app.domain.model.landing_file import content_digest
from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, Epoch, FileNumber, Generation
from app.domain.model.table_options import TableOptions
from app.domain.publication import FileLimits, verify_chain
from app.staging.batches.staged_blocks import find_batch
from app.staging.ledger.files import LedgerEntry, list_files, record_published, unrecorded_files
from app.staging.ledger.leases import due_tables
from app.staging.tables.operations import request_repair
from app.staging.tables.registration import register_table
from mirrorgate.errors import Code, InvariantBroken
from tests.support.gateway_parts import current, inserts, registered, stage, stage_keys, typed
from tests.support.postgres import sql
from tests.support.postgres.ledger import (
    ALL_IN_ONE_FILE,
    Owned,
    build_registered,
    built,
    chain,
    claim,
    claim_by,
    counts_of,
    owned_table,
    plan,
    publish,
    publish_all,
    ranges,
    record,
)
from tests.support.samples.schemas import schema_of


def entries(engine: sa.Engine, owned: Owned, after: int = 0, limit: int = 100) -> list[LedgerEntry]:
    table = owned.table
    return sql.call(engine, list_files, table.table_id, table.generation, after=FileNumber(after), limit=limit)


def builds(engine: sa.Engine) -> list[tuple[int | None, str | None]]:
    """Return the epoch and the temporary file of each registered build, in the order of the files."""
    return sql.rows(engine, "SELECT nominated_epoch, nominated_temp FROM mirrorgate.landing_files ORDER BY number")


def counters(engine: sa.Engine) -> tuple[int, ...]:
    names = "next_file_number, recorded_file_number, published_through"
    [row] = sql.rows(engine, f"SELECT {names} FROM mirrorgate.table_counters")
    return row


def test_a_plan_binds_the_oldest_batches_to_the_next_numbers(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2, 3], [4])
    assert ranges(plan(engine, owned)) == [(1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 1)]
    assert counters(engine) == (4, 0, 0)


def test_a_file_of_several_blocks_has_their_rows_and_the_digest_of_their_payloads(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2, 3], [4])
    [file] = plan(engine, owned, ALL_IN_ONE_FILE)
    digests = sql.rows(engine, "SELECT payload_digest FROM mirrorgate.staged_blocks ORDER BY first_sequence")
    assert file.identity.rows == 4
    assert file.identity.digest == content_digest(bytes(digest) for (digest,) in digests)


def test_planning_again_gives_the_planned_files_first_and_continues_behind_them(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2], [3])
    first = plan(engine, owned, limit=2)
    assert [file.identity.number for file in first] == [1, 2]
    assert plan(engine, owned, limit=2) == first
    assert [file.identity.number for file in plan(engine, owned, limit=3)] == [1, 2, 3]
    stage_keys(engine, owned.table, [4])
    assert [file.identity.number for file in plan(engine, owned)] == [1, 2, 3, 4]


def test_a_plan_is_not_changed_by_other_limits_later(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2])
    assert plan(engine, owned, ALL_IN_ONE_FILE) == plan(engine, owned)


def test_young_blocks_that_fill_no_file_are_left_pending(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2], [3])
    patient = FileLimits(payload_bytes=2**30, rows=2, max_delay_seconds=3600)
    assert [file.identity.last_sequence for file in plan(engine, owned, patient)] == [2]
    assert counters(engine) == (2, 0, 0)


def test_files_of_two_schema_versions_keep_their_own_version(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1])
    wider = registered(engine, "t", schema_of({"id": "int64", "note": "string"}, ["id"]))
    stage(engine, [typed(wider, inserts([{"id": 2, "note": "x"}]))])
    assert [file.schema_version for file in plan(engine, owned, ALL_IN_ONE_FILE)] == [1, 2]


def test_a_published_file_moves_the_counters_and_is_no_longer_unrecorded(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2, 3])
    one, two = plan(engine, owned)
    publish(engine, owned, one)
    assert counters(engine) == (3, 1, 1)
    assert sql.call(engine, unrecorded_files, owned.table, limit=9) == [two]
    publish(engine, owned, two)
    assert counters(engine) == (3, 2, 2)
    assert plan(engine, owned) == []


def test_the_ledger_lists_every_file_with_its_state_page_by_page(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2], [3])
    files = plan(engine, owned)
    publish(engine, owned, files[0])
    listed = entries(engine, owned)
    found = [(entry.number, entry.state, entry.row_count, entry.change_count) for entry in listed]
    assert found == [(1, "published", 1, 1), (2, "planned", 1, 1), (3, "planned", 1, 1)]
    assert [entry.digest for entry in listed] == [file.identity.digest for file in files]
    assert (listed[0].file_bytes, builds(engine)[0]) == (10, (1, "temp"))
    assert listed[0].published_at is not None
    assert [entry.number for entry in entries(engine, owned, after=1, limit=1)] == [2]


def test_one_temp_is_registered_per_epoch(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1])
    [file] = plan(engine, owned)
    assert build_registered(engine, built(owned, file, "first"))
    assert not build_registered(engine, built(owned, file, "second"))
    assert builds(engine) == [(1, "first")]


def test_the_next_epoch_registers_its_own_temp(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1])
    [file] = plan(engine, owned)
    build_registered(engine, built(owned, file, "first"))
    epoch = claim(engine, owned.table.table_id, owned.worker)
    assert epoch == 2
    later = Owned(owned.table, owned.worker, epoch)
    assert build_registered(engine, built(later, file, "second"))
    assert builds(engine) == [(2, "second")]


def test_a_published_file_takes_no_registration(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1])
    [file] = plan(engine, owned)
    publish(engine, owned, file)
    epoch = claim(engine, owned.table.table_id, owned.worker)
    assert not build_registered(engine, built(Owned(owned.table, owned.worker, epoch), file, "again"))


def test_a_stale_epoch_plans_registers_and_records_nothing(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2])
    [file] = plan(engine, owned, limit=1)
    build_registered(engine, built(owned, file))
    claim(engine, owned.table.table_id, owned.worker)
    before = entries(engine, owned), counters(engine)
    for step in (
        lambda: plan(engine, owned),
        lambda: build_registered(engine, built(owned, file)),
        lambda: record(engine, owned, file),
    ):
        with pytest.raises(InvariantBroken, match=Code.STALE_EPOCH):
            step()
    assert (entries(engine, owned), counters(engine)) == before


def test_an_epoch_that_never_was_may_do_nothing(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1])
    with pytest.raises(InvariantBroken):
        plan(engine, Owned(owned.table, owned.worker, Epoch(7)))


def test_a_file_is_recorded_only_after_its_predecessor(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2])
    one, two = plan(engine, owned)
    build_registered(engine, built(owned, two))
    with pytest.raises(InvariantBroken):
        record(engine, owned, two)
    assert counters(engine) == (3, 0, 0)
    assert {entry.state for entry in entries(engine, owned)} == {"planned"}
    publish(engine, owned, one)
    record(engine, owned, two)
    assert counters(engine) == (3, 2, 2)


def test_a_file_is_registered_and_recorded_once_however_often_that_is_repeated(engine: sa.Engine) -> None:
    """A caller that does not get the answer to COMMIT repeats it."""
    owned = owned_table(engine, [1])
    [file] = plan(engine, owned)
    assert build_registered(engine, built(owned, file))
    assert build_registered(engine, built(owned, file))
    record(engine, owned, file)
    blocks = sql.value(engine, "SELECT count(*) FROM mirrorgate.metadata_blocks")
    record(engine, owned, file)
    assert sql.value(engine, "SELECT count(*) FROM mirrorgate.metadata_blocks") == blocks
    assert counters(engine) == (2, 1, 1)


def test_files_of_several_tables_are_recorded_all_or_none(engine: sa.Engine) -> None:
    first, second = owned_table(engine, [1], name="a"), owned_table(engine, [1], [2], name="b")
    [one], [_, late] = plan(engine, first), plan(engine, second)
    for owned, file in ((first, one), (second, late)):
        build_registered(engine, built(owned, file))
    with pytest.raises(InvariantBroken, match="file 2 "), engine.begin() as connection:
        record_published(connection, {one: first.epoch, late: second.epoch})
    assert {entry.state for owned in (first, second) for entry in entries(engine, owned)} == {"planned"}


def test_the_chain_tells_the_source_position_of_a_files_last_change_as_it_was_written(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    cursor = '{"log": "a\\u0001b", "position":7}'
    changes = [msgspec.structs.replace(change, source_position=cursor) for change in inserts([{"id": 1}])]
    stage(engine, [typed(owned.table, changes)], [typed(owned.table, inserts([{"id": 2}]))])
    [planned] = plan(engine, owned, ALL_IN_ONE_FILE)
    publish(engine, owned, planned)
    event = sql.value(engine, "SELECT event FROM mirrorgate.metadata_blocks ORDER BY sequence_number DESC LIMIT 1")
    assert event["lastSourcePosition"] == cursor
    assert verify_chain(chain(engine, owned.table)) == 3


SEEDED = TableOptions.parse({"seed_file": True})
PATIENT = FileLimits(payload_bytes=2**30, rows=2**30, max_delay_seconds=3600)
T = TableName.parse("t")


def seeded_table(engine: sa.Engine, *batches: list[int]) -> Owned:
    table = sql.call(engine, register_table, T, schema_of({"id": "int64"}, ["id"]), SEEDED).table
    stage_keys(engine, table, *batches)
    return Owned(table, *claim_by(engine, table.table_id))


def is_due(engine: sa.Engine, worker: UUID) -> bool:
    return bool(sql.call(engine, due_tables, worker, PATIENT))


def test_a_table_without_data_is_due_until_its_seed_is_published(engine: sa.Engine) -> None:
    owned = seeded_table(engine)
    assert is_due(engine, owned.worker)
    [seed] = plan(engine, owned)
    assert is_due(engine, owned.worker)
    publish(engine, owned, seed)
    assert not is_due(engine, owned.worker)
    assert plan(engine, owned) == []


def test_the_seed_comes_first_and_data_begins_with_file_two_and_batch_one(engine: sa.Engine) -> None:
    owned = seeded_table(engine, [1], [2, 3])
    files = plan(engine, owned)
    assert ranges(files) == [(1, 1, 0, 0), (2, 1, 1, 1), (3, 2, 2, 2)]
    for file in files:
        publish(engine, owned, file)
    counters = "SELECT next_file_number, recorded_file_number, published_through FROM mirrorgate.table_counters"
    assert sql.rows(engine, counters) == [(4, 3, 2)]


def test_the_seed_counts_as_one_of_the_files_of_a_round(engine: sa.Engine) -> None:
    owned = seeded_table(engine, [1], [2])
    assert ranges(plan(engine, owned, limit=1)) == [(1, 1, 0, 0)]
    assert ranges(plan(engine, owned, limit=2)) == [(1, 1, 0, 0), (2, 1, 1, 1)]
    assert ranges(plan(engine, owned, ALL_IN_ONE_FILE)) == [(1, 1, 0, 0), (2, 1, 1, 1), (3, 2, 2, 1)]


def test_the_next_owner_finds_a_planned_seed_as_it_was_planned(engine: sa.Engine) -> None:
    owned = seeded_table(engine)
    planned = plan(engine, owned)
    assert sql.call(engine, unrecorded_files, owned.table, limit=9) == planned
    epoch = claim(engine, owned.table.table_id, owned.worker)
    assert plan(engine, replace(owned, epoch=epoch)) == planned


def test_a_seed_is_a_file_but_no_batch_change_or_row(engine: sa.Engine) -> None:
    owned = seeded_table(engine)
    [seed] = plan(engine, owned)
    publish(engine, owned, seed)
    stage_keys(engine, owned.table, [1, 2])
    table_id = owned.table.table_id
    counts = counts_of(engine, owned.table)
    batch = sql.call(engine, find_batch, table_id, Generation(1), BatchSequence(1))
    assert (counts.published_files, counts.last_file) == (1, 1)
    assert (counts.published_batches, counts.published_changes, counts.published_rows) == (0, 0, 0)
    assert (counts.pending_batches, counts.pending_rows) == (1, 2)
    assert (batch.state, batch.file_number) == ("pending", None)


def test_the_chain_tells_the_seed_as_data_without_rows(engine: sa.Engine) -> None:
    owned = seeded_table(engine, [1])
    publish_all(engine, owned)
    blocks = chain(engine, owned.table)
    assert verify_chain(blocks) == 4
    told = [block.event for block in blocks if block.event["kind"] == "AddData"]
    assert [(event["fileNumber"], event["rows"], event["lastSequence"]) for event in told] == [(1, 0, 0), (2, 1, 1)]


def test_a_table_that_has_a_file_gets_no_seed(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2])
    [first] = plan(engine, owned, limit=1)
    publish(engine, owned, first)
    sql.call(engine, register_table, T, None, SEEDED)
    owned = replace(owned, table=current(engine, "t"))
    assert ranges(plan(engine, owned)) == [(2, 2, 2, 1)]


def test_a_table_without_the_option_is_not_due_without_data(engine: sa.Engine) -> None:
    owned = owned_table(engine)
    assert not is_due(engine, uuid4())
    assert plan(engine, owned) == []


def test_a_seed_can_be_repaired_and_needs_no_payload(engine: sa.Engine) -> None:
    owned = seeded_table(engine)
    [seed] = plan(engine, owned)
    publish(engine, owned, seed)
    sql.call(engine, request_repair, T, Generation(1), FileNumber(1), "operator")
    assert sql.value(engine, "SELECT repair_requested FROM mirrorgate.landing_files")
