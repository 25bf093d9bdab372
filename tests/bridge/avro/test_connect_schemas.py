"""Schemas of Connect from Avro, and the tables that they make."""

import json
from typing import Any

import pytest

from app.formats.avro import connect_schema, read_schema
from mirrorgate.errors import RejectedInput
from mirrorgate_bridge.kafka.registry import RegisteredDecoder
from tests.api.calls import Gateway
from tests.api.commands import staged
from tests.support.forms.avro import OneSchema, encoded

_VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [
        {"name": "id", "type": {"type": "int", "connect.type": "int16"}},
        {
            "name": "price",
            "type": [
                "null",
                {
                    "type": "bytes",
                    "scale": 2,
                    "precision": 10,
                    "connect.version": 1,
                    "connect.parameters": {"scale": "2", "connect.decimal.precision": "10"},
                    "connect.name": "org.apache.kafka.connect.data.Decimal",
                    "logicalType": "decimal",
                },
            ],
            "default": None,
        },
        {
            "name": "at",
            "type": {"type": "long", "connect.version": 1, "connect.name": "io.debezium.time.MicroTimestamp"},
        },
        {
            "name": "kind",
            "type": {
                "type": "string",
                "connect.version": 1,
                "connect.parameters": {"allowed": "a,b"},
                "connect.default": "a",
                "connect.name": "io.debezium.data.Enum",
            },
            "default": "a",
        },
        {"name": "tags", "type": ["null", {"type": "array", "items": ["null", "string"]}], "default": None},
    ],
    "connect.name": "shop.inventory.items.Value",
}
ENVELOPE: dict[str, Any] = {
    "type": "record",
    "name": "Envelope",
    "namespace": "shop.inventory.items",
    "fields": [
        {"name": "before", "type": ["null", _VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "namespace": "io.debezium.connector.postgresql",
                "fields": [{"name": "schema", "type": "string"}, {"name": "table", "type": "string"}],
                "connect.name": "io.debezium.connector.postgresql.Source",
            },
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ],
    "connect.name": "shop.inventory.items.Envelope",
}


def _columns() -> list[dict[str, Any]]:
    """Return the fields as Kafka's JsonConverter with `schemas.enable=true` writes them."""
    return [
        {"type": "int16", "optional": False, "field": "id"},
        {
            "type": "bytes",
            "optional": True,
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
            "field": "price",
        },
        {
            "type": "int64",
            "optional": False,
            "name": "io.debezium.time.MicroTimestamp",
            "version": 1,
            "field": "at",
        },
        {
            "type": "string",
            "optional": False,
            "name": "io.debezium.data.Enum",
            "version": 1,
            "parameters": {"allowed": "a,b"},
            "default": "a",
            "field": "kind",
        },
        {"type": "array", "items": {"type": "string", "optional": True}, "optional": True, "field": "tags"},
    ]


def test_an_envelope_of_debezium_keeps_names_versions_parameters_and_small_integers() -> None:
    schema = connect_schema(read_schema(json.dumps(ENVELOPE)))
    before, after, source, op, ts_ms = schema.pop("fields")
    assert schema == {"type": "struct", "optional": False, "name": "shop.inventory.items.Envelope"}
    assert before == {
        "type": "struct",
        "fields": _columns(),
        "optional": True,
        "name": "shop.inventory.items.Value",
        "field": "before",
    }
    assert after == before | {"field": "after"}
    assert source["name"] == "io.debezium.connector.postgresql.Source"
    assert (op, ts_ms) == (
        {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    )


def test_a_record_becomes_schema_and_payload_with_the_bytes_of_a_decimal_in_base64() -> None:
    decoder = RegisteredDecoder(OneSchema(ENVELOPE), "debezium", "avro", "avro")
    row = {"id": 7, "price": b"\x04\xd2", "at": 1_700_000_000_000_001, "kind": "b", "tags": ["x", None]}
    message = {"before": None, "after": row, "source": {"schema": "inventory", "table": "items"}, "op": "c", "ts_ms": 1}
    written = json.loads(json.dumps(ENVELOPE))
    written["fields"][0]["type"][1]["fields"][1]["type"] = ["null", "bytes"]
    _, value = decoder.decode("topic", None, encoded(written, message))
    assert value is not None
    found = json.loads(value)
    assert found["schema"] == connect_schema(read_schema(json.dumps(ENVELOPE)))
    assert found["payload"] == message | {"after": row | {"price": "BNI="}}


def test_logical_types_alone_give_the_names_that_a_converter_left_out() -> None:
    fields = {
        "d": {"type": "int", "logicalType": "date"},
        "n": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 3},
        "t": {"type": "long", "logicalType": "timestamp-micros"},
    }
    record = {"type": "record", "name": "R", "fields": [{"name": name, "type": of} for name, of in fields.items()]}
    found = {field["field"]: field for field in connect_schema(read_schema(json.dumps(record)))["fields"]}
    assert found["d"]["name"] == "org.apache.kafka.connect.data.Date"
    assert found["n"]["parameters"] == {"scale": "3", "connect.decimal.precision": "5"}
    assert found["t"]["name"] == "io.debezium.time.MicroTimestamp"


def test_a_decimal_keeps_its_precision_unless_the_converter_had_none_to_write() -> None:
    """Confluent's converter writes 64 for none, as for `money` of Postgres, and a column has at most 38 digits."""
    of_64 = {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": 64,
        "scale": 2,
        "connect.parameters": {"scale": "2"},
    }
    known = of_64 | {"connect.parameters": {"scale": "2", "connect.decimal.precision": "64"}}
    assert connect_schema(read_schema(json.dumps(of_64)))["parameters"] == {"scale": "2"}
    assert connect_schema(read_schema(json.dumps(known)))["parameters"] == known["connect.parameters"]


def test_a_map_without_string_keys_becomes_pairs_although_avro_has_entries() -> None:
    """As in sparse vectors. An array of other records with these fields is an array."""
    fields = [{"name": "key", "type": {"type": "int", "connect.type": "int16"}}, {"name": "value", "type": "double"}]
    entry = {"type": "record", "name": "MapEntry", "namespace": "io.confluent.connect.avro", "fields": fields}
    for name, written in (("MapEntry", [[1, 1.5]]), ("Other", [{"key": 1, "value": 1.5}])):
        items = {"type": "array", "items": entry | {"name": name}}
        schema = {"type": "record", "name": "R", "fields": [{"name": "m", "type": items}]}
        record = encoded(schema, {"m": [{"key": 1, "value": 1.5}]})
        _, value = RegisteredDecoder(OneSchema(schema), "debezium", "avro", "avro").decode("topic", None, record)
        found = json.loads(value or b"")
        assert found["payload"] == {"m": written}
        [field] = found["schema"]["fields"]
        assert field["type"] == ("map" if name == "MapEntry" else "array")
        assert field.get("keys") == ({"type": "int16", "optional": False} if name == "MapEntry" else None)


def test_a_union_of_several_types_has_no_connect_schema() -> None:
    with pytest.raises(RejectedInput, match="several types"):
        connect_schema(read_schema('["null", "int", "string"]'))


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
