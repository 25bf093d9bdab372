"""The key of a row that its message leaves out is read from the key of its Kafka record."""

from typing import Any

import pytest
from msgspec import UNSET

from app.domain.model.change import Change, Image, Operation
from app.formats.replicate.standard_form import key_image, with_missing_keys

KEY = {"id": 1004}


@pytest.mark.parametrize(
    "key",
    [
        KEY,
        {"id": 1004, "name": "not a key"},
        1004,
        {"key": KEY},
        {"key": 1004},
        '{"id": 1004}',
        {"key": '{"key": {"id": 1004}}'},
        {"data": KEY},
        {"keyData": KEY},
        {"schema": {"type": "struct"}, "payload": KEY},
        {"schema": {"type": "int32"}, "payload": 1004},
        {"magic": "atMSG", "type": "DT", "headers": None, "messageSchemaId": None, "message": KEY},
        {"magic": "atMSG", "type": "DT", "headers": None, "message": {"data": KEY}},
        {"magic": "atMSG", "type": "DT", "headers": None, "message": {"key": KEY, "headers": {}}},
    ],
)
def test_the_key_of_a_table_with_one_key_column_is_found(key: Any) -> None:
    assert key_image(key, ["id"]) == KEY


@pytest.mark.parametrize(
    "key", ["{", "{}", '{"other": 1}', "{id}", '{"id": 1, "id": 2}', '{"id": 1} {"id": 2}', '{"id": ' * 2_000]
)
def test_a_text_that_only_looks_like_json_is_the_value_of_the_key(key: str) -> None:
    assert key_image(key, ["id"]) == {"id": key}


def test_a_key_of_several_columns_is_an_object() -> None:
    key = {"b": "ABC", "a": 123}
    assert key_image(key, ["a", "b"]) == key_image({"key": key}, ["a", "b"]) == {"a": 123, "b": "ABC"}
    assert key_image({"key": "k", "data": 5}, ["key"]) == {"key": "k"}


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        (UNSET, ["id"]),
        (None, ["id"]),
        (5, ["a", "b"]),
        ([5], ["id"]),
        ({"ID": 5}, ["id"]),
        ({"a": 5}, ["a", "b"]),
        ({"key": {"a": 5}, "other": 1}, ["a"]),
        (KEY, []),
    ],
)
def test_what_lacks_a_key_column_is_no_key(key: Any, columns: list[str]) -> None:
    assert key_image(key, columns) is None


def change(operation: Operation, before: Image | None, after: Image | None) -> Change:
    return Change(0, operation, before, after, "/beforeData", "/data")


def test_key_columns_that_a_row_lacks_are_those_of_its_key() -> None:
    insert = with_missing_keys(change(Operation.INSERT, None, {"name": "Grace"}), KEY, ["id"])
    assert (insert.before, insert.after) == (None, {"id": 1004, "name": "Grace"})
    delete = with_missing_keys(change(Operation.DELETE, {"name": "Grace"}, None), 1004, ["id"])
    assert (delete.before, delete.after) == ({"id": 1004, "name": "Grace"}, None)
    some = with_missing_keys(change(Operation.UPDATE, None, {"a": 1, "c": 2}), {"a": 5, "b": 6}, ["a", "b"])
    assert some.after == {"a": 1, "b": 6, "c": 2}, "a column of the row is as the row says"


@pytest.mark.parametrize("key", [None, UNSET, {"other": 1}])
def test_a_row_stays_as_it_is_without_a_key_that_has_its_columns(key: Any) -> None:
    insert = change(Operation.INSERT, None, {"name": "Grace"})
    assert with_missing_keys(insert, key, ["id"]) is insert
    assert with_missing_keys(insert, KEY, []) is insert
