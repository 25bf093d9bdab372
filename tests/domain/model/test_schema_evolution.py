"""Schemas that can be registered for an existing table."""

import pytest

from app.domain.model.table_schema import TableSchema, evolve
from app.errors import Code
from tests.support.rejections import rejected
from tests.support.samples.schemas import schema_of

KEYED = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)"}, ["id"], required=["id"])
KEYLESS = schema_of({"id": "int64", "name": "string"})


@pytest.mark.parametrize(
    "wanted",
    [
        KEYED,
        schema_of({"total": "decimal(9,2)", "name": "string", "id": "int64"}, ["id"], required=["id"]),
        schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"]),
        schema_of({"id": "int64"}, ["id"], required=["id"]),
    ],
    ids=["the same", "another order", "without a nullable column", "without any nullable column"],
)
def test_nothing_changes_when_nothing_is_added(wanted: TableSchema) -> None:
    assert evolve(KEYED, wanted) == KEYED


def test_new_nullable_columns_go_to_the_end_in_their_own_order() -> None:
    wanted = schema_of({"new": "date", "id": "int64", "newer": "json", "name": "string"}, ["id"], required=["id"])
    assert evolve(KEYED, wanted).names == ("id", "name", "total", "new", "newer")


def test_a_keyless_table_gains_keys_and_columns_at_once() -> None:
    evolved = evolve(KEYLESS, schema_of({"id": "int64", "name": "string", "day": "date"}, ["id"]))
    assert evolved.key_columns == ("id",)
    assert evolved.names == ("id", "name", "day")


def test_a_keyless_table_gains_keys_only_once() -> None:
    once = evolve(KEYLESS, schema_of({"id": "int64", "name": "string"}, ["id"]))
    with rejected() as rejection:
        evolve(once, schema_of({"id": "int64", "name": "string"}, ["id", "name"]))
    assert rejection.code == Code.INCOMPATIBLE_SCHEMA


@pytest.mark.parametrize(
    "wanted",
    [
        schema_of({"id": "int32", "name": "string"}, ["id"], required=["id"]),
        schema_of({"id": "int64", "total": "decimal(10,2)"}, ["id"], required=["id"]),
        schema_of({"id": "int64", "total": "decimal(9,3)"}, ["id"], required=["id"]),
        schema_of({"id": "int64", "name": "json"}, ["id"], required=["id"]),
        schema_of({"name": "string"}),
        schema_of({"name": "string"}, ["name"]),
        schema_of({"id": "int64", "name": "string"}, ["name"], required=["id"]),
        schema_of({"id": "int64", "name": "string"}, ["id", "name"], required=["id"]),
        schema_of({"id": "int64"}, required=["id"]),
        schema_of({"id": "int64"}, ["id"]),
        schema_of({"id": "int64", "name": "string"}, ["id"], required=["id", "name"]),
        schema_of({"id": "int64", "new": "string"}, ["id"], required=["id", "new"]),
    ],
    ids=[
        "narrower type",
        "other precision",
        "other scale",
        "string as json",
        "required column left out",
        "key left out",
        "other key",
        "more keys",
        "no keys",
        "required becomes nullable",
        "nullable becomes required",
        "new required column",
    ],
)
def test_a_change_of_type_key_or_need_is_rejected(wanted: TableSchema) -> None:
    with rejected() as rejection:
        evolve(KEYED, wanted)
    assert rejection.code == Code.INCOMPATIBLE_SCHEMA


def test_a_required_column_may_become_nullable_unless_it_is_a_key() -> None:
    required = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id", "name"])
    relaxed = schema_of({"id": "int64", "name": "string"}, ["id"], required=["id"])
    assert evolve(required, relaxed) == relaxed
    assert evolve(required, relaxed).file_schema(marker_first=True) == required.file_schema(marker_first=True)
    with rejected() as rejection:
        evolve(required, schema_of({"id": "int64", "name": "string"}, ["id"], required=["name"]))
    assert rejection.code == Code.INCOMPATIBLE_SCHEMA


def test_a_new_column_that_differs_only_in_case_is_rejected() -> None:
    with rejected() as rejection:
        evolve(KEYED, schema_of({"id": "int64", "NAME": "string"}, ["id"], required=["id"]))
    assert rejection.code == Code.BAD_SCHEMA


def test_evolving_twice_to_the_same_schema_changes_nothing_more() -> None:
    wanted = schema_of({"id": "int64", "new": "date"}, ["id"], required=["id"])
    evolved = evolve(KEYED, wanted)
    assert evolve(evolved, wanted) == evolved
