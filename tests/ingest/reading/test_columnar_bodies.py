"""Eligible bodies take the columnar path, also in a process that has not seen their table."""

import pytest

from app.ingest.readers import arcion as arcion_reader
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.messages import Message, arcion
from tests.support.samples.schemas import schema_of

SCHEMA = schema_of({"id": "int64", "note": "string"}, ["id"], ["id"])
NOTE = "n" * 2**14


def large(table: str, note: str = NOTE) -> Message:
    return arcion(table, None, {"id": "1", "note": note})


@pytest.fixture
def columnar_path_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every body fail that takes the exact path."""
    monkeypatch.setattr(arcion_reader, "decode_arcion", None)


@pytest.mark.usefixtures("columnar_path_only")
@pytest.mark.parametrize(
    "named",
    [{}, {"table": "t"}, {"table": "t", "override": True}],
    ids=["by the message", "by the request too", "by the request alone"],
)
def test_the_first_body_of_a_table_takes_the_columnar_path(harness: IngestHarness, named: dict[str, object]) -> None:
    harness.put("t", SCHEMA)
    accepted = harness.arcion(large("elsewhere" if "override" in named else "t"), **named)
    assert accepted.receipts[0].rows == 1
    assert harness.landed("t", "id", "note") == [[0, 1, NOTE]]


def test_a_large_body_for_no_table_is_rejected_as_a_small_one_is(harness: IngestHarness) -> None:
    places = []
    for note in (NOTE, "n"):
        with rejected() as rejection:
            harness.arcion(large("none", note))
        places.append((rejection.code, rejection.places))
    assert places[0] == places[1]
    assert places[0][0] is Code.UNKNOWN_TABLE
