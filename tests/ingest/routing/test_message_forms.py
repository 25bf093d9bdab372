"""Replicate messages with a key beside them, and messages that a value routes, as they land and as they are kept."""

from typing import Any

import pytest

from app.domain.access.rights import Principal, Right
from app.formats.replicate.layouts import MessageForm, TableFrom, read_layout
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres.dead_letters import letters, replay
from tests.support.rejections import rejected
from tests.support.samples.messages import data, metadata
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "n": "string"}, ["id"], ["id"])
PAIR = schema_of({"a": "int64", "b": "string", "n": "string"}, ["b", "a"], ["a", "b"])
DELETE = {"data": None, "headers": {"operation": "DELETE", "columnMask": "03", "changeMask": "03"}}
BY_COLUMN = MessageForm(table_from=TableFrom.parse("data.tableName"))


def keyed(key: Any, message: Any) -> dict[str, Any]:
    return {"key": key, "value": message}


@pytest.mark.parametrize("key", [{"id": 7}, {"id": "7"}, 7, "7", {"key": {"id": 7}}, {"payload": 7, "schema": {}}])
@pytest.mark.parametrize("described", [False, True])
def test_a_delete_without_an_image_deletes_the_row_of_its_key(
    harness: IngestHarness, key: Any, described: bool
) -> None:
    if described:
        harness.replicate(metadata("t", {"id": "INT8", "n": "STRING"}))
    else:
        harness.put("t", SCHEMA)
    harness.replicate(keyed(key, DELETE), keyed(None, None), table="t")
    assert harness.landed("t", "id", "n") == [[2, 7, None]]


def test_metadata_and_the_delete_of_its_key_may_be_in_one_request(harness: IngestHarness) -> None:
    described = metadata("t", {"id": "INT8", "n": "STRING"})
    inserted = data("INSERT", {"id": 7, "n": "x"}, schema_id="t-1")
    deleted = DELETE | {"headers": {"operation": "DELETE"}}
    envelope = {"magic": "atMSG", "type": "DT", "messageSchemaId": "t-1", "message": deleted}
    harness.replicate(keyed("t", described), keyed({"id": 7}, inserted), keyed({"id": 7}, envelope))
    assert harness.landed("t", "id", "n") == [[0, 7, "x"], [2, 7, None]]


def test_a_key_that_lacks_a_column_is_rejected_or_kept(harness: IngestHarness) -> None:
    harness.put("t", PAIR, dead_letters="accept")
    with rejected(places=[(Code.MISSING_KEY, 0, "/key", None)]):
        harness.replicate(keyed({"b": "x"}, DELETE), table="t")
    harness.replicate(keyed(7, DELETE), keyed({"a": 1, "b": "x"}, DELETE), table="t", keep_rejected=True)
    [letter] = letters(harness.engine)
    assert letter.errors[0]["pointer"] == "/key"
    assert harness.landed("t", "a", "b") == [[2, 1, "x"]]


def test_the_key_columns_of_another_callers_table_stay_hidden(harness: IngestHarness) -> None:
    harness.put("t", PAIR)
    stranger = Principal("other", frozenset({Right.INGEST}), ("sales.*",))
    with rejected(Code.UNKNOWN_TABLE) as rejection:
        harness.replicate(keyed(7, DELETE), table="t", key=stranger)
    assert "b, a" not in rejection.text


def routed(table: str, operation: str = "INSERT", **row: Any) -> dict[str, Any]:
    return {"message": {"data": row | {"tableName": table}, "headers": {"operation": operation}}}


def test_a_column_routes_each_message_and_is_data_only_where_the_table_has_it(harness: IngestHarness) -> None:
    harness.put("kit", SCHEMA)
    harness.put("hr.jobs", schema_of({"id": "int64", "tableName": "string"}, ["id"], ["id"]))
    harness.put("other", SCHEMA, new_columns="add_as_string", sources=["s.renamed"])
    sent = [routed("kit", id=1, n="a"), routed("hr.jobs", id=2), routed("kit", "DELETE", id=1, n="a")]
    harness.replicate(*sent, routed("s.renamed", id=3, n="b"), form=BY_COLUMN)
    assert harness.landed("kit", "id", "n") == [[0, 1, "a"], [2, 1, None]]
    assert harness.landed("hr.jobs", "id", "tableName") == [[0, 2, "hr.jobs"]]
    assert harness.landed("other", "id", "n") == [[0, 3, "b"]]
    assert harness.table("other").schema.names == ("id", "n")


def test_a_routing_column_of_metadata_keeps_its_bit_in_the_masks(harness: IngestHarness) -> None:
    harness.replicate(metadata("kit", {"id": "INT8", "n": "STRING", "tableName": "STRING"}))
    message = routed("kit", id=1, n="a")
    message["message"]["headers"]["columnMask"] = "07"
    harness.replicate(message, form=BY_COLUMN)
    assert harness.landed("kit", "id", "n", "tableName") == [[0, 1, "a", "kit"]]


def test_a_table_that_does_not_exist_and_another_one_than_asked_for_are_named(harness: IngestHarness) -> None:
    harness.put("kit", SCHEMA)
    with rejected() as rejection:
        harness.replicate(routed("kit", id=1), routed("nowhere", id=1), form=BY_COLUMN)
    assert [place[:2] for place in rejection.places] == [(Code.UNKNOWN_TABLE, 1)]
    with rejected() as rejection:
        harness.replicate(routed("kit", id=1), table="other", form=BY_COLUMN)
    assert [place[:2] for place in rejection.places] == [(Code.TABLE_MISMATCH, 0)]


LAYOUT = read_layout({"data": "row.*", "headers": "meta", "key": "pk", "operations": {"X": "delete"}})


def custom(operation: str, key: int, **row: Any) -> dict[str, Any]:
    return {"row": row, "meta": {"operation": operation}, "pk": key}


def test_messages_of_a_layout_land_and_those_that_are_kept_are_read_under_it_again(harness: IngestHarness) -> None:
    form = MessageForm(layout=LAYOUT)
    harness.put("t", SCHEMA, dead_letters="accept")
    sent = [custom("INSERT", 1, id=1, n="a"), custom("INSERT", 2, id="x"), custom("x", 1)]
    harness.replicate(*sent, table="t", form=form, keep_rejected=True)
    assert harness.landed("t", "id", "n") == [[0, 1, "a"], [2, 1, None]]
    [letter] = letters(harness.engine)
    harness.put("t", schema_of({"id": "int64", "n": "string"}, ["id"], ["id"]), out_of_range="saturate")
    with rejected(places=[(Code.BAD_VALUE, 0, "/row/id", "id")]):
        replay(harness, letter.letter_id)
    replay(harness, letter.letter_id, b'{"row": {"id": 9}, "meta": {"operation": "INSERT"}}')
    assert harness.landed("t", "id", "n")[-1] == [0, 9, None]


def test_a_kept_message_that_a_column_routed_is_read_that_way_again(harness: IngestHarness) -> None:
    harness.put("kit", SCHEMA, dead_letters="accept")
    harness.replicate(keyed(1, routed("kit", id="x")), routed("kit", id=1), form=BY_COLUMN, keep_rejected=True)
    [letter] = letters(harness.engine, "kit")
    replay(harness, letter.letter_id, b'{"data": {"id": 5, "tableName": "kit"}, "operation": "INSERT"}', "kit")
    assert harness.landed("kit", "id") == [[0, 1], [0, 5]]
