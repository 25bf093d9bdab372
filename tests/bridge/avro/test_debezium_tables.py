"""Debezium's Avro, decoded, registers, evolves and fills a table of the gateway as its JSON with schema does."""

import json
from typing import Any

import pytest

from app.formats.avro import connect_schema, read_schema
from mirrorgate_bridge.kafka.registry import RegisteredDecoder
from tests.api.calls import Gateway
from tests.api.commands import staged
from tests.bridge.avro.test_connect_schemas import ENVELOPE
from tests.support.forms.avro import OneSchema, encoded

KEY = {
    "type": "record",
    "name": "Key",
    "namespace": "shop.inventory.items",
    "fields": [{"name": "id", "type": {"type": "int", "connect.type": "int16"}}],
    "connect.name": "shop.inventory.items.Key",
}
ROW = {"id": 7, "price": b"\x04\xd2", "at": 1_700_000_000_000_001, "kind": "b", "tags": ["x", None]}


def envelope(*more: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a value with further columns."""
    schema: dict[str, Any] = json.loads(json.dumps(ENVELOPE))
    schema["fields"][0]["type"][1]["fields"] += more
    return schema


def without_logical_types(schema: Any) -> Any:
    """Return the schema for a writer of plain values."""
    if isinstance(schema, dict):
        return {name: without_logical_types(of) for name, of in schema.items() if name != "logicalType"}
    return [without_logical_types(of) for of in schema] if isinstance(schema, list) else schema


def change(op: str, before: Any, after: Any, table: str) -> dict[str, Any]:
    source = {"schema": "inventory", "table": table}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1_700_000_000_000}


def in_avro(schema: dict[str, Any], message: dict[str, Any]) -> bytes:
    """Return the element that the bridge makes of an Avro record."""
    row = message["after"] or message["before"]
    value = encoded(without_logical_types(schema), message)
    _, decoded = RegisteredDecoder(OneSchema(schema), "debezium", "avro", "none").decode("t", None, value)
    key, _ = RegisteredDecoder(OneSchema(KEY), "debezium", "none", "avro").decode(
        "t", encoded(KEY, {"id": row["id"]}), None
    )
    assert decoded is not None
    assert key is not None
    return b'{"key":%b,"value":%b}' % (key, decoded)


def in_json(schema: dict[str, Any], message: dict[str, Any]) -> bytes:
    """Return the element of a JsonConverter."""

    def image(row: dict[str, Any] | None) -> dict[str, Any] | None:
        return row and row | {"price": "BNI="}

    payload = message | {"before": image(message["before"]), "after": image(message["after"])}
    value = {"schema": connect_schema(read_schema(json.dumps(schema))), "payload": payload}
    row = message["after"] or message["before"]
    key = {"schema": connect_schema(read_schema(json.dumps(KEY))), "payload": {"id": row["id"]}}
    return json.dumps({"key": key, "value": value}).encode()


@pytest.mark.parametrize("written", [in_avro, in_json])
def test_a_table_is_registered_evolved_and_filled(gateway: Gateway, written: Any) -> None:
    first, wider = envelope(), envelope({"name": "note", "type": ["null", "string"], "default": None})
    body = b"\n".join(
        [
            written(first, change("c", None, ROW, "items")),
            written(wider, change("u", ROW | {"note": None}, ROW | {"kind": "a", "note": "n"}, "items")),
            written(wider, change("d", ROW | {"kind": "a", "note": "n"}, None, "items")),
        ]
    )
    answer = gateway.post(
        "/v1/changes/debezium", content=body, headers={"Content-Type": "application/x-ndjson"}
    ).raise_for_status()
    assert answer.json()["receipts"][0]["table"] == "inventory.items"
    table = gateway.get("/v1/tables/inventory.items/schema").json()
    assert [(column["name"], column["type"]) for column in table["columns"]] == [
        ("id", "int16"),
        ("price", "decimal(10,2)"),
        ("at", "timestamp"),
        ("kind", "string"),
        ("tags", "json"),
        ("note", "string"),
    ]
    assert table["key_columns"] == ["id"]
    rows = [[str(value) for value in row] for row in staged(gateway.engine, "inventory.items")]
    assert [row[:4] for row in rows][:1] == [["7", "12.34", "2023-11-14 22:13:20.000001+00:00", "b"]]
    assert len(rows) == 3
