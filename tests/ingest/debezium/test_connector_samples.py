"""Histories as the connectors for four databases write them, with their Connect schemas and without."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isnan
from typing import Any

import pytest

from app.domain.model.table_options import TimestampUnit
from app.formats.debezium.values import DebeziumReading, DecimalForm
from app.ingest import DebeziumJson
from tests.project.facts import REPOSITORY
from tests.support.ingest_harness import IngestHarness

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
