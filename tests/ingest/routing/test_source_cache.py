"""The caches of tables and sources: what they find without a query, and what they must not tell."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from app.domain.access.rights import Principal, Right
from app.domain.model.names import SourceName, TableName
from app.ingest.readers.replicate import FoundSource, SourceCache
from app.ingest.table_cache import NotCached, TableCache
from app.staging.batches.batch import SchemaIdTables, StagingRequest, TableMoved
from mirrorgate.errors import Code
from tests.support.gateway_parts import inserts, registered, typed
from tests.support.ingest_harness import ADMIN, IngestHarness
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.messages import data, metadata
from tests.support.samples.schemas import schema_of

COLUMNS = {"id": "INT8", "name": "WSTRING"}
NEW = {"id": "INT8", "note": "WSTRING", "name": "WSTRING"}
MAX_READS = 4


def found(cache: SourceCache, key: Principal = ADMIN, **told: Any) -> FoundSource | None:
    """Ask as a reader does: again after each look-up."""
    requested = told.get("requested") and SourceName.address(TableName.parse(told["requested"]))
    own = told.get("own") and SourceName.parse(told["own"])
    for _ in range(MAX_READS):
        try:
            return cache.find(requested, own, told.get("schema_id"), key)
        except NotCached as unknown:
            if unknown.look_up() is None:
                return None
    raise AssertionError("never cached")


@contextmanager
def without_queries(cache: SourceCache) -> Iterator[None]:
    begin, cache.table_cache.begin = cache.table_cache.begin, None  # type: ignore[assignment]  # a query fails
    yield
    cache.table_cache.begin = begin


@pytest.fixture
def cache(harness: IngestHarness) -> SourceCache:
    """Give the cache of a process that has not seen the source yet, which another one has registered."""
    harness.other.replicate(metadata("s.t", COLUMNS, schema_id="f1"))
    return SourceCache(harness.ingest.table_cache)


def stage(harness: IngestHarness, source: FoundSource) -> None:
    batch = typed(source.table, inserts([{"id": 1, "name": "a"}]))._replace(found_by=source.found_by)
    harness.ingest.group_commit.submit(StagingRequest([batch])).result()


@pytest.mark.parametrize(
    "told", [{"schema_id": "f1"}, {"own": "s.t", "schema_id": "f1"}, {"requested": "S.T"}, {"own": "s.t"}]
)
def test_a_source_that_was_found_once_needs_no_query(
    harness: IngestHarness, cache: SourceCache, told: dict[str, str]
) -> None:
    found(cache, **told)
    with without_queries(cache):
        again = found(cache, **told)
    assert (again.source.version.schema_id, again.table) == ("f1", harness.table("s.t"))
    stage(harness, again)
    assert harness.landed("s.t", "id") == [[0, 1]]


@pytest.mark.parametrize(
    "told",
    [{}, {"schema_id": "f2"}, {"own": "s.t", "schema_id": "f2"}, {"own": "s.u"}, {"own": "s.t", "requested": "s.v"}],
)
def test_what_the_exact_path_has_to_explain_is_not_found(
    harness: IngestHarness, cache: SourceCache, told: dict[str, str]
) -> None:
    harness.replicate(metadata("s.v", COLUMNS))
    assert found(cache, **told) is None


def test_rights_are_checked_for_each_request(cache: SourceCache) -> None:
    assert found(cache, schema_id="f1") is not None
    other = Principal("k", frozenset({Right.INGEST}), ("other.*",))
    assert found(cache, other, schema_id="f1") is None
    assert found(cache, other, own="s.t") is None


def test_a_key_for_one_of_two_tables_with_a_schema_id_finds_its_own(harness: IngestHarness, cache: SourceCache) -> None:
    harness.replicate(metadata("other.t", COLUMNS, schema_id="f1"))
    mine = found(cache, Principal("k", frozenset({Right.INGEST}), ("other.*",)), schema_id="f1")
    assert str(mine.table.name) == "other.t"
    assert found(cache, schema_id="f1") is None
    stage(harness, mine)


def test_metadata_from_another_process_moves_the_table(harness: IngestHarness, cache: SourceCache) -> None:
    before = found(cache, schema_id="f1")
    harness.other.replicate(metadata("s.t", NEW, schema_id="f2", version=2))
    with pytest.raises(TableMoved):
        stage(harness, before)
    cache.table_cache.forget(SourceName.address(TableName.parse("s.t")))
    assert found(cache, schema_id="f1") is None, "an earlier version"
    after = found(cache, schema_id="f2")
    stage(harness, after)


def test_a_second_table_of_a_schema_id_moves_what_the_id_has_found(harness: IngestHarness, cache: SourceCache) -> None:
    before, named = found(cache, schema_id="f1"), found(cache, own="s.t", schema_id="f1")
    assert before.found_by == SchemaIdTables("f1", frozenset({"s.t"}))
    harness.other.replicate(metadata("s.two", COLUMNS, schema_id="f1"))
    with pytest.raises(TableMoved):
        stage(harness, before)
    with rejected(Code.AMBIGUOUS_SCHEMA_ID):
        harness.replicate(data("INSERT", {"id": 2, "name": "b"}, schema_id="f1"))
    stage(harness, named)


def test_each_change_of_metadata_advances_the_revision_whatever_program_makes_it(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.t", COLUMNS, schema_id="f1"))
    first = harness.table("s.t").revision
    harness.replicate(metadata("s.t", COLUMNS, schema_id="f1"))
    assert harness.table("s.t").revision == first
    harness.replicate(data("INSERT", {"id": 1, "name": "a"}, schema_id="f1", externalSchemaId="7"))
    assert harness.table("s.t").revision == first + 1
    sql.run(harness.engine, "UPDATE mirrorgate.tables SET replicate_metadata = replicate_metadata - 'source'")
    assert harness.table("s.t").revision == first + 2


TABLE = TableName.parse("shop.orders")


@pytest.fixture
def threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_take_turns_often")
def test_a_table_can_be_forgotten_while_others_are_found(engine: sa.Engine) -> None:
    table = registered(engine, str(TABLE), schema_of({"id": "int64"}))
    cache = TableCache(engine.begin, {of_catalog(f"old{i}"): table for i in range(2_000)})

    def find() -> None:
        for number in range(200):
            assert cache.route(of_catalog(f"new{number}")) is not None

    with ThreadPoolExecutor(max_workers=1) as pool:
        finding = pool.submit(find)
        while not finding.done():
            cache.forget_table(TableName.parse("shop.returns"))
        finding.result()
    cache.forget_table(TABLE)
    assert not cache._tables


def of_catalog(catalog: str) -> SourceName:
    return SourceName.of(catalog, "shop", "orders")


def test_a_hidden_table_takes_as_many_questions_to_the_database_as_a_missing_one(engine: sa.Engine) -> None:
    registered(engine, "hr.people", schema_of({"id": "int64"}))
    questions = 0

    def begin() -> sa.engine.base.RootTransaction:
        nonlocal questions
        questions += 1
        return engine.begin()

    table_cache = TableCache(begin)
    stranger = Principal("0011aabb", frozenset({Right.INGEST}), ("sales.*",))
    owner = Principal("ccddeeff", frozenset({Right.INGEST}), ("hr.*",))
    assert table_cache.visible(of_table("hr.people"), owner) is not None
    asked = []
    for name in ("hr.people", "hr.missing"):
        before = questions
        for _ in range(3):
            assert table_cache.visible(of_table(name), stranger) is None
            table_cache.withheld(of_table(name), stranger)
        asked.append(questions - before)
    assert asked[0] == asked[1]
    before = questions
    assert table_cache.visible(of_table("hr.people"), owner) is not None
    assert questions == before


def of_table(name: str) -> SourceName:
    return SourceName.address(TableName.parse(name))
