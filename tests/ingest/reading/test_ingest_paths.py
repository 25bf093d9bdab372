"""The path that reads a request, and the rows that both paths make."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.ingest import ArcionJson
from app.ingest.request_typing import RequestTyper
from mirrorgate.errors import Code, RejectedInput
from tests.support.ingest_harness import IngestHarness, counted_paths
from tests.support.rejections import rejected
from tests.support.samples.debezium import Field, event, flat_with_schema, key_with_schema, keyed, with_schema
from tests.support.samples.images import stored_images
from tests.support.samples.messages import Message, arcion, data, metadata
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


REPLICATE_COLUMNS = {"id": "INT8", "name": "WSTRING"}
NEW = {"id": "INT8", "note": "WSTRING", "name": "WSTRING"}


COLUMNAR = ("replicate", "columnar", "")


def row(number: int, name: str | None = "a", operation: str = "INSERT", **facts: str) -> Message:
    return data(operation, {"id": number, "name": name}, **facts)


@pytest.mark.parametrize(
    ("told", "table"),
    [({"schema_id": "f1"}, None), ({"table": "s.t"}, None), ({}, "S.T"), ({"schema_id": "f1", "table": "s.t"}, "s.t")],
    ids=["by the schema id", "by the message", "by the request", "by all of them"],
)
def test_the_first_body_of_a_process_takes_the_columnar_path(
    harness: IngestHarness, told: dict[str, str], table: str | None
) -> None:
    harness.other.replicate(metadata("s.t", REPLICATE_COLUMNS, schema_id="f1"))
    with counted_paths(COLUMNAR, COLUMNAR):
        for number in (1, 2):
            accepted = harness.replicate(row(number, **told), row(number, None, "UPDATE", **told), table=table)
            assert [(receipt.table, receipt.changes) for receipt in accepted.receipts] == [("s.t", 2)]
    assert harness.landed("s.t", "id", "name") == [[0, 1, "a"], [1, 1, None], [0, 2, "a"], [1, 2, None]]


def test_a_table_without_metadata_takes_the_columnar_path(harness: IngestHarness) -> None:
    harness.put("t", schema_of({"id": "int64", "name": "string"}, ["id"], ["id"]))
    with counted_paths(COLUMNAR):
        harness.replicate(row(1, columnMask="03"), row(1, None, "DELETE"), table="t")
    assert harness.landed("t", "id", "name") == [[0, 1, "a"], [2, 1, None]]


def test_one_body_feeds_several_tables(harness: IngestHarness) -> None:
    harness.replicate(
        metadata("s.one", REPLICATE_COLUMNS, schema_id="f1"),
        metadata("s.two", REPLICATE_COLUMNS, schema_id="f2"),
    )
    with counted_paths(COLUMNAR):
        accepted = harness.replicate(
            row(1, schema_id="f1"), row(2, schema_id="f2"), row(3, table="s.one"), row(4, schema_id="f2")
        )
    assert {receipt.table: receipt.changes for receipt in accepted.receipts} == {"s.one": 2, "s.two": 2}
    assert harness.landed("s.one", "id") == [[0, 1], [0, 3]]
    assert harness.landed("s.two", "id") == [[0, 2], [0, 4]]


def test_excluded_columns_are_left_out(harness: IngestHarness) -> None:
    harness.put("s.t", schema_of({"id": "int64"}, ["id"], ["id"]), exclude=["name"])
    harness.replicate(metadata("s.t", REPLICATE_COLUMNS, schema_id="f1"))
    with counted_paths(COLUMNAR):
        harness.replicate(row(1, schema_id="f1", columnMask="03"))
    assert harness.landed("s.t", "id") == [[0, 1]]


def test_masks_count_columns_as_the_present_metadata_does(harness: IngestHarness) -> None:
    """Another process changes the metadata between two bodies of this one, and the ordinals with it."""
    harness.put("s.t", schema_of({"id": "int64"}, ["id"], ["id"]), partial_updates="complete")
    harness.replicate(metadata("s.t", REPLICATE_COLUMNS, schema_id="same"))
    harness.replicate(row(1, schema_id="same"), row(1, "b", "UPDATE", schema_id="same", columnMask="03"))
    harness.other.replicate(metadata("s.t", NEW, schema_id="same", version=2))
    update = data("UPDATE", {"id": 1, "note": "n", "name": "c"}, schema_id="same", columnMask="03")
    harness.replicate(update)
    harness.replicate(update)
    landed = [[0, 1, None, "a"], [1, 1, None, "b"], [1, 1, "n", "b"], [1, 1, "n", "b"]]
    assert harness.landed("s.t", "id", "note", "name") == landed


def test_a_wrong_message_is_named_by_the_exact_path(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.t", REPLICATE_COLUMNS, schema_id="f1"))
    with rejected(places=[(Code.MASK_OUT_OF_RANGE, 1, "/message/headers/columnMask", None)]):
        harness.replicate(row(1, schema_id="f1"), row(2, schema_id="f1", columnMask="0F"))
    assert harness.rows("s.t") == []


def test_a_source_that_another_process_moves_feeds_its_new_table(harness: IngestHarness) -> None:
    schema = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
    harness.put("one", schema, sources=["s.t"])
    harness.put("two", schema)
    harness.replicate(row(1, table="s.t"))
    harness.other.put("one", sources=["other"])
    harness.other.put("two", sources=["s.t"])
    harness.replicate(row(2, table="s.t"))
    assert (harness.landed("one", "id"), harness.landed("two", "id")) == ([[0, 1]], [[0, 2]])


def test_a_mask_of_many_zeros_lands_on_the_exact_path(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.t", REPLICATE_COLUMNS, schema_id="f1"))
    harness.replicate(row(1, schema_id="f1", columnMask="0" * 10_000 + "03"))
    assert harness.landed("s.t", "id", "name") == [[0, 1, "a"]]


WIDE: Final = schema_of({"id": "int64", "name": "string", "total": "decimal(9,2)"}, ["id"], ["id", "name"])
_NAMES: Final = (f"t{number}" for number in itertools.count())


def wide_insert(table: str, key: str, name: str, total: str = "null") -> Message:
    return arcion(table, None, {"id": key, "name": name, "total": total})


def changed(table: str, key: str, new_key: str = "", **given: str) -> Message:
    """Return an update as Replicant writes it by default: the key before, what changed after."""
    blank = dict.fromkeys(WIDE.names, "null")
    after = blank | given | ({"id": new_key} if new_key else {})
    exists = dict.fromkeys(WIDE.names, "0") | dict.fromkeys(given, "1") | {"id": "3" if new_key else "2"}
    return arcion(table, blank | {"id": key}, after) | {"exists": exists}


def large(*messages: Message) -> Sequence[Message]:
    return [messages[0] | {"cursor": "x" * 2**14}, *messages[1:]]


@pytest.fixture
def hurried(harness: IngestHarness, monkeypatch: pytest.MonkeyPatch) -> IngestHarness:
    """Return a harness without the exact path; it knows its tables `t`, which completes updates, and `u`."""
    harness.put("t", WIDE, partial_updates="complete")
    harness.put("u", WIDE)
    harness.arcion(wide_insert("t", "1", "Ada", "1.5"), wide_insert("u", "1", "Ada", "1.5"))
    monkeypatch.setattr(RequestTyper, "type_request", None)
    return harness


def test_updates_completed_by_row_images_take_the_columnar_path(hurried: IngestHarness) -> None:
    hurried.arcion(*large(changed("t", "1", total="2"), wide_insert("t", "2", "Bob"), changed("t", "2", total="3")))
    hurried.arcion(*large(arcion("t", {"id": "2", "name": "Bob", "total": "3"}), changed("t", "1", name="Eve")))
    rows = hurried.landed("t", "id", "name", "total")[1:]
    assert rows[:3] == [[1, 1, "Ada", 2], [0, 2, "Bob", None], [1, 2, "Bob", 3]]
    assert rows[3:] == [[2, 2, None, None], [1, 1, "Eve", 2]]
    assert [*stored_images(hurried.engine, hurried.table("t")).values()] == [{"id": "1", "name": "Eve", "total": "2"}]


def test_an_update_with_only_the_key_in_the_before_image_takes_the_columnar_path(
    hurried: IngestHarness,
) -> None:
    hurried.arcion(*large(changed("u", "1", name="Eve", total="2")))
    assert hurried.landed("u", "id", "name")[1:] == [[1, 1, "Eve"]]


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Draw a change of one of three rows, which need not exist."""
    key, other = draw(st.permutations(["1", "2", "3"]))[:2]
    given_columns = draw(st.fixed_dictionaries({}, optional={"name": NAMES, "total": TOTALS}))
    kind = draw(st.sampled_from(["insert", "upsert", "update", "update", "update", "move", "delete"]))
    if kind == "delete":
        return arcion("", {"id": key, "name": "null", "total": "null"})
    if kind in {"insert", "upsert"}:
        return wide_insert("", key, draw(NAMES), draw(TOTALS)) | {"opType": kind[0].upper().replace("U", "R")}
    return changed("", key, other if kind == "move" else "", **given_columns)


NAMES: Final = st.sampled_from(["Ada", "", "Bob", "Zoë"])
TOTALS: Final = st.sampled_from(["1", "2.50", "null"])


class _ExactOnly(ArcionJson):
    @property
    def is_columnar(self) -> bool:
        return False


def outcome(harness: IngestHarness, table: str, sent: Sequence[Message], *, exact: bool = False) -> Any:
    """Return the answer to a request, which the exact path can be forced to read."""
    body = json.dumps([message | {"tableName": {"name": table}} for message in sent]).encode()
    reader = (_ExactOnly if exact else ArcionJson)(body)
    try:
        accepted = harness.accept(reader)
        return [(receipt.sequence, receipt.changes) for receipt in accepted.receipts]
    except RejectedInput as rejection:
        return [replace(problem, table=None) for problem in rejection.problems]


@given(requests=st.lists(st.lists(messages(), min_size=1, max_size=5), min_size=1, max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_columnar_path_makes_the_rows_the_images_and_the_rejections_of_the_exact_path(
    harness: IngestHarness, requests: list[list[Message]]
) -> None:
    one, other = next(_NAMES), next(_NAMES)
    for name in (one, other):
        harness.put(name, WIDE, partial_updates="complete")
        harness.arcion(*(wide_insert(name, key, "Old", "7") for key in ("1", "2")))
    for sent in requests:
        assert outcome(harness, one, sent, exact=True) == outcome(harness, other, sent)
    assert harness.rows(one) == harness.rows(other)
    assert stored_images(harness.engine, harness.table(one)) == stored_images(harness.engine, harness.table(other))
