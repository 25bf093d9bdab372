"""Differential fuzzing: a short run of each format finds nothing, and a difference is found, shrunk and reported."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import pytest

from app.domain.model.change import Change
from app.domain.model.table import TableId
from app.ingest.columnar import Asked, ColumnarBody, Opened
from app.ingest.readers import ArcionJson
from app.ingest.table_cache import TableCache
from mirrorgate.errors import Code, RejectedInput
from tests.fuzz.bodies import random_bodies
from tests.fuzz.columnar_readers import READERS, ArcionReader
from tests.fuzz.differential import Counts, Difference, compare, run, shrunk
from tests.support.forms.reading import ANYONE

INPUTS = 4_000


@pytest.mark.parametrize("source_format", READERS)
def test_the_columnar_path_gives_what_the_exact_path_gives_or_declines(source_format: str) -> None:
    counts = run(source_format, "test", INPUTS)
    assert counts.inputs == INPUTS
    assert counts.landed > INPUTS / 4, "a fuzzer whose inputs are all declined proves nothing"
    assert counts.rejected, "some bodies are rejected for their rows alone"
    assert counts.distinct > INPUTS * 0.9


@pytest.mark.parametrize("source_format", READERS)
def test_a_seed_always_gives_the_same_bodies(source_format: str) -> None:
    reader = READERS[source_format]()

    def bodies(seed: str) -> list[bytes]:
        return [*islice(random_bodies(seed, reader.tables, reader.message), 200)]

    assert bodies("1") == bodies("1") != bodies("2")


def test_rows_that_differ_are_found() -> None:
    class Wrong(ArcionReader):
        def changes(self, body: bytes) -> Mapping[TableId, Sequence[Change]]:
            return {table: changes[:-1] or changes for table, changes in super().changes(body).items()}

    with pytest.raises(Difference, match=r"changes of table \d: 2 instead of 1|batch of table"):
        _compare_many(Wrong())


def test_a_body_that_only_the_columnar_path_takes_is_found_and_shrunk() -> None:
    class Strict(ArcionReader):
        def changes(self, body: bytes) -> Mapping[TableId, Sequence[Change]]:
            if b'"R"' in body:
                raise RejectedInput(Code.BAD_OP, "no replaces")
            return super().changes(body)

    with pytest.raises(Difference, match="takes what the exact path rejects") as found:
        _compare_many(Strict())
    smaller = shrunk(found.value, Strict())
    assert smaller.text == "the columnar path takes what the exact path rejects"
    assert smaller.body.count(b"opType") == 1
    assert len(smaller.body) <= len(found.value.body)


def test_a_failure_of_the_columnar_path_is_a_difference() -> None:
    class Body(ArcionJson):
        @classmethod
        def columnar(cls, asked: Sequence[Asked[Any]], table_cache: TableCache, /) -> list[Opened]:
            raise ZeroDivisionError

    class Failing(ArcionReader):
        def request(self, body: bytes) -> Asked[ColumnarBody]:
            return Asked(Body(body), ANYONE)

    with pytest.raises(Difference, match="the columnar path fails: ZeroDivisionError"):
        _compare_many(Failing())


def _compare_many(reader: ArcionReader) -> Counts:
    return compare([*islice(random_bodies("test", reader.tables, reader.message), 500)], reader)


FOUND_BEFORE = {
    "arcion": (
        b'{"tableName":{"namespace":{"catalog":"shop"},"name":"loose","hash":-0},"opType":"I","after":{"name":"","flag":"0"},'
        b'"exists":{"name":"1","flag":"1"}}',
        b'{"tableName":{"namespace":{"catalog":"shop"},"name":"pair"},"opType":"D","before":{"id":"2"},"after":null,'
        b'"exists":{"id":"3","name":-0}}',
        b'[{"tableName":{"namespace":{"catalog":"shop"},"name":"one"},"opType":"D","cursor":"{\\"timestamp\\":1}",'
        b'"before":{"id":"1"},"after":{"id":"1"},"exists":{"id":"2"}},'
        b'{"tableName":{"namespace":{"catalog":"shop"},"name":"one"},"opType":"D","cursor":"{}","before":{"id":"1"},'
        b'"after":{"id":"1"},"exists":{"id":"2"}}]',
    ),
    "debezium": (
        b'[{"id":7,"name":"a","__op":"d","__schema":"s","__table":"pair","__source_ts_ms":5},'
        b'{"id":8,"name":"a","__op":"d","__schema":"s","__table":"pair"}]',
    ),
    "replicate": (
        b'{"data":{"A":2,"B":"7","C":2},"headers":{"operation":"INSERT","externalSchemaId":-0},"schema":"S","table":"KEYS"}',
    ),
}
"""Bodies that the columnar path once took and the exact path rejected or read otherwise."""


@pytest.mark.parametrize("source_format", FOUND_BEFORE)
def test_the_paths_agree_on_bodies_that_once_told_them_apart(source_format: str) -> None:
    for body in FOUND_BEFORE[source_format]:
        compare([body], READERS[source_format](), thorough=True)
