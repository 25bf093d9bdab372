"""Arcion messages and the changes that they describe."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.domain.model.change import Change, Image, Operation
from app.domain.model.names import SourceName, TableName
from app.formats.arcion.messages import AddressedChange, decode_arcion, facts_of_cursor
from mirrorgate.errors import Code
from tests.support.rejections import rejected

NATION = TableName("tpch_scale_0_01", "nation")
REGION = TableName("io_blitzz", "region")


def nation(name: str) -> Image:
    return {"n_comment": "Testing comment", "n_nationkey": "100", "n_regionkey": "2", "n_name": name}


SAMPLES: dict[str, tuple[TableName, Operation, Image | None, Image | None]] = {
    "snapshot_insert": (NATION, Operation.INSERT, None, nation("Testing name")),
    "snapshot_update": (NATION, Operation.UPDATE, nation("Testing name"), nation("Updating test name")),
    "snapshot_delete": (NATION, Operation.DELETE, nation("Updating test name"), None),
    "realtime_insert": (REGION, Operation.INSERT, None, {"r_regionkey": "10", "r_comment": "India", "r_name": "India"}),
    "realtime_update": (REGION, Operation.UPDATE, {"r_regionkey": "10"}, {"r_regionkey": "10", "r_comment": "USA"}),
    "realtime_delete": (REGION, Operation.DELETE, {"r_regionkey": "10"}, None),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_documented_sample_is_this_change(samples: Path, name: str) -> None:
    body = (samples / "arcion" / f"{name}.json").read_bytes()
    table, operation, before, after = SAMPLES[name]
    cursor = json.loads(body)["cursor"]
    facts = facts_of_cursor(cursor)
    known = {"source_position": cursor, "source_time": json.loads(cursor)["timestamp"], "position_at": "/cursor"}
    known |= {"log_position": facts.log_position, "extracted_time": facts.extracted}
    known["operation_count"] = sum(json.loads(json.loads(body)["operationcount"]).values())
    change = Change(0, operation, before, after, "/before", "/after", **known)
    assert decode_arcion(body) == [AddressedChange(SourceName(None, table.schema, table.table), change)]


def test_all_documented_samples_make_one_request(samples: Path) -> None:
    bodies = [(samples / "arcion" / f"{name}.json").read_bytes() for name in SAMPLES]
    decoded = decode_arcion(b"".join(bodies))
    found = [(entry.source.table, entry.change.operation) for entry in decoded]
    assert found == [entry[:2] for entry in SAMPLES.values()]
    assert [entry.change.index for entry in decoded] == list(range(6))


def message(operation: str = "I", **members: Any) -> dict[str, Any]:
    defaults = {"tableName": {"name": "t"}, "opType": operation, "before": None, "after": None, "exists": {}}
    return defaults | members


def decoded(*messages: dict[str, Any]) -> list[AddressedChange]:
    return decode_arcion(json.dumps(list(messages)).encode())


def images(**members: Any) -> tuple[Image | None, Image | None]:
    [entry] = decoded(message(**members))
    return entry.change.before, entry.change.after


@pytest.mark.parametrize(
    ("namespace", "table"),
    [
        (None, "t"),
        ({"catalog": None, "schema": None}, "t"),
        ({"catalog": "c", "schema": "s"}, "s.t"),
        ({"catalog": "c", "schema": None}, "c.t"),
        ({"catalog": "c", "schema": "default_schema"}, "c.t"),
        ({"catalog": None, "schema": "default_schema"}, "t"),
        ({"catalog": None, "schema": "s", "hash": 1}, "s.t"),
        ({"catalog": "c"}, "c.t"),
    ],
)
def test_the_namespace_gives_the_schema_folder(namespace: dict[str, Any] | None, table: str) -> None:
    [entry] = decoded(message(tableName={"namespace": namespace, "name": "t"}))
    assert str(entry.source.table) == table


@pytest.mark.parametrize(
    ("operation", "flag", "before", "after", "expected"),
    [
        ("I", 0, None, None, (None, {})),
        ("I", 0, None, "placeholder", (None, {})),
        ("I", 1, "null", "new", (None, {"a": "new"})),
        ("I", 1, None, "null", (None, {"a": None})),
        ("U", 0, "old", "new", ({}, {})),
        ("U", 1, "null", "new", ({}, {"a": "new"})),
        ("U", 2, "old", "null", ({"a": "old"}, {"a": "old"})),
        ("U", 3, "old", "new", ({"a": "old"}, {"a": "new"})),
        ("U", 3, "null", "null", ({"a": None}, {"a": None})),
        ("D", 0, "null", "null", ({}, None)),
        ("D", 2, "old", "null", ({"a": "old"}, None)),
        ("D", 3, "old", "new", ({"a": "old"}, None)),
        ("R", 1, "null", "new", ({}, {"a": "new"})),
        ("R", 3, "old", "new", ({"a": "old"}, {"a": "new"})),
    ],
)
@pytest.mark.parametrize("spelling", [int, str])
@pytest.mark.parametrize("extra", [{}, {"b": 0}], ids=["alone", "beside one that is not given"])
def test_exists_says_which_images_hold_a_column(
    operation: str, flag: int, before: Any, after: Any, expected: Any, spelling: type, extra: dict[str, int]
) -> None:
    exists = {column: spelling(given) for column, given in {"a": flag, **extra}.items()}
    assert images(operation=operation, before={"a": before}, after={"a": after}, exists=exists) == expected


@pytest.mark.parametrize(
    ("operation", "flag", "code", "pointer"),
    [
        ("I", 2, Code.EXISTS_MISMATCH, "/exists/a"),
        ("I", 3, Code.EXISTS_MISMATCH, "/exists/a"),
        ("D", 1, Code.EXISTS_MISMATCH, "/exists/a"),
        ("U", 4, Code.BAD_EXISTS, "/exists/a"),
        ("U", -1, Code.BAD_EXISTS, "/exists/a"),
        ("U", "", Code.BAD_EXISTS, "/exists/a"),
        ("U", "01", Code.BAD_EXISTS, "/exists/a"),
        ("U", "3 ", Code.BAD_EXISTS, "/exists/a"),
        ("U", 10**30, Code.BAD_EXISTS, "/exists/a"),
    ],
)
def test_exists_that_cannot_be_is_rejected(operation: str, flag: Any, code: Code, pointer: str) -> None:
    with rejected(places=[(code, 0, pointer, "a")]):
        decoded(message(operation, before={"a": "x"}, after={"a": "y"}, exists={"a": flag}))


@pytest.mark.parametrize(
    ("operation", "before", "after", "flag", "pointer"),
    [
        ("I", None, None, 1, "/after/a"),
        ("I", None, {}, 1, "/after/a"),
        ("U", {"a": "1"}, {}, 3, "/after/a"),
        ("U", {}, {"a": "1"}, 3, "/before/a"),
        ("U", {}, {}, 2, "/before/a"),
        ("D", None, None, 2, "/before/a"),
        ("I", None, {"a": "1", "b": "2"}, 1, "/exists/b"),
        ("U", {"a": "1", "b": "2"}, {"a": "1"}, 3, "/exists/b"),
        ("D", {"a": "1", "b": "2"}, None, 2, "/exists/b"),
    ],
)
def test_exists_that_disagrees_with_the_images_is_rejected(
    operation: str, before: Any, after: Any, flag: int, pointer: str
) -> None:
    with rejected(places=[(Code.EXISTS_MISMATCH, 0, pointer, pointer[-1])]):
        decoded(message(operation, before=before, after=after, exists={"a": flag}))


def test_only_the_four_letters_null_are_sql_null() -> None:
    values = {"a": "null", "b": "NULL", "c": "", "d": " null", "e": None, "f": 0}
    _, after = images(after=values, exists=dict.fromkeys(values, 1))
    assert after == {"a": None, "b": "NULL", "c": "", "d": " null", "e": None, "f": 0}


@pytest.mark.parametrize(
    ("cursor", "position"),
    [(None, None), ("", ""), ("not JSON {", "not JSON {"), ('{"v":2}', '{"v":2}'), ({"v": 2}, '{"v":2}')],
)
def test_the_cursor_is_kept_as_it_came(cursor: Any, position: str | None) -> None:
    [entry] = decoded(message(cursor=cursor))
    assert entry.change.source_position == position


@pytest.mark.parametrize("operation", ["i", "X", "", "INSERT", "T"])
def test_another_operation_is_rejected(operation: str) -> None:
    with rejected(places=[(Code.BAD_OP, 0, "/opType", None)]):
        decoded(message(operation))


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_a_table_without_a_name_or_with_a_long_one_is_rejected(name: str) -> None:
    with rejected(places=[(Code.BAD_NAME, 0, "/tableName", None)]):
        decoded(message(tableName={"name": name}))


@pytest.mark.parametrize("missing", ["tableName", "opType"])
def test_a_message_without_a_required_key_is_rejected(missing: str) -> None:
    with rejected(places=[(Code.MALFORMED_MESSAGE, 0, "", None)]):
        decoded({name: value for name, value in message().items() if name != missing})


def native(operation: str, **members: Any) -> dict[str, Any]:
    return {name: value for name, value in message(operation, **members).items() if name != "exists"}


@pytest.mark.parametrize("exists", [{}, {"exists": None}], ids=["left out", "null"])
def test_without_exists_a_column_is_given_where_an_image_has_it(exists: dict[str, None]) -> None:
    cursor = {"log": "binlog.000007", "position": 4}
    update = native("U", before={"id": "1"}, after={"note": "null"}, cursor=cursor) | exists
    found = [entry.change for entry in decoded(native("I", after={"id": 1}) | exists, update)]
    assert [(change.before, change.after) for change in found] == [(None, {"id": 1}), ({"id": "1"}, {"note": None})]
    assert found[1].source_position == '{"log":"binlog.000007","position":4}'


@pytest.mark.parametrize(("operation", "image"), [("I", "before"), ("D", "after")])
def test_without_exists_an_image_that_cannot_be_is_rejected(operation: str, image: str) -> None:
    with rejected(places=[(Code.EXISTS_MISMATCH, 0, f"/{image}", None)]):
        decoded(native(operation, **{image: {"id": "1"}}))


def test_every_wrong_message_is_named() -> None:
    with rejected() as rejection:
        decoded(message(), message("?"), message(), message(exists={"a": 9}), message(tableName={"name": ""}))
    assert [place[:2] for place in rejection.places] == [(Code.BAD_OP, 1), (Code.BAD_EXISTS, 3), (Code.BAD_NAME, 4)]


def test_a_pointer_escapes_the_column() -> None:
    with rejected(places=[(Code.BAD_EXISTS, 0, "/exists/a~1b~0c", "a/b~c")]):
        decoded(message(exists={"a/b~c": 9}))


def test_a_rejection_never_repeats_a_value() -> None:
    for wrong in (
        message("canary-7391"),
        message(exists={"a": "7391"}),
        message("D", before={"a": "canary-7391"}, exists={"a": 1}),
    ):
        with rejected() as rejection:
            decoded(wrong)
        assert "7391" not in rejection.text
