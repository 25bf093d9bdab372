"""A table outside the caller's patterns cannot be told from a missing one, also by the time of the answer."""

import sqlalchemy as sa

from app.domain.access.rights import Principal, Right
from app.domain.model.names import SourceName, TableName
from app.ingest.table_cache import TableCache
from tests.support.gateway_parts import registered
from tests.support.samples.schemas import schema_of


def test_a_hidden_table_takes_as_many_questions_to_the_database_as_a_missing_one(engine: sa.Engine) -> None:
    registered(engine, "hr.people", schema_of({"id": "int64"}))
    questions = 0

    def begin() -> sa.engine.base.RootTransaction:
        nonlocal questions
        questions += 1
        return engine.begin()  # type: ignore[return-value]

    table_cache = TableCache(begin)  # type: ignore[arg-type]
    stranger = Principal("0011aabb", frozenset({Right.INGEST}), ("sales.*",))
    owner = Principal("ccddeeff", frozenset({Right.INGEST}), ("hr.*",))
    assert table_cache.visible(source("hr.people"), owner) is not None
    asked = []
    for name in ("hr.people", "hr.nobody"):
        before = questions
        for _ in range(3):
            assert table_cache.visible(source(name), stranger) is None
            table_cache.withheld(source(name), stranger)
        asked.append(questions - before)
    assert asked[0] == asked[1]
    before = questions
    assert table_cache.visible(source("hr.people"), owner) is not None
    assert questions == before


def source(name: str) -> SourceName:
    return SourceName.address(TableName.parse(name))
