"""Staged blocks: encoded before the transaction, read in slices."""

from typing import Any, Final

import pytest
import sqlalchemy as sa

from app.domain.arrow import decode_payload, payload_digest
from app.domain.model.landing_file import BatchRange
from app.domain.model.table import BatchSequence, Table
from app.domain.model.table_options import TableOptions
from app.staging.batches.batch import StagingRequest
from app.staging.batches.stage_transaction import encode_blocks, stage_requests
from app.staging.batches.staged_blocks import BatchStatus, find_batch, pending_blocks, read_payloads
from tests.support.gateway_parts import inserts, registered, together, typed
from tests.support.postgres import sql
from tests.support.postgres.ledger import owned_table
from tests.support.samples.schemas import schema_of


def test_pending_blocks_are_the_oldest_beyond_a_sequence(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2, 3], [4], [5])
    life = (owned.table.table_id, owned.table.generation)
    [blocks] = sql.call(engine, pending_blocks, {life: BatchSequence(1)}, limit=2).values()
    found = [(block.first_sequence, block.last_sequence, block.rows, block.changes) for block in blocks]
    assert found == [(2, 2, 2, 2), (3, 3, 1, 1)]
    assert all(block.age_seconds >= 0 and block.payload_bytes > 0 for block in blocks)


@pytest.mark.parametrize(("slice_bytes", "slices"), [(1, 5), (2**30, 1)])
def test_payloads_are_read_in_order_whatever_the_slice(engine: sa.Engine, slice_bytes: int, slices: int) -> None:
    owned = owned_table(engine, [1], [2], [3], [4], [5], [6])
    whole = BatchRange(BatchSequence(2), BatchSequence(6))
    with sql.counted(engine, "SELECT payload FROM") as selects:
        read = list(read_payloads(engine, owned.table.table_id, owned.table.generation, whole, slice_bytes=slice_bytes))
    assert len(selects) == slices
    assert all(payload_digest(payload) == digest for digest, payload in read)
    schema = owned.table.schema.arrow
    ids = [decode_payload(payload, schema).column("id").to_pylist() for _, payload in read]
    assert ids == [[2], [3], [4], [5], [6]]


def test_a_slice_is_as_large_as_it_may_be(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1], [2], [3], [4], [5])
    size = sql.value(engine, "SELECT max(payload_bytes) FROM mirrorgate.staged_blocks")
    whole = BatchRange(BatchSequence(1), BatchSequence(5))
    with sql.counted(engine, "SELECT payload FROM") as selects:
        list(read_payloads(engine, owned.table.table_id, owned.table.generation, whole, slice_bytes=2 * size))
    assert len(selects) == 3


def test_nothing_is_read_for_a_range_without_blocks(engine: sa.Engine) -> None:
    owned = owned_table(engine, [1])
    beyond = BatchRange(BatchSequence(2), BatchSequence(9))
    assert not list(read_payloads(engine, owned.table.table_id, owned.table.generation, beyond, slice_bytes=1))


def test_each_batch_of_a_block_is_found_by_its_own_sequence(engine: sa.Engine, table: Table) -> None:
    together(engine, *([typed(table, inserts([{"id": key} for key in range(size)]))] for size in (1, 2, 3)))
    found = [sql.call(engine, find_batch, table.table_id, table.generation, BatchSequence(n)) for n in (1, 2, 3)]
    assert found == [BatchStatus(size, size, "pending", None) for size in (1, 2, 3)]


SCHEMA: Final = schema_of({"id": "int64", "city": "string"}, ["id"], ["id"])
ROME: Final = {"column": "city", "op": "=", "value": "Rome"}
ROWS: Final = [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}]


def stage(engine: sa.Engine, table: Table, *rows: dict[str, Any]) -> tuple[list[bytes], list[dict[str, Any]]]:
    """Stage each row in a separate request; return the payloads that were made before, and the rows that land."""
    requests = [StagingRequest([typed(table, inserts([row]))]) for row in rows]
    encoded = encode_blocks(requests)
    payloads = [payload.message for payload in encoded.values()]
    sql.call(engine, stage_requests, requests, encoded)
    newest = "SELECT payload FROM mirrorgate.block_payloads ORDER BY first_sequence DESC LIMIT 1"
    stored = bytes(sql.value(engine, newest))
    assert not payloads or payloads == [stored] or table.options.keeps_images
    return payloads, decode_payload(stored, table.schema.landing.arrow).to_pylist()


@pytest.mark.parametrize(
    ("options", "landing"),
    [
        ({}, ROWS),
        ({"rename": {"city": "town"}}, [{"id": row["id"], "town": row["city"]} for row in ROWS]),
        ({"constants": {"of": {"type": "int32", "value": "7"}}}, [row | {"of": 7} for row in ROWS]),
        ({"audit_columns": {"operation": "op"}}, [row | {"op": "insert"} for row in ROWS]),
    ],
)
def test_payloads_are_encoded_before_the_transaction(
    engine: sa.Engine, options: dict[str, Any], landing: list[dict[str, Any]]
) -> None:
    table = registered(engine, "t", SCHEMA, TableOptions.parse(options))
    payloads, rows = stage(engine, table, *ROWS)
    assert len(payloads) == 1
    assert rows == [row | {"__rowMarker__": 0} for row in landing]


def test_a_filter_is_applied_before_the_transaction(engine: sa.Engine) -> None:
    table = registered(engine, "t", SCHEMA, TableOptions.parse({"filter": ROME}))
    payloads, rows = stage(engine, table, *ROWS)
    assert len(payloads) == 1
    assert [(row["id"], row["__rowMarker__"]) for row in rows] == [(1, 0), (2, 2)]


@pytest.mark.parametrize("value", ["row_order", "accepted_at"])
def test_what_names_the_batch_waits_for_its_lock(engine: sa.Engine, value: str) -> None:
    table = registered(engine, "t", SCHEMA, TableOptions.parse({"audit_columns": {value: "_of_batch"}}))
    payloads, rows = stage(engine, table, *ROWS)
    assert not payloads
    assert len({row["_of_batch"] for row in rows} - {None}) == (2 if value == "row_order" else 1)


def test_rows_that_the_lock_changes_are_encoded_again(engine: sa.Engine) -> None:
    options = {"partial_updates": "complete", "rename": {"city": "town"}}
    table = registered(engine, "t", SCHEMA, TableOptions.parse(options))
    stage(engine, table, *ROWS)
    payloads, rows = stage(engine, table, {"id": 1, "city": "Bern"}, {"id": 3, "city": "Rome"})
    assert len(payloads) == 1
    assert [(row["id"], row["town"], row["__rowMarker__"]) for row in rows] == [(1, "Bern", 4), (3, "Rome", 0)]
