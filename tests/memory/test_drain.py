"""The drain cuts its work by what lands: rows that repeat each other take a 200th of it while they are staged."""

from concurrent.futures import Future
from typing import Any
from uuid import uuid4

import pytest

from app.domain.model.landing_file import PlannedFile, seed_identity
from app.domain.model.table import Generation, TableId
from app.domain.model.table_schema import SchemaVersion
from app.domain.publication import FileLimits
from app.domain.rows.landing_projection import MAX_BLOCK_BYTES, row_bytes, rows_of_block
from app.domain.rows.row_rules import RowRules
from app.staging.batches import row_images
from app.staging.batches.batch import Receipt, StagingRequest
from app.staging.batches.row_images import scan_row_images
from app.staging.ledger.leases import due_tables
from app.staging.writer import request_queue
from app.staging.writer.request_queue import RequestQueue, WaitingRequest
from spark_jobs.build_files import MAX_DRIVER_BYTES, _are_small, _work
from tests.support.gateway_parts import inserts, stage, typed
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres import sql
from tests.support.postgres.ledger import Owned, claim_by, plan
from tests.support.samples.messages import arcion
from tests.support.samples.schemas import schema_of

ID = schema_of({"id": "int64"}, ["id"], ["id"])
CONSTANTS = {f"c{at}": {"type": "string", "value": "x" * 4_096} for at in range(16)}
ROW = 16 * 4_096
EVERYTHING = FileLimits(payload_bytes=2**30, rows=2**30, max_delay_seconds=3_600)


def due(harness: IngestHarness, limits: FileLimits) -> list[TableId]:
    with harness.engine.begin() as connection:
        return due_tables(connection, uuid4(), limits)


def rows(*keys: int) -> list[dict[str, Any]]:
    return [{"id": key} for key in keys]


@pytest.mark.parametrize("together", [False, True])
def test_a_block_tells_what_its_rows_take_once_they_are_decoded(harness: IngestHarness, *, together: bool) -> None:
    names = ("t", "u") if together else ("t",)
    tables = []
    for name in names:
        harness.put(name, ID, constants=CONSTANTS)
        tables.append(harness.table(name))
    stage(harness.engine, [typed(table, inserts(rows(1, 2, 3))) for table in tables])
    for payload, landed in sql.rows(harness.engine, "SELECT payload_bytes, landed_bytes FROM mirrorgate.staged_blocks"):
        assert 3 * ROW < landed < 3 * ROW + 1_000
        assert payload < landed / 50


def test_files_are_cut_and_due_by_what_lands(harness: IngestHarness) -> None:
    harness.put("t", ID, constants=CONSTANTS, seed_file=False)
    table = harness.table("t")
    stage(harness.engine, *([typed(table, inserts(rows(2 * at, 2 * at + 1)))] for at in range(4)))
    two_blocks = FileLimits(2**30, 2**30, max_delay_seconds=3_600, landed_bytes=5 * ROW)
    assert due(harness, EVERYTHING) == []
    assert due(harness, two_blocks) == [table.table_id]
    planned = plan(harness.engine, Owned(table, *claim_by(harness.engine, table.table_id)), two_blocks)
    assert [file.identity.rows for file in planned] == [4]
    assert planned[0].landed_bytes is not None
    assert 4 * ROW < planned[0].landed_bytes < 5 * ROW


def test_the_driver_builds_no_file_whose_rows_are_large() -> None:
    identity = seed_identity("t", Generation(1), ID)
    for landed, is_small in ((MAX_DRIVER_BYTES - 1, True), (MAX_DRIVER_BYTES, False)):
        file = PlannedFile(TableId(1), SchemaVersion(1), identity, payload_bytes=1, landed_bytes=landed)
        assert _are_small([file], 2**20) is is_small
        assert _work(file) == landed


def test_a_group_ends_before_its_rows_are_large(harness: IngestHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_queue, "MAX_GROUP_BYTES", 5 * ROW)
    harness.put("t", ID, constants=CONSTANTS)
    table, queue = harness.table("t"), RequestQueue()
    for number in range(5):
        waiter: Future[list[Receipt]] = Future()
        queue.put(WaitingRequest(StagingRequest([typed(table, inserts(rows(number, number + 10)))]), waiter, 0.0))
    assert [len(queue.take_group()) for _ in range(3)] == [2, 2, 1]


def test_blocks_of_row_images_have_fewer_rows_of_a_table_with_wide_rows(harness: IngestHarness) -> None:
    harness.put("t", ID, constants=CONSTANTS)
    rules = RowRules.of(harness.table("t"))
    assert rows_of_block(rules, 20_000) == MAX_BLOCK_BYTES // row_bytes(rules) < 1_100
    assert rows_of_block(RowRules(ID), 20_000) == 20_000


def test_a_scan_of_row_images_reads_few_long_ones_at_a_time(
    harness: IngestHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_images, "MAX_SCANNED_BYTES", 2_500)
    harness.put("t", schema_of({"id": "int64", "text": "string"}, ["id"], ["id"]), row_images="on")
    harness.plain_rows("t", *({"id": key, "text": "x" * (1_000 if key < 6 else 1)} for key in range(9)))
    table = harness.table("t")
    with harness.engine.begin() as connection:
        chunks = [*scan_row_images(connection, table.table_id, table.generation, 4)]
    assert [len(chunk) for chunk in chunks] == [3, 3, 3]
    assert len({key for chunk in chunks for key in chunk}) == 9


def test_images_of_all_tables_of_a_transaction_count_together(
    harness: IngestHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = schema_of({"id": "int64", "text": "string"}, ["id"], ["id"])
    for name in ("t", "u"):
        harness.put(name, schema, partial_updates="complete")
        harness.arcion(arcion(name, None, {"id": "1", "text": "x" * 1_000}))
    monkeypatch.setattr(row_images, "MAX_COMPLETED_BYTES", 1_500)
    changes = [arcion(name, {"id": "1"}, {"id": "1"}) for name in ("t", "u")]
    harness.arcion(changes[0])
    with pytest.raises(Exception, match="body_too_large"):
        harness.arcion(*changes)
