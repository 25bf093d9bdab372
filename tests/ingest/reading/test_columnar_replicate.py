"""Replicate bodies take the columnar path where they can, and land what the exact path lands."""

import pytest

from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness, counted_paths
from tests.support.rejections import rejected
from tests.support.samples.messages import Message, data, metadata
from tests.support.samples.schemas import schema_of

COLUMNS = {"id": "INT8", "name": "WSTRING"}
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
    harness.other.replicate(metadata("s.t", COLUMNS, schema_id="f1"))
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
    harness.replicate(metadata("s.one", COLUMNS, schema_id="f1"), metadata("s.two", COLUMNS, schema_id="f2"))
    with counted_paths(COLUMNAR):
        accepted = harness.replicate(
            row(1, schema_id="f1"), row(2, schema_id="f2"), row(3, table="s.one"), row(4, schema_id="f2")
        )
    assert {receipt.table: receipt.changes for receipt in accepted.receipts} == {"s.one": 2, "s.two": 2}
    assert harness.landed("s.one", "id") == [[0, 1], [0, 3]]
    assert harness.landed("s.two", "id") == [[0, 2], [0, 4]]


def test_excluded_columns_are_left_out(harness: IngestHarness) -> None:
    harness.put("s.t", schema_of({"id": "int64"}, ["id"], ["id"]), exclude=["name"])
    harness.replicate(metadata("s.t", COLUMNS, schema_id="f1"))
    with counted_paths(COLUMNAR):
        harness.replicate(row(1, schema_id="f1", columnMask="03"))
    assert harness.landed("s.t", "id") == [[0, 1]]


def test_masks_count_columns_as_the_present_metadata_does(harness: IngestHarness) -> None:
    """Another process changes the metadata between two bodies of this one, and the ordinals with it."""
    harness.put("s.t", schema_of({"id": "int64"}, ["id"], ["id"]), partial_updates="complete")
    harness.replicate(metadata("s.t", COLUMNS, schema_id="same"))
    harness.replicate(row(1, schema_id="same"), row(1, "b", "UPDATE", schema_id="same", columnMask="03"))
    harness.other.replicate(metadata("s.t", NEW, schema_id="same", version=2))
    update = data("UPDATE", {"id": 1, "note": "n", "name": "c"}, schema_id="same", columnMask="03")
    harness.replicate(update)
    harness.replicate(update)
    landed = [[0, 1, None, "a"], [1, 1, None, "b"], [1, 1, "n", "b"], [1, 1, "n", "b"]]
    assert harness.landed("s.t", "id", "note", "name") == landed


def test_an_id_that_a_second_table_gets_is_ambiguous_in_every_process(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.one", COLUMNS, schema_id="f1"))
    harness.replicate(row(1, schema_id="f1"))
    harness.other.replicate(metadata("s.two", COLUMNS, schema_id="f1"))
    for _ in range(2):
        with rejected(Code.AMBIGUOUS_SCHEMA_ID):
            harness.replicate(row(2, schema_id="f1"))
    assert harness.landed("s.one", "id") == [[0, 1]]


def test_a_wrong_message_is_named_by_the_exact_path(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.t", COLUMNS, schema_id="f1"))
    with rejected(places=[(Code.MASK_OUT_OF_RANGE, 1, "/message/headers/columnMask", None)]):
        harness.replicate(row(1, schema_id="f1"), row(2, schema_id="f1", columnMask="0F"))
    assert harness.rows("s.t") == []


def test_options_that_another_process_changes_apply_to_the_next_body(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.t", COLUMNS, schema_id="f1"))
    harness.replicate(row(1, schema_id="f1"))
    harness.other.put("s.t", exclude=["name"])
    harness.replicate(row(2, schema_id="f1"))
    assert harness.landed("s.t", "id", "name") == [[0, 1, "a"], [0, 2, None]]


def test_a_source_that_another_process_moves_feeds_its_new_table(harness: IngestHarness) -> None:
    schema = schema_of({"id": "int64", "name": "string"}, ["id"], ["id"])
    harness.put("one", schema, sources=["s.t"])
    harness.put("two", schema)
    harness.replicate(row(1, table="s.t"))
    harness.other.put("one", sources=["other"])
    harness.other.put("two", sources=["s.t"])
    harness.replicate(row(2, table="s.t"))
    assert (harness.landed("one", "id"), harness.landed("two", "id")) == ([[0, 1]], [[0, 2]])


def test_snapshot_rows_after_changes_that_another_process_accepted_are_rejected(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.t", COLUMNS, schema_id="f1"))
    harness.replicate(row(1, operation="REFRESH", schema_id="f1"))
    harness.other.replicate(row(2, schema_id="f1"))
    with rejected(Code.RELOAD_REQUIRES_RECREATE):
        harness.replicate(row(3, operation="READ", schema_id="f1"))


def test_a_mask_of_many_zeros_lands_on_the_exact_path(harness: IngestHarness) -> None:
    harness.replicate(metadata("s.t", COLUMNS, schema_id="f1"))
    harness.replicate(row(1, schema_id="f1", columnMask="0" * 10_000 + "03"))
    assert harness.landed("s.t", "id", "name") == [[0, 1, "a"]]
