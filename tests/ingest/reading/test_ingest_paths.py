"""Each accepted request is counted under the path that read it, with the reason if that was the exact path."""

from typing import Any

import pytest

from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness, counted_paths
from tests.support.rejections import rejected
from tests.support.samples.debezium import Field, event, flat_with_schema, key_with_schema, keyed, with_schema
from tests.support.samples.messages import Message, arcion
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "note": "string"}, ["id"], ["id"])
LONG = "n" * 2**14
FLAGGED = {"deletes": "flag", "row_images": "on", "audit_columns": {"deleted": "gone"}}


def insert(note: str, **more: str) -> Message:
    return arcion("t", None, {"id": "1", "note": note} | more)


ARCION = {
    "short": ({}, insert("n"), ("arcion", "columnar", "")),
    "long": ({}, insert(LONG), ("arcion", "columnar", "")),
    "a known column": ({"new_columns": "add_as_string"}, insert("n"), ("arcion", "columnar", "")),
    "a new column": ({"new_columns": "add_as_string"}, insert("n", other="x"), ("arcion", "exact", "images")),
    "a table that needs each change": ({"exclude": ["note"]}, insert("n"), ("arcion", "exact", "table")),
    "an insert of a table that flags deletes": (FLAGGED, insert("n"), ("arcion", "columnar", "")),
    "a flagged delete": (FLAGGED, arcion("t", {"id": "1"}), ("arcion", "columnar", "")),
    "a key": ({}, insert("n") | {"more": "x"}, ("arcion", "exact", "body")),
    "a row": ({"dead_letters": "accept"}, arcion("t", None, {"id": "x"}), ("arcion", "exact", "rows")),
}


@pytest.mark.parametrize(("options", "message", "expected"), ARCION.values(), ids=ARCION)
def test_a_request_is_counted_under_the_path_that_read_it(
    harness: IngestHarness, options: dict[str, Any], message: Message, expected: tuple[str, str, str]
) -> None:
    harness.put("t", SCHEMA, **options)
    with counted_paths(expected):
        accepted = harness.arcion(message, keep_rejected="dead_letters" in options)
    assert accepted.receipts or accepted.dead_letters


ROWS = {
    "a row": ({}, {"id": 1, "note": "n"}, ("rows", "columnar", "")),
    "an operation": ({}, {"id": 1, "note": 7, "__op__": "insert"}, ("rows", "columnar", "")),
    "a delete": ({}, {"id": 1, "__op__": "delete"}, ("rows", "columnar", "")),
    "a partial row": ({"partial_updates": "complete"}, {"id": 1}, ("rows", "columnar", "")),
    "a list": ({}, {"id": 1, "note": ["n"], "__op__": "d"}, ("rows", "exact", "images")),
    "a table that needs each change": ({"exclude": ["note"]}, {"id": 1, "note": "n"}, ("rows", "exact", "table")),
    "a column": ({"new_columns": "add_as_string"}, {"id": 1, "note": "n", "other": "x"}, ("rows", "exact", "images")),
}


@pytest.mark.parametrize(("options", "row", "expected"), ROWS.values(), ids=ROWS)
def test_plain_rows_are_counted_under_the_path_that_read_them(
    harness: IngestHarness, options: dict[str, str], row: dict[str, object], expected: tuple[str, str, str]
) -> None:
    harness.put("t", SCHEMA, **options)
    with counted_paths(expected):
        assert harness.plain_rows("t", row).receipts


@pytest.mark.parametrize("columns", [{}, {"new_columns": "add_as_string"}])
def test_inserts_of_a_table_whose_files_have_no_marker_are_read_as_columns_if_it_has_no_keys(
    harness: IngestHarness, columns: dict[str, str]
) -> None:
    keyless = schema_of({"id": "int64", "note": "string"})
    harness.put("t", keyless, initial_load="without_marker", **columns)
    with counted_paths(("arcion", "columnar", ""), ("rows", "columnar", ""), ("rows", "exact", "rows")):
        harness.arcion(insert("n"))
        harness.plain_rows("t", {"id": 1, "note": "n", "__op__": "insert"})
        with rejected():  # by the exact path
            harness.plain_rows("t", {"id": 1, "__op__": "delete"})
    assert harness.landed("t", "id", "note") == [[0, 1, "n"], [0, 1, "n"]]
    assert (harness.table("t").schema.bare, harness.table("t").schema_version) == (True, 1)


COLUMNS: dict[str, Field] = {"id": {"type": "int64", "optional": False}, "note": "string"}
MORE: dict[str, Field] = {"more": "int32"}
FLAT = {"id": 1, "note": "n", "__op": "u", "__schema": "s", "__table": "t"}
ADDED: dict[str, Field] = {"__op": "string", "__schema": "string", "__table": "string"}


DEBEZIUM = {
    "an event": ({}, event("c", "s.t", after={"id": 1, "note": "n"}), ("debezium", "columnar", "")),
    "a schema": (
        {},
        with_schema(event("r", "s.t", after={"id": 1, "note": "n"}), COLUMNS),
        ("debezium", "columnar", ""),
    ),
    "a key": (
        {},
        keyed(key_with_schema({"id": 1}, {"id": "int64"}), with_schema(event("d", "s.t", {"id": 1}), COLUMNS)),
        ("debezium", "columnar", ""),
    ),
    "a new column": (
        {},
        with_schema(event("c", "s.t", after={"id": 1}), COLUMNS | {"more": "int32"}),
        ("debezium", "exact", "table"),
    ),
    "a flattened row": (
        {},
        {"__op": "c", "__source_schema": "s", "__source_table": "t", "id": 1, "note": "n"},
        ("debezium", "columnar", ""),
    ),
    "a flattened row with a schema": ({}, flat_with_schema(FLAT, COLUMNS | ADDED), ("debezium", "columnar", "")),
    "a flattened row that was deleted": (
        {},
        keyed({"id": 1}, FLAT | {"__op": "d", "__deleted": "true"}),
        ("debezium", "columnar", ""),
    ),
    "a flattened row that names its table twice": ({}, FLAT | {"__source_table": "t"}, ("debezium", "exact", "body")),
    "a list": ({}, event("c", "s.t", after={"id": 1, "note": ["n"]}), ("debezium", "exact", "images")),
    "a table that needs each change": (
        {"exclude": ["note"]},
        event("c", "s.t", after={"id": 1, "note": "n"}),
        ("debezium", "exact", "table"),
    ),
}


@pytest.mark.parametrize(("options", "message", "expected"), DEBEZIUM.values(), ids=DEBEZIUM)
def test_debezium_events_are_counted_under_the_path_that_read_them(
    harness: IngestHarness, options: dict[str, Any], message: Message, expected: tuple[str, str, str]
) -> None:
    harness.put("s.t", SCHEMA, **options)
    with counted_paths(expected):
        assert harness.debezium(message).receipts


def test_events_whose_own_name_leads_to_no_table_are_read_as_columns_for_the_requested_one(
    harness: IngestHarness,
) -> None:
    harness.put("t", SCHEMA)
    harness.put("s.own", SCHEMA)
    with counted_paths(*[("debezium", "columnar", "")] * 2):
        for at in range(2):
            assert harness.debezium(event("c", "s.other", after={"id": at, "note": "n"}), table="t").receipts
    harness.put("s.other", SCHEMA)
    for own in ("s.other", "s.own"):
        with rejected(Code.TABLE_MISMATCH):
            harness.debezium(event("c", own, after={"id": 5, "note": "n"}), table="t")
    with rejected(Code.SOURCE_CASE_MISMATCH):
        harness.debezium(event("c", "s.OWN", after={"id": 5, "note": "n"}), table="s.own")
    assert harness.landed("t", "id") == [[0, 0], [0, 1]]


def test_tombstones_on_the_columnar_path_are_counted(harness: IngestHarness) -> None:
    harness.put("s.t", SCHEMA)
    created, tombstone = event("c", "s.t", after={"id": 1, "note": "n"}), keyed({"id": 1}, None)
    deleted = event("d", "s.t", {"id": 1, "note": "n"})
    for sent in (
        [keyed({"id": 1}, created), keyed({"id": 1}, deleted)],
        [keyed({"id": 1}, FLAT | {"__deleted": "true"})],
    ):
        with counted_paths(("debezium", "columnar", "")):
            assert harness.debezium(*sent, tombstone).ignored == 1
