"""Each accepted request is counted under the path that read it, with the reason if that was the exact path."""

import pytest

from app.observability.telemetry import INGEST_PATHS
from tests.support.ingest_harness import IngestHarness
from tests.support.samples.messages import Message, arcion
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "note": "string"}, ["id"], ["id"])
LONG = "n" * 2**14


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
        ({}, insert("n") | {"more": "x"}, ("arcion", "exact", "body")),
        ({"dead_letters": "accept"}, arcion("t", None, {"id": "x"}), ("arcion", "exact", "rows")),
    ],
    ids=["short", "long", "a known column", "a new column", "a table that needs each change", "a key", "a row"],
)
def test_a_request_is_counted_under_the_path_that_read_it(
    harness: IngestHarness, options: dict[str, str], message: Message, expected: tuple[str, str, str]
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
