"""The seed file in the ledger: planned first, once, without data, and counted in no batch or row."""

from dataclasses import replace
from uuid import UUID, uuid4

import sqlalchemy as sa

from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, FileNumber, Generation
from app.domain.model.table_options import TableOptions
from app.domain.publication import FileLimits, verify_chain
from app.staging.batches.staged_blocks import find_batch
from app.staging.ledger.files import unrecorded_files
from app.staging.ledger.leases import due_tables
from app.staging.tables.operations import request_repair
from app.staging.tables.registration import register_table
from tests.support.gateway_parts import current, stage_keys
from tests.support.postgres import sql
from tests.support.postgres.ledger import (
    ALL_IN_ONE_FILE,
    Owned,
    chain,
    claim,
    claim_by,
    counts_of,
    owned_table,
    plan,
    publish,
    publish_all,
    ranges,
)
from tests.support.samples.schemas import schema_of

SEEDED = TableOptions.parse({"seed_file": True})
PATIENT = FileLimits(payload_bytes=2**30, rows=2**30, max_delay_seconds=3600)
T = TableName.parse("t")


def seeded_table(engine: sa.Engine, *batches: list[int]) -> Owned:
    table = sql.call(engine, register_table, T, schema_of({"id": "int64"}, ["id"]), SEEDED).table
    stage_keys(engine, table, *batches)
    return Owned(table, *claim_by(engine, table.table_id))


def is_due(engine: sa.Engine, worker: UUID) -> bool:
    return bool(sql.call(engine, due_tables, worker, PATIENT, limit=10))


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
