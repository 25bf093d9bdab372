"""Groups of requests for many tables: one statement stages their blocks, and each request succeeds or fails alone."""

import itertools
from collections import Counter
from dataclasses import dataclass, replace

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.domain.model.table import BatchSequence, Generation, Table
from app.staging.batches.batch import Batch, Receipt, TableMoved
from app.staging.retention.payload_partitions import attach_next_partition, open_next_partition
from tests.support.gateway_parts import inserts, registered, staged_ids, together, typed
from tests.support.postgres import sql
from tests.support.samples.schemas import ID, schema_of

WIDER = schema_of({"id": "int64", "note": "string"}, ["id"])
MAX_TABLES = 5
_NAMES = itertools.count()

OCCUPY_SEQUENCE = """
    INSERT INTO mirrorgate.staged_blocks (table_id, generation, first_sequence, last_sequence, schema_version,
        batch_rows, batch_changes, row_count, change_count, payload_bytes, payload_digest)
    VALUES (:table_id, 1, :sequence, :sequence, 1, '{1}', '{1}', 1, 1, 1, sha256(''))"""


def batch(table: Table, *keys: int, position: str | None = None) -> Batch:
    staged = typed(table, inserts([{"id": key} for key in keys]))
    return staged._replace(rows=replace(staged.rows, source_position=position))


@dataclass(frozen=True)
class Request:
    """The rows of a request in each of its tables, by the table's number; a stale one was typed too early."""

    rows: dict[int, int]
    is_stale: bool


REQUESTS = st.builds(
    Request,
    st.dictionaries(st.integers(0, MAX_TABLES - 1), st.integers(1, 40), min_size=1),
    st.integers(0, 5).map(lambda number: number == 0),
)


@given(
    groups=st.lists(st.lists(REQUESTS, min_size=1, max_size=12), min_size=1, max_size=3),
    occupied=st.sets(st.integers(0, MAX_TABLES - 1), max_size=2),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_request_of_a_group_is_staged_in_all_its_tables_or_fails_for_its_own_reason(
    engine: sa.Engine, groups: list[list[Request]], occupied: set[int]
) -> None:
    """Postgres rejects the next block of an occupied table, and so the one statement with the blocks of all tables."""
    prefix = f"group{next(_NAMES)}"
    old = registered(engine, f"{prefix}.moved", ID)
    registered(engine, f"{prefix}.moved", WIDER)
    tables = [registered(engine, f"{prefix}.t{number}", ID) for number in range(MAX_TABLES)]
    for number in occupied:
        sql.run(engine, OCCUPY_SEQUENCE, table_id=tables[number].table_id, sequence=1)
    expected: list[list[int]] = [[] for _ in tables]
    sequences: Counter[int] = Counter()
    keys = itertools.count()
    for group in groups:
        written = [
            {number: list(itertools.islice(keys, rows)) for number, rows in request.rows.items()} for request in group
        ]
        typed_group = [[batch(tables[number], *ids) for number, ids in rows.items()] for rows in written]
        for request, batches in zip(group, typed_group, strict=True):
            batches += [batch(old, 1)] if request.is_stale else []
        for request, rows, future in zip(group, written, together(engine, *typed_group), strict=True):
            if request.is_stale:
                with pytest.raises(TableMoved):
                    future.result()
            elif occupied & rows.keys():
                with pytest.raises(sa.exc.IntegrityError):
                    future.result()
            else:
                sequences.update(rows.keys())
                assert future.result() == [
                    Receipt(f"{prefix}.t{number}", Generation(1), BatchSequence(sequences[number]), len(ids), len(ids))
                    for number, ids in rows.items()
                ]
                for number, ids in rows.items():
                    expected[number] += ids
    for number in {*range(MAX_TABLES)} - occupied:
        assert staged_ids(engine, tables[number]) == expected[number]
    counters = sql.rows(
        engine,
        "SELECT last_sequence, accepted_rows, accepted_changes, cdc_started FROM mirrorgate.table_counters "
        "WHERE table_id = ANY(:ids) ORDER BY table_id",
        ids=[table.table_id for table in tables],
    )
    assert counters == [(sequences[at], len(ids), len(ids), bool(ids)) for at, ids in enumerate(expected)]


@given(positions=st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
@example(positions=['"', "\\", "NULL", "", "{a,b}", None, " ", "a'b;\n"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_source_position_of_each_table_is_stored_verbatim(engine: sa.Engine, positions: list[str | None]) -> None:
    prefix = f"position{next(_NAMES)}"
    tables = [registered(engine, f"{prefix}.t{number}", ID) for number in range(len(positions))]
    requests = [[batch(table, 1, position=mark)] for table, mark in zip(tables, positions, strict=True)]
    for future in together(engine, *requests):
        future.result()
    for table, mark in zip(tables, positions, strict=True):
        stored = "SELECT source_position FROM mirrorgate.staged_blocks WHERE table_id = :table_id"
        assert sql.value(engine, stored, table_id=table.table_id) == (mark or None)


def test_the_blocks_of_a_group_have_one_payload_partition_and_are_of_one_transaction(engine: sa.Engine) -> None:
    tables = [registered(engine, f"t{number}", ID) for number in range(3)]
    before = together(engine, *([batch(table, 1)] for table in tables))
    sql.call(engine, attach_next_partition)
    sql.call(engine, open_next_partition)
    after = together(engine, *([batch(table, 2)] for table in tables))
    assert [future.result()[0].sequence for future in [*before, *after]] == [1, 1, 1, 2, 2, 2]
    found = sql.rows(
        engine,
        "SELECT b.first_sequence, b.bucket = o.bucket, b.bucket = p.bucket, count(DISTINCT CAST(b.xmin AS text)) "
        "FROM mirrorgate.staged_blocks b JOIN mirrorgate.block_payloads p USING (table_id, generation, first_sequence) "
        "CROSS JOIN mirrorgate.payload_buckets o WHERE o.state = 'open' GROUP BY 1, 2, 3 ORDER BY 1",
    )
    assert found == [(1, False, True, 1), (2, True, True, 1)]
    assert [staged_ids(engine, table) for table in tables] == [[1, 2]] * 3


@pytest.mark.parametrize("max_bytes", [1, 1_000, 2_000, 64 * 2**20])
def test_payloads_that_are_too_long_for_one_statement_are_inserted_by_several(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, max_bytes: int
) -> None:
    monkeypatch.setattr("app.staging.batches.staged_blocks.MAX_BYTES_PER_STATEMENT", max_bytes)
    tables = [registered(engine, f"t{number}", ID) for number in range(6)]
    futures = together(engine, *([batch(table, *range(1 + 30 * (number % 3)))] for number, table in enumerate(tables)))
    assert [future.result()[0].sequence for future in futures] == [1] * 6
    assert [staged_ids(engine, table) for table in tables] == [[*range(1 + 30 * (number % 3))] for number in range(6)]


def test_a_group_whose_last_statement_fails_leaves_nothing_of_the_first(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.staging.batches.staged_blocks.MAX_BYTES_PER_STATEMENT", 1)
    one, other = registered(engine, "one", ID), registered(engine, "other", ID)
    sql.run(engine, OCCUPY_SEQUENCE, table_id=other.table_id, sequence=1)
    [future] = together(engine, [batch(one, 1), batch(other, 1)])
    with pytest.raises(sa.exc.IntegrityError):
        future.result()
    assert staged_ids(engine, one) == []
    assert sql.rows(engine, "SELECT last_sequence FROM mirrorgate.table_counters") == [(0,), (0,)]
