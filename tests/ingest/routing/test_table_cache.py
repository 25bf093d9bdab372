"""The cache of tables is shared by the threads of an API process, and tells nothing of hidden tables."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from app.domain.access.rights import Principal, Right
from app.domain.model.names import SourceName, TableName
from app.ingest.table_cache import TableCache
from tests.support.gateway_parts import registered
from tests.support.samples.schemas import schema_of

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
