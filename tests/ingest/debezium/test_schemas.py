"""Connect schemas register tables and add columns to them, as Replicate's metadata does."""

import json
from decimal import Decimal
from typing import Any

import pytest

from app.domain.access.rights import Principal, Right
from app.domain.model.table import schema_change
from app.formats.debezium.values import DEFAULT_PLACEHOLDER
from app.ingest import DebeziumJson
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.debezium import Field, event, flat_with_schema, key_with_schema, keyed, with_schema
from tests.support.samples.schemas import schema_of

KEY: dict[str, Field] = {"id": {"type": "int32", "optional": False}}
ROW: dict[str, Field] = {**KEY, "note": "string"}
SENDER = Principal("sender", frozenset({Right.INGEST}), ("*",))


def created(row: dict[str, Any], columns: dict[str, Field] = ROW, table: str = "public.t") -> dict[str, Any]:
    value = with_schema(event("c", table, after=row), columns)
    return keyed(key_with_schema({"id": row["id"]}, KEY), value)


def column_types(harness: IngestHarness, table: str = "public.t") -> dict[str, str]:
    columns = harness.table(table).schema.columns
    return {column.name: f"{column.type}{'' if column.nullable else ' not null'}" for column in columns}


def decimal_of(precision: int, scale: int) -> Field:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}


def test_a_schema_registers_its_table_with_the_key_of_the_record(harness: IngestHarness) -> None:
    columns = {**KEY, "price": decimal_of(10, 2), "new": {"type": "boolean", "optional": False}}
    harness.debezium(created({"id": 1, "price": "AeJA", "new": True}, columns))
    assert column_types(harness) == {"id": "int32 not null", "price": "decimal(10,2)", "new": "boolean not null"}
    assert harness.table("public.t").schema.key_columns == ("id",)
    assert harness.landed("public.t", "id", "price", "new") == [[0, 1, Decimal("1234.56"), True]]


def test_a_schema_adds_columns_and_keeps_those_that_leave(harness: IngestHarness) -> None:
    required: Field = {"type": "string", "optional": False}
    harness.debezium(created({"id": 1, "gone": "a"}, {**KEY, "gone": required}))
    harness.debezium(
        created({"id": 2}, KEY),
        created({"id": 3, "gone": "b", "more": 1.5}, {**KEY, "gone": required, "more": "double"}),
        created({"id": 4, "gone": "c"}, {**KEY, "gone": required}),
    )
    assert column_types(harness) == {"id": "int32 not null", "gone": "string", "more": "float64"}
    found = [row[1:] for row in harness.landed("public.t", "id", "gone", "more")]
    assert found == [[1, "a", None], [2, None, None], [3, "b", 1.5], [4, "c", None]]


NUMBER: Field = {"type": "int32", "optional": False, "default": 7}
ADDED: dict[str, Field] = {
    "filled": {"type": "string", "default": "x"},
    "required": {"type": "int32", "optional": False},
    "plain": "string",
    "excluded": {"type": "string", "default": "x"},
}


def test_rows_that_lack_a_new_column_with_a_default_are_told(harness: IngestHarness) -> None:
    harness.debezium(created({"id": 1, "from_start": 7}, {**KEY, "from_start": NUMBER}))
    harness.put("public.t", exclude=["excluded"], partial_updates="complete")
    assert harness.table("public.t").late_columns == {}  # no row was accepted before
    harness.debezium(created({"id": 2, "from_start": 7}, {**KEY, "from_start": NUMBER}))
    before = harness.table("public.t")
    row = {"id": 3, "from_start": 7, "filled": "x", "required": 0, "plain": None, "excluded": "x"}
    fields = {**KEY, "from_start": NUMBER, **ADDED}
    harness.debezium(created(row, fields))
    after = harness.table("public.t")
    assert after.late_columns == {"filled": 2, "required": 2}
    assert schema_change(before, after)["rows_lack"] == ["filled", "required"]
    harness.debezium(created({**row, "id": 4}, fields))
    assert harness.table("public.t").late_columns == after.late_columns


def test_rows_before_a_new_column_in_the_same_request_lack_its_default_too(harness: IngestHarness) -> None:
    filled = {**KEY, "filled": {"type": "string", "default": "x"}}
    harness.debezium(created({"id": 1}, KEY), created({"id": 2, "filled": "x"}, filled))
    assert harness.table("public.t").late_columns == {"filled": 1}
    wider: dict[str, Field] = {**filled, "later": NUMBER}
    harness.debezium(created({"id": 3, "filled": "x"}, filled), created({"id": 4, "filled": "x", "later": 7}, wider))
    assert harness.table("public.t").late_columns == {"filled": 1, "later": 2}


def test_a_row_image_from_before_a_default_does_not_complete_its_column(harness: IngestHarness) -> None:
    fields = {**KEY, "note": "string"}
    key = key_with_schema({"id": 1}, KEY)
    harness.debezium(created({"id": 1, "note": "a"}, fields))
    harness.put("public.t", partial_updates="complete")
    harness.debezium(keyed(key, with_schema(event("u", "public.t", None, {"id": 1, "note": "b"}), fields)))
    wider = {**fields, "big": {"type": "string", "default": "long"}}
    partial = {"id": 1, "note": "c", "big": DEFAULT_PLACEHOLDER}
    with rejected() as rejection:
        harness.debezium(keyed(key, with_schema(event("u", "public.t", None, partial), wider)))
    assert [place[0] for place in rejection.places] == [Code.INCOMPLETE_UPDATE]
    harness.debezium(keyed(key, with_schema(event("u", "public.t", None, {**partial, "big": "z"}), wider)))
    harness.debezium(keyed(key, with_schema(event("u", "public.t", None, {**partial, "note": "d"}), wider)))
    assert harness.landed("public.t", "note", "big")[-1] == [1, "d", "z"]


def test_a_schema_of_a_table_without_a_key_needs_one(harness: IngestHarness) -> None:
    event_alone = with_schema(event("c", "public.t", after={"id": 1, "note": "a"}), ROW)
    with rejected() as rejection:
        harness.debezium(event_alone)
    assert (rejection.places[0][:2], "key_columns=" in rejection.detail) == ((Code.BAD_SCHEMA, 0), True)
    harness.debezium(event_alone, key_columns=("id",))
    assert harness.table("public.t").schema.key_columns == ("id",)
    for no_key, table in ((None, "public.log"), ("default", "public.arcion")):
        harness.debezium(keyed(no_key, with_schema(event("c", table, after={"id": 1, "note": "a"}), ROW)))
        assert harness.table(table).schema.key_columns == ()


def test_a_schema_that_changes_a_table_needs_the_right_to_register(harness: IngestHarness) -> None:
    with rejected(Code.FORBIDDEN):
        harness.debezium(created({"id": 1, "note": "a"}), key=SENDER)
    harness.debezium(created({"id": 1, "note": "a"}))
    harness.debezium(created({"id": 2, "note": "b"}), key=SENDER)
    assert len(harness.rows("public.t")) == 2


def test_a_renamed_column_is_rejected(harness: IngestHarness) -> None:
    harness.debezium(created({"id": 1, "note": "a"}))
    with rejected(Code.COLUMN_RENAMED):
        harness.debezium(created({"id": 1, "text": "a"}, {**KEY, "text": "string"}))
    with rejected(Code.COLUMN_RENAMED):
        harness.debezium(created({"id": 1, "NOTE": "a"}, {**KEY, "NOTE": "string"}))


@pytest.mark.parametrize(
    ("present", "later", "is_renamed"),
    [
        (["id", "n", "t"], ["id", "n", "t2"], True),
        (["id", "n", "t"], ["id", "n2", "t2"], True),
        (["id", "t", "n"], ["id", "n2"], True),  # t dropped, n renamed
        (["id", "n", "t", "b"], ["id", "t2", "b"], True),
        (["id", "t", "n"], ["id", "n", "t2"], False),  # t dropped, t2 appended
        (["id", "t"], ["id", "n2", "t2"], False),
        (["id", "t", "n", "b"], ["id", "b", "n2"], False),
    ],
)
def test_a_column_is_renamed_if_the_new_one_has_its_type_between_the_same_columns(
    harness: IngestHarness, present: list[str], later: list[str], is_renamed: bool
) -> None:
    """The first letter of a column says its type."""
    types: dict[str, Field] = {"i": KEY["id"], "n": "int64", "t": "string", "b": "boolean"}
    harness.debezium(created(dict.fromkeys(present) | {"id": 1}, {name: types[name[0]] for name in present}))
    message = created(dict.fromkeys(later) | {"id": 2}, {name: types[name[0]] for name in later})
    if is_renamed:
        with rejected(Code.COLUMN_RENAMED):
            harness.debezium(message)
    else:
        harness.debezium(message)


def test_a_column_that_the_source_dropped_and_one_that_it_added_are_told_apart_by_a_put(harness: IngestHarness) -> None:
    """Either before the column is added, without the dropped one, or after its event was rejected, with the new one."""
    for name, table in (("before", {}), ("after", {"other": "string"})):
        harness.debezium(created({"id": 1, "note": "a"}, table=f"public.{name}"))
        harness.debezium(created({"id": 2}, KEY, table=f"public.{name}"))
        added = created({"id": 3, "other": "b"}, {**KEY, "other": "string"}, table=f"public.{name}")
        if table:
            with rejected(Code.COLUMN_RENAMED):
                harness.debezium(added)
        harness.put(f"public.{name}", schema_of({"id": "int32", **table}, ["id"], ["id"]))
        harness.debezium(added)
        assert harness.landed(f"public.{name}", "id", "other")[-1] == [0, 3, "b"]


@pytest.mark.parametrize(
    ("present", "written", "fits"),
    [
        ("int64", "int32", True),
        ("int32", "int64", False),
        ("int64", "double", True),
        ("string", "int64", True),
        ("int32", "string", False),
        ("float32", "double", False),
        ("boolean", "int16", True),
        ("decimal(12,2)", "string", True),
        ("json", {"type": "array", "items": {"type": "int32"}}, True),
        ("int64", {"type": "int64", "name": "io.debezium.time.MicroTime"}, True),
        ("date", {"type": "int64", "name": "io.debezium.time.Timestamp"}, True),
        ("timestamp", "int64", False),
    ],
)
def test_a_column_keeps_its_type_if_that_holds_the_values(
    harness: IngestHarness, present: str, written: Field, fits: bool
) -> None:
    harness.put("public.t", schema_of({"id": "int32", "v": present}, ["id"], ["id"]))
    message = created({"id": 1, "v": None}, {**KEY, "v": written})
    if fits:
        harness.debezium(message)
    else:
        with rejected() as rejection:
            harness.debezium(message)
        assert rejection.places[0][:3] == (Code.INCOMPATIBLE_SCHEMA, 0, "/value/payload/after")


def test_a_decimal_that_no_type_holds_needs_a_type(harness: IngestHarness) -> None:
    message = created({"id": 1, "v": "AQ=="}, {**KEY, "v": decimal_of(65, 0)})
    with rejected(Code.INCOMPATIBLE_SCHEMA):
        harness.debezium(message)
    harness.put("public.t", schema_of({"id": "int32", "v": "string"}, ["id"], ["id"]))
    harness.debezium(message)
    assert harness.landed("public.t", "v") == [[0, "1"]]


def test_fields_of_a_transformation_are_no_columns(harness: IngestHarness) -> None:
    row = {"id": 1, "note": "a", "__deleted": "false", "__op": "c", "__source_ts_ms": 5}
    added: dict[str, Field] = {"__deleted": "string", "__op": "string", "__source_ts_ms": "int64"}
    harness.debezium(keyed({"id": 1}, flat_with_schema(row, {**ROW, **added})), table="t")
    assert column_types(harness, "t") == {"id": "int32 not null", "note": "string"}


def test_a_dry_run_registers_nothing(harness: IngestHarness) -> None:
    preview = harness.dry_run(DebeziumJson(json.dumps(created({"id": 1, "note": "a"})).encode()))
    assert preview.tables[0].rows == [{"id": 1, "note": "a", "__rowMarker__": 0}]
    with rejected(Code.UNKNOWN_TABLE):
        harness.debezium(event("c", "public.t", after={"id": 1, "note": "a"}))
