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


COLUMNS: dict[str, Field] = {"id": {"type": "int64", "optional": False}, "note": "string"}
FLAT = {"id": 1, "note": "n", "__op": "u", "__schema": "s", "__table": "t"}
ADDED: dict[str, Field] = {"__op": "string", "__schema": "string", "__table": "string"}
NEW_COLUMNS = {"new_columns": "add_as_string"}
ROW = {"id": 1, "note": "n"}


def created(**row: Any) -> Message:
    return event("c", "s.t", after=ROW | row)


ARCION = {
    "short": ({}, insert("n"), ""),
    "long": ({}, insert(LONG), ""),
    "a known column": (NEW_COLUMNS, insert("n"), ""),
    "a new column": (NEW_COLUMNS, insert("n", other="x"), "images"),
    "a table that needs each change": ({"exclude": ["note"]}, insert("n"), "table"),
    "an insert of a table that flags deletes": (FLAGGED, insert("n"), ""),
    "a flagged delete": (FLAGGED, arcion("t", {"id": "1"}), ""),
    "a key": ({}, insert("n") | {"more": "x"}, "body"),
    "a row": ({"dead_letters": "accept"}, arcion("t", None, {"id": "x"}), "rows"),
}
ROWS = {
    "a row": ({}, ROW, ""),
    "an operation": ({}, {"id": 1, "note": 7, "__op__": "insert"}, ""),
    "a delete": ({}, {"id": 1, "__op__": "delete"}, ""),
    "a partial row": ({"partial_updates": "complete"}, {"id": 1}, ""),
    "a list": ({}, {"id": 1, "note": ["n"], "__op__": "d"}, "images"),
    "a table that needs each change": ({"exclude": ["note"]}, ROW, "table"),
    "a column": (NEW_COLUMNS, ROW | {"other": "x"}, "images"),
}
DEBEZIUM = {
    "an event": ({}, created(), ""),
    "a schema": ({}, with_schema(event("r", "s.t", after=ROW), COLUMNS), ""),
    "a key": (
        {},
        keyed(key_with_schema({"id": 1}, {"id": "int64"}), with_schema(event("d", "s.t", {"id": 1}), COLUMNS)),
        "",
    ),
    "a new column": ({}, with_schema(event("c", "s.t", after={"id": 1}), COLUMNS | {"more": "int32"}), "table"),
    "a flattened row": ({}, ROW | {"__op": "c", "__source_schema": "s", "__source_table": "t"}, ""),
    "a flattened row with a schema": ({}, flat_with_schema(FLAT, COLUMNS | ADDED), ""),
    "a flattened row that was deleted": ({}, keyed({"id": 1}, FLAT | {"__op": "d", "__deleted": "true"}), ""),
    "a flattened row that names its table twice": ({}, FLAT | {"__source_table": "t"}, "body"),
    "a list": ({}, created(note=["n"]), "images"),
    "a table that needs each change": ({"exclude": ["note"]}, created(), "table"),
}
REQUESTS = {"arcion": ARCION, "rows": ROWS, "debezium": DEBEZIUM}
"""By format: the options of the table, a message, and the reason for the exact path, if that reads it."""


@pytest.mark.parametrize(
    ("of_format", "options", "message", "reason"),
    [
        pytest.param(of_format, *case, id=f"{of_format}: {name}")
        for of_format, cases in REQUESTS.items()
        for name, case in cases.items()
    ],
)
def test_a_request_is_counted_under_the_path_that_read_it(
    harness: IngestHarness, of_format: str, options: dict[str, Any], message: Message, reason: str
) -> None:
    harness.put("s.t" if of_format == "debezium" else "t", SCHEMA, **options)
    with counted_paths((of_format, "exact" if reason else "columnar", reason)):
        if of_format == "arcion":
            accepted = harness.arcion(message, keep_rejected="dead_letters" in options)
        elif of_format == "rows":
            accepted = harness.plain_rows("t", message)
        else:
            accepted = harness.debezium(message)
    assert accepted.receipts or accepted.dead_letters


@pytest.mark.parametrize("override", [False, True])
def test_the_first_body_for_the_table_of_the_request_is_read_as_columns(harness: IngestHarness, override: bool) -> None:
    harness.put("t", SCHEMA)
    message = arcion("elsewhere" if override else "t", None, {"id": "1", "note": LONG})
    with counted_paths(("arcion", "columnar", "")):
        harness.arcion(message, table="t", override=override)
    assert harness.landed("t", "id", "note") == [[0, 1, LONG]]


def test_a_large_body_for_no_table_is_rejected_as_a_small_one_is(harness: IngestHarness) -> None:
    for note in (LONG, "n"):
        with rejected(Code.UNKNOWN_TABLE, places=[(Code.UNKNOWN_TABLE, 0, None, None)]):
            harness.arcion(insert(note))


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


def test_events_whose_own_name_leads_to_no_table_are_read_as_columns_for_the_requested_one(
    harness: IngestHarness,
) -> None:
    harness.put("t", SCHEMA)
    harness.put("s.own", SCHEMA)
    with counted_paths(*[("debezium", "columnar", "")] * 2):
        for at in range(2):
            assert harness.debezium(event("c", "s.other", after=ROW | {"id": at}), table="t").receipts
    harness.put("s.other", SCHEMA)
    for own in ("s.other", "s.own"):
        with rejected(Code.TABLE_MISMATCH):
            harness.debezium(event("c", own, after=ROW), table="t")
    with rejected(Code.SOURCE_CASE_MISMATCH):
        harness.debezium(event("c", "s.OWN", after=ROW), table="s.own")
    assert harness.landed("t", "id") == [[0, 0], [0, 1]]


def test_tombstones_on_the_columnar_path_are_counted(harness: IngestHarness) -> None:
    harness.put("s.t", SCHEMA)
    for values in ([created(), event("d", "s.t", ROW)], [FLAT | {"__deleted": "true"}]):
        with counted_paths(("debezium", "columnar", "")):
            assert harness.debezium(*(keyed({"id": 1}, value) for value in [*values, None])).ignored == 1
