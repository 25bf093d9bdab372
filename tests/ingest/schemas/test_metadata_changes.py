"""Schema changes by metadata messages: which are allowed for a table with rows, and what is reported."""

from typing import Any

import pytest

from app.domain.model.names import TableName
from app.staging.tables.events import list_events
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.postgres import sql
from tests.support.rejections import rejected
from tests.support.samples.messages import data, metadata
from tests.support.samples.schemas import schema_of

OLD = {"id": "INT8", "a": "WSTRING", "n": "INT4"}
RENAMED = {"id": "INT8", "b": "WSTRING", "n": "INT4"}


@pytest.fixture
def harness(harness: IngestHarness) -> IngestHarness:
    """Give a harness with a table of one row."""
    harness.replicate(metadata("s.t", OLD), data("INSERT", {"id": 1, "a": "one", "n": 1}, table="s.t"))
    return harness


def events(harness: IngestHarness, name: str = "s.t") -> list[dict[str, Any]]:
    found = sql.call(harness.engine, list_events, TableName.parse(name), after=0, limit=99)
    return [dict(event.details) for event in found if event.action == "change schema"]


def test_metadata_that_renames_a_column_is_rejected_and_changes_nothing(harness: IngestHarness) -> None:
    before = harness.table("s.t")
    for facts in ({"version": 2}, {"task": "other"}):
        with rejected() as rejection:
            harness.replicate(metadata("s.t", RENAMED, **facts), data("UPDATE", {"id": 1, "b": "x", "n": 1}))
        pointer = "/message/tableStructure/tableColumns/b"
        assert rejection.places == [(Code.COLUMN_RENAMED, 0, pointer, "b")]
        assert "'a'" in rejection.text
        assert "rebuild" in rejection.text
        assert "PUT" in rejection.text
    assert (harness.table("s.t"), events(harness)) == (before, [])


def test_a_column_registered_first_is_another_column_and_no_rename(harness: IngestHarness) -> None:
    harness.put("s.t", schema_of({"id": "int64", "a": "string", "n": "int32", "b": "string"}, ["id"], ["id"]))
    harness.replicate(metadata("s.t", RENAMED, version=2), data("UPDATE", {"id": 1, "b": "x", "n": 1}, table="s.t"))
    assert harness.landed("s.t", "a", "b") == [[0, "one", None], [1, None, "x"]]
    assert events(harness) == [{"by": "metadata message", "schema_version": 2, "left": ["a"]}]


def test_a_table_without_rows_may_have_its_columns_renamed(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.empty", OLD))
    harness.replicate(metadata("s.empty", RENAMED, version=2))
    assert harness.table("s.empty").left_columns == {"a"}


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
def test_what_is_no_rename_is_accepted(harness: IngestHarness, columns: dict[str, str]) -> None:
    harness.replicate(metadata("s.t", columns, version=2))


def test_a_column_in_another_letter_case_is_named_as_a_rename(harness: IngestHarness) -> None:
    with rejected(places=[(Code.COLUMN_RENAMED, 0, "/message/tableStructure/tableColumns/A", "A")]):
        harness.replicate(metadata("s.t", {"id": "INT8", "A": "WSTRING", "n": "INT4"}, version=2))


def test_a_required_column_may_become_nullable_by_metadata(harness: IngestHarness) -> None:
    required = {"id": "INT8", "r": {"type": "WSTRING", "nullable": False}}
    harness.replicate(metadata("s.r", required), data("INSERT", {"id": 1, "r": "x"}, table="s.r"))
    harness.replicate(metadata("s.r", {"id": "INT8", "r": {"type": "WSTRING", "nullable": True}}, version=2))
    harness.replicate(data("INSERT", {"id": 2, "r": None}, table="s.r"))
    assert harness.landed("s.r", "id", "r") == [[0, 1, "x"], [0, 2, None]]
    assert events(harness, "s.r") == [{"by": "metadata message", "schema_version": 2, "nullable": ["r"]}]


def test_every_accepted_schema_change_is_an_event(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.t", OLD | {"m": "DATE"}, version=2))
    harness.replicate(metadata("s.t", {"id": "INT8", "n": "INT4"}, version=3))
    harness.replicate(metadata("s.t", {"id": "INT8", "n": "INT4", "a": "WSTRING"}, version=4))
    harness.replicate(metadata("s.t", {"id": "INT8", "n": "INT4", "a": "WSTRING"}, version=5))
    harness.put("s.t", new_columns="add_as_string")
    harness.replicate(data("INSERT", {"id": 2, "n": 1, "a": "x", "seen": "y"}, table="s.t"))
    by_metadata = {"by": "metadata message", "schema_version": 2}
    assert events(harness) == [
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
    harness: IngestHarness, column: dict[str, Any], code: Code
) -> None:
    message = metadata("s.new", {"id": column, "x": "kREP_OTHER"})
    with rejected(places=[(code, 0, "/message/tableStructure/tableColumns/id", "id")]) as rejection:
        harness.replicate(message)
    assert "PUT the table first" in rejection.detail
    schema = schema_of({"id": "int64", "x": "string"}, ["id"], ["id"])
    harness.put("s.new", schema, columns={"id": {"type": "int64"}})
    harness.replicate(message)
    assert harness.table("s.new").schema == schema


def test_a_column_that_may_hold_null_already_cannot_become_a_key(harness: IngestHarness) -> None:
    for name, required in (("nullable", []), ("required", ["id"])):
        harness.put(name, schema_of({"id": "int64", "x": "int64"}, [], required))
        harness.replicate(data("INSERT", {"id": 1, "x": None}), table=name)
    keyed = schema_of({"id": "int64", "x": "int64"}, ["id"])
    with rejected(Code.INCOMPATIBLE_SCHEMA):
        harness.put("nullable", keyed)
    harness.put("required", schema_of({"id": "int64", "x": "int64"}, ["id"], ["id"]))
    harness.put("empty", schema_of({"id": "int64", "x": "int64"}))
    assert harness.put("empty", keyed).table.schema.key_columns == ("id",)
