"""Bare snapshot rows of NATIVE: the same on both paths, beside messages of changes, and with a remedy alone."""

import json
from contextlib import suppress
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import Operation
from app.domain.model.names import TableName
from app.domain.rows.landing_rows import LandingRows, landing_rows
from app.domain.rows.row_rules import RowRules
from app.formats.arcion.messages import decode_arcion
from app.formats.rows.columnar import RowReader, RowsBody
from mirrorgate.errors import Code, RejectedInput
from tests.fuzz.decoders import as_columns, check_paths_agree
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

TABLE: Final = TableName("shop", "items")
RULES: Final = RowRules(schema_of({"id": "int64", "name": "string", "price": "decimal(9,2)"}, ["id"], ["id"]))
MESSAGE: Final = {"tableName": {"namespace": {"schema": "shop"}, "name": "items"}, "opType": "D", "before": {"id": "1"}}
VALUES: Final = {
    "id": st.sampled_from(["1", "2", 3, "null"]),
    "name": st.sampled_from(["lamp", "null", None, "", 'a"\\', "ä", 5, True]),
    "price": st.sampled_from(["5.00", 5, None, "null", "many"]),
    "__op__": st.just("delete"),
}


def exact(body: bytes) -> LandingRows:
    changes = [entry.change for entry in decode_arcion(body, rows_of=TABLE)]
    return landing_rows(changes, RULES)


def columnar(body: bytes) -> LandingRows | None:
    content = RowsBody(body, Operation.SNAPSHOT, 100, is_plain=False)
    return as_columns(lambda: RowReader(RULES.schema.names).read([content]), RULES)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.just(["id", "name", "price"]) | st.lists(st.sampled_from([*VALUES]), unique=True))
    return {name: draw(VALUES[name]) for name in names}


@given(all_rows=st.lists(rows(), min_size=1, max_size=5), lines=st.booleans())
def test_both_paths_read_bare_rows_alike(all_rows: list[dict[str, Any]], *, lines: bool) -> None:
    body = "\n".join(map(json.dumps, all_rows)).encode() if lines else json.dumps(all_rows).encode()
    with suppress(RejectedInput):
        assert check_paths_agree(partial(exact, body), columnar(body)).has_snapshots


def test_usual_rows_take_the_columnar_path_and_the_text_null_is_null() -> None:
    found = columnar(b'[{"id":"1","name":"null","price":"5.00"},{"id":"2","name":"null2","price":"null"}]')
    assert [row["name"] for row in found.batch.to_pylist()] == [None, "null2"]


def test_rows_and_messages_of_changes_may_be_in_one_body() -> None:
    body = json.dumps([{"id": "1", "name": "null"}, MESSAGE]).encode()
    first, second = decode_arcion(body, rows_of=TABLE)
    assert (first.change.operation, first.change.after) == (Operation.SNAPSHOT, {"id": "1", "name": None})
    assert (second.change.operation, second.change.index) == (Operation.DELETE, 1)
    assert first.source.table == second.source.table == TABLE


def test_a_wrong_message_beside_rows_is_named_by_its_index() -> None:
    with rejected(places=[(Code.MALFORMED_MESSAGE, 1, "/opType", None)]):
        decode_arcion(json.dumps([{"id": "1"}, MESSAGE | {"opType": 1}]).encode(), rows_of=TABLE)


@pytest.mark.parametrize("body", [b'{"id": "1"}', b'[{"tableName": {"name": "t"}, "opType": "I"}, {"id": "1"}]'])
def test_a_bare_row_without_a_table_is_rejected_with_what_it_needs(body: bytes) -> None:
    with rejected(Code.MALFORMED_MESSAGE) as rejection:
        decode_arcion(body)
    assert "?table=...&mode=snapshot" in rejection.text
    assert "/v1/changes/rows" in rejection.text
