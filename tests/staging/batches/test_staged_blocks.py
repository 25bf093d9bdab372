"""Reading staged blocks back: pending ones, payloads in slices, single batches."""

import pytest
import sqlalchemy as sa

from app.domain.arrow import decode_payload, payload_digest
from app.domain.model.landing_file import BatchRange
from app.domain.model.table import BatchSequence, Table
from app.staging.batches.staged_blocks import BatchStatus, find_batch, pending_blocks, read_payloads
from tests.support.gateway_parts import inserts, together, typed
from tests.support.postgres import sql
from tests.support.postgres.ledger import owned_table


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
