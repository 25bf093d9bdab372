"""Histories of the connectors; times, bytes and unavailable values in them."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from typing import Any

import pytest

from app.domain.model.table_options import OutOfRange, TimestampUnit
from app.formats.debezium.values import DebeziumReading, DecimalForm
from app.ingest import DebeziumJson
from mirrorgate.errors import Code
from tests.project.facts import REPOSITORY
from tests.support.ingest_harness import IngestHarness
from tests.support.rejections import rejected
from tests.support.samples.debezium import event, flat_with_schema, with_schema
from tests.support.samples.schemas import schema_of

SAMPLES = REPOSITORY / "tests/samples/debezium"
INSERT, UPDATE, DELETE = 0, 1, 2
AT = datetime(2026, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)


def body(connector: str) -> bytes:
    return (SAMPLES / f"{connector}.ndjson").read_bytes()


def without_schemas(written: bytes) -> bytes:
    """Return the same history as JsonConverter writes it with `schemas.enable=false`."""
    records = [json.loads(line) for line in written.splitlines()]
    plain = [{part: one and one["payload"] for part, one in record.items()} for record in records]
    return json.dumps(plain).encode()


def types(harness: IngestHarness, table: str) -> dict[str, str]:
    return {column.name: str(column.type) for column in harness.table(table).schema.columns}


ITEM: dict[str, tuple[str, Any]] = {
    "id": ("int32", 1),
    "name": ("string", "Kettle"),
    "price": ("decimal(10,2)", Decimal("1234.56")),
    "free": ("string", "12.345"),
    "day": ("date", date(2026, 1, 2)),
    "at": ("timestamp", AT),
    "seen": ("timestamp", AT),
    "tod": ("string", "10:20:30.000001"),
    "zoned": ("string", "10:20:30Z"),
    "span": ("int64", 86_400_000_000),
    "doc": ("json", '{"a": 1}'),
    "uid": ("string", "6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
    "kind": ("string", "a"),
    "raw": ("binary", bytes.fromhex("deadbeef")),
    "tags": ("json", '["x",null]'),
    "attrs": ("json", '{"k":"v"}'),
    "place": ("json", '{"x":1.5,"y":-2.0,"wkb":"AQEAAAA=","srid":null}'),
    "path": ("string", "a.b"),
    "ok": ("boolean", True),
    "ratio": ("float64", None),
    "weight": ("float32", 0.5),
    "embedding": ("json", "[0.25,1.0]"),
}
"""The type of each column, and the value that the first event has; its ratio is not a number."""


def test_a_history_of_postgres(harness: IngestHarness) -> None:
    assert harness.accept(DebeziumJson(body("postgresql"))).ignored == 1
    assert types(harness, "public.items") == {name: of for name, (of, _) in ITEM.items()}
    first, second, last = harness.rows("public.items")
    assert isnan(first["ratio"])
    assert first == {name: value for name, (_, value) in ITEM.items()} | {
        "ratio": first["ratio"],
        "__rowMarker__": INSERT,
    }
    assert (second["name"], second["ratio"], second["__rowMarker__"]) == ("Kettle 2", 0.1, UPDATE)
    assert (last["id"], last["name"], last["__rowMarker__"]) == (1, None, DELETE)


def test_a_history_of_mysql(harness: IngestHarness) -> None:
    harness.accept(DebeziumJson(body("mysql")))
    rows = harness.rows("inventory.products")
    assert [row["__rowMarker__"] for row in rows] == [INSERT, UPDATE, DELETE, INSERT]
    first = rows[0]
    assert first["id"] == 9_007_199_254_740_993
    assert (first["bits"], first["t"], first["y"], first["opts"]) == (b"\xff\x0f", "-838:59:59", 2026, "a,c")
    assert (first["at"], first["at6"], first["price"]) == (AT.replace(microsecond=0), AT, Decimal("12345.6789"))
    assert first["shape"] == '{"wkb":"AQEAAAA=","srid":4326}'


def test_a_history_of_sql_server(harness: IngestHarness) -> None:
    harness.accept(DebeziumJson(body("sqlserver")))
    rows = harness.rows("dbo.OrderLines")
    assert harness.table("dbo.OrderLines").schema.key_columns == ("OrderID", "Line")
    assert [row["__rowMarker__"] for row in rows] == [INSERT, UPDATE, DELETE, INSERT]
    assert (rows[0]["At"], rows[0]["Tod"], rows[0]["Price"]) == (AT, "01:02:03.000000100", Decimal("100.0000"))
    assert rows[0]["Off"] == AT.replace(hour=1)


def test_a_history_of_oracle(harness: IngestHarness) -> None:
    first, second, _ = body("oracle").splitlines()
    harness.accept(DebeziumJson(first))
    assert types(harness, "DEBEZIUM.EMPLOYEES") == {
        "ID": "decimal(38,0)",
        "AMOUNT": "float64",
        "FREE": "string",
        "NARROW": "decimal(12,3)",
        "TEXT": "decimal(9,2)",
        "HIRED": "timestamp",
        "AT": "timestamp",
        "TZ": "timestamp",
        "SPAN": "int64",
        "NOTE": "string",
    }
    harness.accept(DebeziumJson(second))
    rows = harness.rows("DEBEZIUM.EMPLOYEES")
    assert [(row["AMOUNT"], row["FREE"], row["NARROW"], row["TEXT"], row["NOTE"]) for row in rows] == [
        (61.0, "123.45", Decimal("1.234"), Decimal("17.50"), "long"),
        (62.0, "123.45", Decimal("1.234"), Decimal("17.50"), "long"),
    ]


@pytest.mark.parametrize(
    ("connector", "table", "unit"),
    [
        ("postgresql", "public.items", TimestampUnit.MICROS),
        ("sqlserver", "dbo.OrderLines", TimestampUnit.NANOS),
    ],
)
def test_the_same_history_without_schemas_lands_the_same_where_the_types_agree(
    harness: IngestHarness, connector: str, table: str, unit: TimestampUnit
) -> None:
    harness.accept(DebeziumJson(body(connector)))
    before = harness.rows(table)
    harness.put(table, reload="upsert", binary_encoding="base64")
    reading = DebeziumReading(timestamps=(("*", unit),), decimals=DecimalForm.BASE64)
    harness.accept(DebeziumJson(without_schemas(body(connector)), reading=reading))
    after: list[dict[str, Any]] = harness.rows(table)[len(before) :]
    differing = {
        name for old, new in zip(before, after, strict=True) for name in old if repr(old[name]) != repr(new[name])
    }
    # A number stays a number where only the schema says that it is a time, or in which unit.
    assert differing <= {"tod", "Tod", "Small", "__rowMarker__"}


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
