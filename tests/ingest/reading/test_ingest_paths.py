"""Each accepted request is counted under the path that read it, with the reason if that was the slow path."""

import pytest

from app.ingest.readers import MAX_SMALL_BODY_BYTES
from app.observability.telemetry import INGEST_PATHS
from tests.support.ingest_harness import IngestHarness
from tests.support.samples.messages import Message, arcion
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "note": "string"}, ["id"], ["id"])
LONG = "n" * MAX_SMALL_BODY_BYTES


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
        ({}, insert("n"), ("arcion", "small", "")),
        ({}, insert(LONG), ("arcion", "columnar", "")),
        ({"new_columns": "add_as_string"}, insert("n"), ("arcion", "slow", "not_eligible")),
        ({"new_columns": "add_as_string"}, insert(LONG, other="x"), ("arcion", "slow", "not_columnar")),
    ],
    ids=["small", "columnar", "a small one whose table needs each change", "a large one that adds a column"],
)
def test_a_request_is_counted_under_the_path_that_read_it(
    harness: IngestHarness, options: dict[str, str], message: Message, expected: tuple[str, str, str]
) -> None:
    harness.put("t", SCHEMA, **options)
    harness.arcion(insert("first"))  # so that the table is cached
    before = counts()
    assert harness.arcion(message).receipts
    assert {path: count - before.get(path, 0) for path, count in counts().items() if count != before.get(path, 0)} == {
        expected: 1
    }
