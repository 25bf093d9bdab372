"""Each accepted request is counted under the path that read it, with the reason if that was the exact path."""

from typing import Any

import pytest

from app.observability.api_metrics import INGEST_PATHS
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.debezium import Field, event, flat_with_schema, key_with_schema, keyed, with_schema
from tests.support.samples.messages import Message, arcion
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "note": "string"}, ["id"], ["id"])
LONG = "n" * 2**14
FLAGGED = {"deletes": "flag", "row_images": "on", "audit_columns": {"deleted": "gone"}}


def insert(note: str, **more: str) -> Message:
    return arcion("t", None, {"id": "1", "note": note} | more)


def counts() -> dict[tuple[str, str, str], float]:
    (family,) = INGEST_PATHS.collect()
    return {
        (sample.labels["format"], sample.labels["path"], sample.labels["reason"]): sample.value
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("options", "message", "expected"),
    [
        ({}, insert("n"), ("arcion", "columnar", "")),
        ({}, insert(LONG), ("arcion", "columnar", "")),
        ({"new_columns": "add_as_string"}, insert("n"), ("arcion", "columnar", "")),
        ({"new_columns": "add_as_string"}, insert("n", other="x"), ("arcion", "exact", "images")),
        ({"exclude": ["note"]}, insert("n"), ("arcion", "exact", "table")),
        (FLAGGED, insert("n"), ("arcion", "columnar", "")),
        (FLAGGED, arcion("t", {"id": "1"}), ("arcion", "columnar", "")),
        ({}, insert("n") | {"more": "x"}, ("arcion", "exact", "body")),
        ({"dead_letters": "accept"}, arcion("t", None, {"id": "x"}), ("arcion", "exact", "rows")),
    ],
    ids=[
        "short",
        "long",
        "a known column",
        "a new column",
        "a table that needs each change",
        "an insert of a table that flags deletes",
        "a flagged delete",
        "a key",
        "a row",
    ],
)
def test_a_request_is_counted_under_the_path_that_read_it(
    harness: IngestHarness, options: dict[str, Any], message: Message, expected: tuple[str, str, str]
) -> None:
    harness.put("t", SCHEMA, **options)
    before = counts()
    accepted = harness.arcion(message, keep_rejected="dead_letters" in options)
    assert accepted.receipts or accepted.dead_letters
    assert {path: count - before.get(path, 0) for path, count in counts().items() if count != before.get(path, 0)} == {
        expected: 1
    }


@pytest.mark.parametrize(
    ("options", "row", "expected"),
    [
        ({}, {"id": 1, "note": "n"}, ("rows", "columnar", "")),
        ({}, {"id": 1, "note": 7, "__op__": "insert"}, ("rows", "columnar", "")),
        ({}, {"id": 1, "__op__": "delete"}, ("rows", "columnar", "")),
        ({"partial_updates": "complete"}, {"id": 1}, ("rows", "columnar", "")),
        ({}, {"id": 1, "note": ["n"], "__op__": "d"}, ("rows", "exact", "images")),
        ({"exclude": ["note"]}, {"id": 1, "note": "n"}, ("rows", "exact", "table")),
        ({"new_columns": "add_as_string"}, {"id": 1, "note": "n", "other": "x"}, ("rows", "exact", "images")),
    ],
    ids=["a row", "an operation", "a delete", "a partial row", "a list", "a table that needs each change", "a column"],
)
def test_plain_rows_are_counted_under_the_path_that_read_them(
    harness: IngestHarness, options: dict[str, str], row: dict[str, object], expected: tuple[str, str, str]
) -> None:
    harness.put("t", SCHEMA, **options)
    before = counts()
    assert harness.plain_rows("t", row).receipts
    assert {path: count - before.get(path, 0) for path, count in counts().items() if count != before.get(path, 0)} == {
        expected: 1
    }


@pytest.mark.parametrize("columns", [{}, {"new_columns": "add_as_string"}])
def test_inserts_of_a_table_whose_files_have_no_marker_are_read_as_columns_if_it_has_no_keys(
    harness: IngestHarness, columns: dict[str, str]
) -> None:
    keyless = schema_of({"id": "int64", "note": "string"})
    harness.put("t", keyless, initial_load="without_marker", **columns)
    before = counts()
    harness.arcion(insert("n"))
    harness.plain_rows("t", {"id": 1, "note": "n", "__op__": "insert"})
    with rejected():
        harness.plain_rows("t", {"id": 1, "__op__": "delete"})
    assert {path: count - before.get(path, 0) for path, count in counts().items() if count != before.get(path, 0)} == {
        ("arcion", "columnar", ""): 1,
        ("rows", "columnar", ""): 1,
        ("rows", "exact", "rows"): 1,  # the delete, which the exact path rejects
    }
    assert harness.landed("t", "id", "note") == [[0, 1, "n"], [0, 1, "n"]]
    assert (harness.table("t").schema.bare, harness.table("t").schema_version) == (True, 1)


COLUMNS: dict[str, Field] = {"id": {"type": "int64", "optional": False}, "note": "string"}
MORE: dict[str, Field] = {"more": "int32"}
FLAT = {"id": 1, "note": "n", "__op": "u", "__schema": "s", "__table": "t"}
ADDED: dict[str, Field] = {"__op": "string", "__schema": "string", "__table": "string"}


@pytest.mark.parametrize(
    ("options", "message", "expected"),
    [
        ({}, event("c", "s.t", after={"id": 1, "note": "n"}), ("debezium", "columnar", "")),
        ({}, with_schema(event("r", "s.t", after={"id": 1, "note": "n"}), COLUMNS), ("debezium", "columnar", "")),
        (
            {},
            keyed(key_with_schema({"id": 1}, {"id": "int64"}), with_schema(event("d", "s.t", {"id": 1}), COLUMNS)),
            ("debezium", "columnar", ""),
        ),
        (
            {},
            with_schema(event("c", "s.t", after={"id": 1}), COLUMNS | {"more": "int32"}),
            ("debezium", "exact", "table"),
        ),
        (
            {},
            {"__op": "c", "__source_schema": "s", "__source_table": "t", "id": 1, "note": "n"},
            ("debezium", "columnar", ""),
        ),
        ({}, flat_with_schema(FLAT, COLUMNS | ADDED), ("debezium", "columnar", "")),
        ({}, keyed({"id": 1}, FLAT | {"__op": "d", "__deleted": "true"}), ("debezium", "columnar", "")),
        ({}, FLAT | {"__source_table": "t"}, ("debezium", "exact", "body")),
        ({}, event("c", "s.t", after={"id": 1, "note": ["n"]}), ("debezium", "exact", "images")),
        ({"exclude": ["note"]}, event("c", "s.t", after={"id": 1, "note": "n"}), ("debezium", "exact", "table")),
    ],
    ids=[
        "an event",
        "a schema",
        "a key",
        "a new column",
        "a flattened row",
        "a flattened row with a schema",
        "a flattened row that was deleted",
        "a flattened row that names its table twice",
        "a list",
        "a table that needs each change",
    ],
)
def test_debezium_events_are_counted_under_the_path_that_read_them(
    harness: IngestHarness, options: dict[str, Any], message: Message, expected: tuple[str, str, str]
) -> None:
    harness.put("s.t", SCHEMA, **options)
    before = counts()
    assert harness.debezium(message).receipts
    assert {path: count - before.get(path, 0) for path, count in counts().items() if count != before.get(path, 0)} == {
        expected: 1
    }


def test_events_whose_own_name_leads_to_no_table_are_read_as_columns_for_the_requested_one(
    harness: IngestHarness,
) -> None:
    harness.put("t", SCHEMA)
    harness.put("s.own", SCHEMA)
    before = counts()
    for at in range(2):
        assert harness.debezium(event("c", "s.other", after={"id": at, "note": "n"}), table="t").receipts
    assert counts()["debezium", "columnar", ""] - before.get(("debezium", "columnar", ""), 0) == 2
    harness.put("s.other", SCHEMA)
    for own in ("s.other", "s.own"):
        with rejected() as rejection:
            harness.debezium(event("c", own, after={"id": 5, "note": "n"}), table="t")
        assert rejection.code is Code.TABLE_MISMATCH
    with rejected() as rejection:
        harness.debezium(event("c", "s.OWN", after={"id": 5, "note": "n"}), table="s.own")
    assert rejection.code is Code.SOURCE_CASE_MISMATCH
    assert harness.landed("t", "id") == [[0, 0], [0, 1]]


def test_tombstones_on_the_columnar_path_are_counted(harness: IngestHarness) -> None:
    harness.put("s.t", SCHEMA)
    before = counts()
    record = keyed({"id": 1}, event("c", "s.t", after={"id": 1, "note": "n"}))
    result = harness.debezium(
        record, keyed({"id": 1}, event("d", "s.t", {"id": 1, "note": "n"})), keyed({"id": 1}, None)
    )
    path = ("debezium", "columnar", "")
    assert (result.ignored, counts()[path] - before.get(path, 0)) == (1, 1)


def test_a_tombstone_among_rows_that_mark_deletes_keeps_the_columnar_path(harness: IngestHarness) -> None:
    harness.put("s.t", SCHEMA)
    before = counts()
    row = keyed({"id": 1}, FLAT | {"__deleted": "true"})
    path = ("debezium", "columnar", "")
    assert harness.debezium(row, keyed({"id": 1}, None)).ignored == 1
    assert counts()[path] - before.get(path, 0) == 1
