"""What metadata messages may change in a table that has rows, what they may not, and what is told of it."""

from typing import Any

import pytest

from app.domain.model.names import TableName
from app.errors import Code
from app.staging.tables.events import list_events
from tests.support.ingest_harness import Gate
from tests.support.rejections import rejected
from tests.support.samples.messages import data, metadata
from tests.support.samples.schemas import schema_of

OLD = {"id": "INT8", "a": "WSTRING", "n": "INT4"}
RENAMED = {"id": "INT8", "b": "WSTRING", "n": "INT4"}


@pytest.fixture
def gate(gate: Gate) -> Gate:
    """One with a table of one row."""
    gate.replicate(metadata("s.t", OLD), data("INSERT", {"id": 1, "a": "one", "n": 1}, table="s.t"))
    return gate


def events(gate: Gate, name: str = "s.t") -> list[dict[str, Any]]:
    with gate.engine.begin() as connection:
        found = list_events(connection, TableName.parse(name), after=0, most=99)
    return [dict(event.details) for event in found if event.action == "change schema"]


def test_metadata_that_renames_a_column_is_rejected_and_changes_nothing(gate: Gate) -> None:
    before = gate.table("s.t")
    for facts in ({"version": 2}, {"task": "other"}):
        with rejected() as rejection:
            gate.replicate(metadata("s.t", RENAMED, **facts), data("UPDATE", {"id": 1, "b": "x", "n": 1}))
        pointer = "/message/tableStructure/tableColumns/b"
        assert rejection.places == [(Code.COLUMN_RENAMED, 0, pointer, "b")]
        assert "'a'" in rejection.text
        assert "Recreate" in rejection.text
        assert "PUT" in rejection.text
    assert (gate.table("s.t"), events(gate)) == (before, [])


def test_a_column_registered_first_is_another_column_and_no_rename(gate: Gate) -> None:
    gate.put("s.t", schema_of({"id": "int64", "a": "string", "n": "int32", "b": "string"}, ["id"], ["id"]))
    gate.replicate(metadata("s.t", RENAMED, version=2), data("UPDATE", {"id": 1, "b": "x", "n": 1}, table="s.t"))
    assert gate.landed("s.t", "a", "b") == [[0, "one", None], [1, None, "x"]]
    assert events(gate) == [{"by": "metadata message", "schema_version": 2, "left": ["a"]}]


def test_a_table_without_rows_may_have_its_columns_renamed(gate: Gate) -> None:
    gate.replicate(metadata("s.empty", OLD))
    gate.replicate(metadata("s.empty", RENAMED, version=2))
    assert gate.table("s.empty").left_columns == {"a"}


@pytest.mark.parametrize(
    "columns",
    [
        {"id": "INT8", "b": "INT4", "n": "INT4"},
        {"id": "INT8", "n": "INT4", "b": "WSTRING"},
        {"id": "INT8", "a": "WSTRING", "n": "INT4", "b": "WSTRING"},
        {"id": "INT8", "n": "INT4", "a": "WSTRING"},
    ],
    ids=["another type", "another ordinal", "nothing dropped", "only moved"],
)
def test_what_is_no_rename_is_accepted(gate: Gate, columns: dict[str, str]) -> None:
    gate.replicate(metadata("s.t", columns, version=2))


def test_a_column_in_another_letter_case_is_named_as_a_rename(gate: Gate) -> None:
    with rejected() as rejection:
        gate.replicate(metadata("s.t", {"id": "INT8", "A": "WSTRING", "n": "INT4"}, version=2))
    assert rejection.places == [(Code.COLUMN_RENAMED, 0, "/message/tableStructure/tableColumns/A", "A")]


def test_a_required_column_may_become_nullable_by_metadata(gate: Gate) -> None:
    required = {"id": "INT8", "r": {"type": "WSTRING", "nullable": False}}
    gate.replicate(metadata("s.r", required), data("INSERT", {"id": 1, "r": "x"}, table="s.r"))
    gate.replicate(metadata("s.r", {"id": "INT8", "r": {"type": "WSTRING", "nullable": True}}, version=2))
    gate.replicate(data("INSERT", {"id": 2, "r": None}, table="s.r"))
    assert gate.landed("s.r", "id", "r") == [[0, 1, "x"], [0, 2, None]]
    assert events(gate, "s.r") == [{"by": "metadata message", "schema_version": 2, "nullable": ["r"]}]


def test_every_accepted_schema_change_is_an_event(gate: Gate) -> None:
    gate.replicate(metadata("s.t", OLD | {"m": "DATE"}, version=2))
    gate.replicate(metadata("s.t", {"id": "INT8", "n": "INT4"}, version=3))
    gate.replicate(metadata("s.t", {"id": "INT8", "n": "INT4", "a": "WSTRING"}, version=4))
    gate.replicate(metadata("s.t", {"id": "INT8", "n": "INT4", "a": "WSTRING"}, version=5))
    gate.put("s.t", new_columns="add_as_string")
    gate.replicate(data("INSERT", {"id": 2, "n": 1, "a": "x", "seen": "y"}, table="s.t"))
    by_metadata = {"by": "metadata message", "schema_version": 2}
    assert events(gate) == [
        by_metadata | {"added": [{"name": "m", "type": "date"}]},
        by_metadata | {"left": ["a", "m"]},
        by_metadata | {"returned": ["a"]},
        {"by": "changes", "schema_version": 3, "added": [{"name": "seen", "type": "string"}]},
    ]


@pytest.mark.parametrize(
    ("column", "code"),
    [
        ({"type": "NUMERIC", "precision": 0, "scale": 0}, Code.INCOMPATIBLE_SCHEMA),
        ({"type": "kREP_INT4"}, Code.BAD_TYPE),
    ],
)
def test_a_key_whose_type_replicate_does_not_tell_says_to_register_it_first(
    gate: Gate, column: dict[str, Any], code: Code
) -> None:
    message = metadata("s.new", {"id": column, "x": "kREP_OTHER"})
    with rejected() as rejection:
        gate.replicate(message)
    assert rejection.places == [(code, 0, "/message/tableStructure/tableColumns/id", "id")]
    assert "PUT the table first" in rejection.detail
    schema = schema_of({"id": "int64", "x": "string"}, ["id"], ["id"])
    gate.put("s.new", schema, columns={"id": {"type": "int64"}})
    gate.replicate(message)
    assert gate.table("s.new").schema == schema


def test_a_column_that_may_hold_null_already_cannot_become_a_key(gate: Gate) -> None:
    for name, required in (("nullable", []), ("required", ["id"])):
        gate.put(name, schema_of({"id": "int64", "x": "int64"}, [], required))
        gate.replicate(data("INSERT", {"id": 1, "x": None}), table=name)
    keyed = schema_of({"id": "int64", "x": "int64"}, ["id"])
    with rejected() as rejection:
        gate.put("nullable", keyed)
    assert rejection.code is Code.INCOMPATIBLE_SCHEMA
    gate.put("required", schema_of({"id": "int64", "x": "int64"}, ["id"], ["id"]))
    gate.put("empty", schema_of({"id": "int64", "x": "int64"}))
    assert gate.put("empty", keyed).table.schema.key_columns == ("id",)
