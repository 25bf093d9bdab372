"""Values of events without a schema, whose meaning only the request or the table can tell: units, and encodings."""

from typing import Any

import pytest

from app.domain.model.table_options import OutOfRange, TimestampUnit
from mirrorgate.errors import Code
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.debezium import event, flat_with_schema, with_schema
from tests.support.samples.schemas import schema_of

MIXED = schema_of({"id": "int32", "t3": "timestamp", "t6": "timestamp"}, ["id"], ["id"])
ROW = {"id": 1, "t3": 1767268800123, "t6": 1767268800123456}
MILLIS, MICROS = TimestampUnit.MILLIS, TimestampUnit.MICROS


def moments(harness: IngestHarness, name: str = "br.mix") -> list[list[str]]:
    return [[str(row[column])[:26] for column in ("t3", "t6")] for row in harness.rows(name)]


@pytest.mark.parametrize(
    ("of_table", "of_request"),
    [
        ({}, (("t3", MILLIS), ("*", MICROS))),
        ({}, (("t3", MILLIS), ("t6", MICROS))),
        ({"t3": {"unit": "millis"}}, (("*", MICROS),)),
        ({"t3": {"unit": "millis"}, "t6": {"unit": "micros"}}, ()),
        ({"t3": {"unit": "nanos"}, "t6": {"unit": "micros"}}, (("t3", MILLIS),)),
    ],
)
def test_milliseconds_and_microseconds_of_one_row_land_as_what_they_are(
    harness: IngestHarness, of_table: dict[str, Any], of_request: tuple[tuple[str, TimestampUnit], ...]
) -> None:
    harness.put("br.mix", MIXED, columns=of_table)
    harness.debezium(event("c", "br.mix", after=ROW), timestamps=of_request)
    assert moments(harness) == [["2026-01-01 12:00:00.123000", "2026-01-01 12:00:00.123456"]]


@pytest.mark.parametrize("of_request", [(), (("t3", MILLIS),)])
def test_a_time_of_an_unknown_unit_is_rejected_and_nothing_of_its_request_is_staged(
    harness: IngestHarness, of_request: tuple[tuple[str, TimestampUnit], ...]
) -> None:
    harness.put("br.mix", MIXED)
    with rejected() as rejection:
        harness.debezium(event("c", "br.mix", after={"id": 2}), event("c", "br.mix", after=ROW), timestamps=of_request)
    assert rejection.places[-1] == (Code.BAD_REQUEST, 1, "/after/t6", "t6")
    for remedy in ("timestamps=t6:millis", "`unit`", "time.precision.mode=isostring", "microseconds"):
        assert remedy in rejection.text
    assert harness.rows("br.mix") == []


BINARY = schema_of({"id": "int32", "v": "binary", "n": "string"}, ["id"], ["id"])
TEXTS = {"id": "int32", "v": "string", "n": "string"}
FULL = {"id": 1, "v": "3q2+7w==", "n": "a"}


@pytest.mark.parametrize(
    ("before", "source", "is_accepted"),
    [
        (None, {"connector": "postgresql"}, False),
        ({"id": 1, "v": None, "n": None}, {"connector": "postgresql"}, False),
        (FULL, {"connector": "postgresql"}, True),
        ({**FULL, "v": None}, {"connector": "postgresql"}, True),
        (None, {"connector": "mysql"}, True),
    ],
)
def test_a_null_of_postgres_that_can_be_an_unchanged_value_never_lands(
    harness: IngestHarness, before: dict[str, Any] | None, source: dict[str, str], *, is_accepted: bool
) -> None:
    harness.put("s.t", BINARY, binary_encoding="base64")
    harness.debezium(with_schema(event("c", "s.t", after=FULL, **source), TEXTS))
    written = with_schema(event("u", "s.t", before, {"id": 1, "v": None, "n": "b"}, **source), TEXTS)
    if is_accepted:
        harness.debezium(written)
    else:
        with rejected(places=[(Code.INCOMPLETE_UPDATE, 0, "/payload/after/v", "v")]) as rejection:
            harness.debezium(written)
        assert "REPLICA IDENTITY FULL" in rejection.text
    assert [row["v"] for row in harness.rows("s.t")][1:] == ([None] if is_accepted else [])


def test_a_null_of_other_texts_of_bytes_is_null(harness: IngestHarness) -> None:
    harness.put("s.t", BINARY, binary_encoding="hex")
    update = event("u", "s.t", None, {"id": 1, "v": None, "n": "b"}, connector="postgresql")
    for one in (with_schema(update, TEXTS), with_schema(update, {**TEXTS, "v": "bytes"}), update):
        harness.debezium(one)
    assert [row["v"] for row in harness.rows("s.t")] == [None] * 3


def test_a_flattened_row_of_an_unknown_connector_lands_no_null_that_can_be_a_value(harness: IngestHarness) -> None:
    harness.put("s.t", BINARY, binary_encoding="base64")
    row = {"id": 1, "v": None, "n": "b", "__schema": "s", "__table": "t"}
    fields = TEXTS | {"__schema": "string", "__table": "string"}
    with rejected() as rejection:
        harness.debezium(flat_with_schema(row, fields))
    assert rejection.places[0][0] is Code.INCOMPLETE_UPDATE
    harness.debezium(flat_with_schema({**row, "__op": "c"}, fields | {"__op": "string"}))
    harness.debezium(flat_with_schema({**row, "__connector": "mysql"}, fields | {"__connector": "string"}))
    assert [row["v"] for row in harness.rows("s.t")] == [None, None]


def test_a_unit_is_for_timestamps_alone(harness: IngestHarness) -> None:
    with rejected(places=[(Code.BAD_OPTION, None, "/options/columns/id/unit", None)]):
        harness.put("br.mix", MIXED, columns={"id": {"unit": "millis"}})


def test_dates_of_infinity_land_at_the_end_that_they_mean(harness: IngestHarness) -> None:
    of_date = {"type": "int32", "name": "io.debezium.time.Date"}
    harness.put("s.t", schema_of({"id": "int32", "d": "date"}, ["id"], ["id"]), out_of_range=OutOfRange.SATURATE)
    for days in (-2_147_472_692, -2_147_472_691, -622_191_234, 3_663_382):
        message = event("c", "s.t", after={"id": 1, "d": days})
        harness.debezium(with_schema(message, {"id": "int32", "d": of_date}))
        harness.debezium(message)
    first, last = "0001-01-01", "9999-12-31"
    assert [str(row["d"]) for row in harness.rows("s.t")[::2]] == [last, first, last, last]
    assert harness.rows("s.t")[::2] == harness.rows("s.t")[1::2]


@pytest.mark.parametrize(("options", "landed"), [({"binary_encoding": "hex"}, b"\xde\xad\xbe\xef"), ({}, None)])
def test_bytes_as_text_are_read_as_the_table_says_or_rejected(
    harness: IngestHarness, options: dict[str, Any], landed: bytes | None
) -> None:
    harness.put("br.bin", schema_of({"id": "int32", "v": "binary"}, ["id"], ["id"]), **options)
    message = event("c", "br.bin", after={"id": 1, "v": "deadbeef"})
    for one in (message, with_schema(message, {"id": "int32", "v": "string"})):
        if landed is None:
            with rejected() as rejection:
                harness.debezium(one)
            assert "binary_encoding" in rejection.text
        else:
            harness.debezium(one)
    assert [row["v"] for row in harness.rows("br.bin")] == [landed] * (2 if landed else 0)
