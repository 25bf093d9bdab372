"""Forms of Replicate messages: headers and keys beside the images, layouts, and what names the table."""

import json
from typing import Any

import pytest
from msgspec import UNSET

from app.domain.model.change import Change, Image, Operation
from app.domain.model.names import SourceName
from app.formats.replicate.layouts import MessageForm, TableFrom
from app.formats.replicate.messages import DataChange, ReplicateRequest, decode_replicate
from app.formats.replicate.standard_form import key_image, with_missing_keys
from mirrorgate.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.messages import HEADERS as ALL_HEADERS

ROW = {"id": 1, "email": "a@b.example"}
HEADERS = ALL_HEADERS | {"changeSequence": "100", "timestamp": 1000, "changeMask": "2", "columnMask": "3"}


def decoded(*messages: Any, **form: Any) -> ReplicateRequest:
    return decode_replicate(json.dumps(list(messages)).encode(), form=MessageForm(**form))


def change_of(message: Any, **form: Any) -> DataChange:
    [entry] = decoded(message, **form).changes
    return entry


@pytest.mark.parametrize("prefix", ["headers_", ""])
@pytest.mark.parametrize("envelope", [None, "message"])
def test_headers_beside_the_images_are_those_of_an_object(prefix: str, envelope: str | None) -> None:
    images = {"data": ROW, "beforeData": ROW}
    body = images | {prefix + name: value for name, value in HEADERS.items()}
    at = f"/{envelope}/{prefix}" if envelope else f"/{prefix}"
    entry = change_of({envelope: body} if envelope else body)
    usual = change_of({"message": images | {"headers": HEADERS}})
    assert (entry.change.operation, entry.column_mask, entry.change_mask) == (Operation.UPDATE, 3, 2)
    assert entry.change.source_position == usual.change.source_position == "100"
    assert entry.headers_at.of("columnMask") == f"{at}columnMask"


@pytest.mark.parametrize(
    "message",
    [
        {"message": {"operation": "INSERT", "data": ROW}},
        {"message": {"headers": {"operation": "INSERT"}, "data": ROW}},
        {"message": {"headers_operation": "INSERT", "data": ROW}},
        {"headers": {"operation": "INSERT"}, "data": ROW},
        {"operation": "INSERT", "data": ROW},
    ],
)
def test_the_operation_is_found_in_each_place_that_a_task_can_give_it(message: Any) -> None:
    entry = change_of(message)
    assert (entry.change.operation, entry.change.after) == (Operation.INSERT, ROW)


@pytest.mark.parametrize(
    "timestamp", ["2026-01-05T09:30:00.000", 1767605400000, 1767605400000000, 1767605400.5, "", None]
)
@pytest.mark.parametrize("mask", ["3", "03", "0x3"])
def test_timestamps_may_be_numbers_and_masks_may_have_one_digit(timestamp: Any, mask: str) -> None:
    message = {"data": ROW, "headers": HEADERS | {"timestamp": timestamp, "columnMask": mask}}
    if mask == "0x3":
        with rejected(places=[(Code.BAD_MASK, 0, "/headers/columnMask", None)]):
            decoded(message)
    else:
        assert change_of(message).column_mask == 3


@pytest.mark.parametrize("nothing", ["", None])
def test_a_row_of_a_full_load_has_no_position_mask_or_counter(nothing: str | None) -> None:
    headers = dict.fromkeys(HEADERS, nothing) | {"operation": "REFRESH"}
    entry = change_of({"data": ROW, "headers": headers})
    assert (entry.change.operation, entry.change.source_position) == (Operation.SNAPSHOT, None)
    assert (entry.column_mask, entry.change_mask) == (None, None)
    assert entry.change.ends_transaction


@pytest.mark.parametrize(
    ("message", "pointer"),
    [
        ({"data": ROW, "headers": HEADERS, "headers_operation": "INSERT"}, "/headers_operation"),
        ({"data": ROW, "headers": HEADERS, "operation": "INSERT"}, "/operation"),
        ({"data": ROW, "headers_operation": "INSERT", "operation": "INSERT"}, "/headers_operation"),
        ({"data": ROW, "operation": 5}, "/operation"),
        ({"message": {"data": ROW, "operation": "INSERT", "changeMask": 3}}, "/message/changeMask"),
        ({"key": 1, "value": {"data": ROW, "headers": {}}}, "/value/headers"),
        ({"key": 1, "value": {"data": 5, "headers": HEADERS}}, "/value/data"),
        ({"key": 1, "value": {"message": {"data": ROW, "headers_operation": 5}}}, "/value/message/headers_operation"),
    ],
)
def test_what_is_wrong_is_named_where_it_is(message: Any, pointer: str) -> None:
    with rejected(places=[(Code.MALFORMED_MESSAGE, 1, pointer, None)]):
        decoded({"data": ROW, "headers": HEADERS}, message)


@pytest.mark.parametrize("keyed", [None, True])
def test_a_message_with_its_key_is_the_message_with_other_pointers(keyed: bool | None) -> None:
    message = {"magic": "atMSG", "type": "DT", "messageSchemaId": "7", "message": {"data": ROW, "headers": HEADERS}}
    entry, alone = change_of({"key": {"id": 1}, "value": message}, keyed=keyed), change_of(message)
    assert (entry.change.after, entry.schema_id, entry.column_mask) == (ROW, "7", 3)
    assert (alone.change.after_at, entry.change.after_at) == ("/message/data", "/value/message/data")
    assert (entry.key, alone.key) == ({"id": 1}, UNSET)


def test_a_key_without_a_message_is_ignored_and_counted() -> None:
    envelope = {"magic": "atMSG", "type": "DT", "message": None}
    assert decoded({"key": 1, "value": None}, {"key": 1, "value": envelope}).ignored == 2


@pytest.mark.parametrize("images", [{"data": None}, {}, {"data": None, "beforeData": None}])
def test_a_delete_without_an_image_keeps_its_key_for_later(images: dict[str, None]) -> None:
    entry = change_of({"key": {"id": 1}, "value": images | {"headers": HEADERS | {"operation": "DELETE"}}})
    assert (entry.key, entry.key_at, entry.change.before, entry.column_mask) == ({"id": 1}, "/key", None, None)


@pytest.mark.parametrize("message", [{"headers": {"operation": "DELETE"}}, {"operation": "DELETE", "data": None}])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_delete_with_neither_image_nor_key_is_rejected(message: Any, wrapped: bool) -> None:
    with rejected(places=[(Code.MALFORMED_MESSAGE, 0, "/value/data" if wrapped else "/data", None)]) as rejection:
        decoded({"key": None, "value": message} if wrapped else message)
    assert '{"key"' in rejection.detail


FROM_COLUMN = TableFrom.parse("data.tableName")


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ("kit", SourceName(None, None, "kit")),
        ("HR.JOBS", SourceName(None, "HR", "JOBS")),
        ("a.b.c", SourceName(None, None, "a.b.c")),
        (".b", SourceName(None, None, ".b")),
    ],
)
@pytest.mark.parametrize("operation", ["INSERT", "DELETE", "UPDATE"])
def test_a_column_names_the_table(value: str, source: SourceName, operation: str) -> None:
    message = {"message": {"data": {"ID": "2", "tableName": value}, "headers": {"operation": operation}}}
    assert change_of(message, table_from=FROM_COLUMN).source == source


@pytest.mark.parametrize(
    "written", ["/message/headers/table", "message.headers.table", "/message/data/tableName", "data.tableName"]
)
def test_a_place_of_the_message_names_the_table(written: str) -> None:
    message = {"message": {"data": {"tableName": "t"}, "headers": {"operation": "INSERT", "table": "t"}}}
    assert change_of(message, table_from=TableFrom.parse(written)).source == SourceName(None, None, "t")


def test_the_image_of_a_delete_or_its_key_names_the_table() -> None:
    for parts in ({"data": None, "beforeData": {"tableName": "t"}}, {"data": {"tableName": "t"}, "beforeData": None}):
        entry = change_of(parts | {"headers": {"operation": "DELETE"}}, table_from=FROM_COLUMN)
        assert entry.source == SourceName(None, None, "t")
    keyed = {"key": {"id": 1, "tableName": "t"}, "value": {"headers": {"operation": "DELETE"}}}
    assert change_of(keyed, table_from=FROM_COLUMN).source == SourceName(None, None, "t")


@pytest.mark.parametrize("value", [None, 5, "", {"a": 1}])
def test_a_message_that_names_no_table_is_rejected_at_that_place(value: Any) -> None:
    with rejected(places=[(Code.MALFORMED_MESSAGE, 0, "/data/tableName", None)]):
        decoded({"data": {"tableName": value}, "headers": HEADERS}, table_from=FROM_COLUMN)


@pytest.mark.parametrize("written", ["data_*", "/a//b", "", ".", "/message/*", "a.b.c.d.e.f.g.h.i"])
def test_a_place_that_cannot_name_a_table_is_a_bad_request(written: str) -> None:
    with rejected(Code.BAD_REQUEST):
        TableFrom.parse(written)


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
