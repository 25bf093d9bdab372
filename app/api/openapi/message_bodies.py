"""The bodies of change requests in the contract: messages as named components, and examples that the API accepts."""

import json
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.api.schemas.changes import PlainRow
from app.api.schemas.messages.arcion import ArcionMessage
from app.api.schemas.messages.debezium import DebeziumMessage
from app.api.schemas.messages.replicate import ReplicateMessage
from app.api.server.content_types import ARROW_STREAM

COMPONENTS: Final = "#/components/schemas/"

_NATION: Final = {"namespace": {"catalog": "tpch", "schema": "default_schema"}, "name": "nation"}
_ARCION_INSERT: Final = {
    "tableName": _NATION,
    "opType": "I",
    "before": {"n_nationkey": "null", "n_name": "null"},
    "after": {"n_nationkey": "100", "n_name": "Testing name"},
    "exists": {"n_nationkey": "1", "n_name": "1"},
}
_ARCION_UPDATE: Final = {
    "tableName": _NATION,
    "opType": "U",
    "before": {"n_nationkey": 100, "n_name": "Testing name"},
    "after": {"n_nationkey": 100, "n_name": "Another name"},
    "exists": {"n_nationkey": 3, "n_name": 3},
}
_ARCION_DELETE: Final = {
    "tableName": _NATION,
    "opType": "D",
    "before": {"n_nationkey": "100"},
    "exists": {"n_nationkey": "2"},
}

_REPLICATE_METADATA: Final = {
    "magic": "atMSG",
    "type": "MD",
    "headers": None,
    "messageSchemaId": None,
    "messageSchema": None,
    "message": {
        "schemaId": "7b1c",
        "lineage": {"server": "replicate", "task": "hr", "schema": "HR", "table": "JOBS", "tableVersion": 1},
        "tableStructure": {
            "tableColumns": {
                "ID": {"ordinal": 1, "type": "INT4", "primaryKeyPosition": 1, "nullable": False},
                "TITLE": {"ordinal": 2, "type": "WSTRING", "length": 50, "primaryKeyPosition": 0},
                "PAY": {"ordinal": 3, "type": "NUMERIC", "precision": 9, "scale": 2, "primaryKeyPosition": 0},
            }
        },
    },
}
_REPLICATE_INSERT: Final = {
    "magic": "atMSG",
    "type": "DT",
    "headers": None,
    "messageSchemaId": "7b1c",
    "messageSchema": None,
    "message": {
        "data": {"ID": 7, "TITLE": "Engineer", "PAY": "81234.50"},
        "beforeData": None,
        "headers": {"operation": "INSERT", "changeSequence": "20260102030405060000000000000000001"},
    },
}
_REPLICATE_BARE_DELETE: Final = {
    "schema": "HR",
    "table": "JOBS",
    "data": {"ID": 7},
    "headers": {"operation": "DELETE", "changeSequence": "20260102030405060000000000000000002"},
}


_DEBEZIUM_SOURCE: Final = {
    "version": "3.0.8.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1767323045000,
    "snapshot": "false",
    "db": "shop",
    "schema": "public",
    "table": "orders",
    "txId": 571,
    "lsn": 24023128,
}
_DEBEZIUM_ROW: Final = [
    {"type": "int32", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "note"},
    {"type": "string", "optional": True, "name": "io.debezium.time.ZonedTimestamp", "version": 1, "field": "placed"},
]
_DEBEZIUM_CREATE: Final = {
    "key": {
        "schema": {"type": "struct", "fields": [_DEBEZIUM_ROW[0]], "optional": False, "name": "shop.public.orders.Key"},
        "payload": {"id": 7},
    },
    "value": {
        "schema": {
            "type": "struct",
            "fields": [
                {"type": "struct", "fields": _DEBEZIUM_ROW, "optional": True, "field": "before"},
                {"type": "struct", "fields": _DEBEZIUM_ROW, "optional": True, "field": "after"},
            ],
            "optional": False,
            "name": "shop.public.orders.Envelope",
        },
        "payload": {
            "before": None,
            "after": {"id": 7, "note": "first", "placed": "2026-01-02T03:04:05Z"},
            "source": _DEBEZIUM_SOURCE,
            "op": "c",
            "ts_ms": 1767323045120,
        },
    },
}
_DEBEZIUM_UPDATE: Final = {
    "before": None,
    "after": {"id": 7, "note": "second", "placed": "2026-01-02T03:04:05Z"},
    "source": _DEBEZIUM_SOURCE,
    "op": "u",
    "ts_ms": 1767323046120,
}
_DEBEZIUM_DELETE: Final = {
    "before": {"id": 7, "note": None, "placed": None},
    "after": None,
    "source": _DEBEZIUM_SOURCE,
    "op": "d",
    "ts_ms": 1767323047120,
}


class _Messages(BaseModel):
    arcion: ArcionMessage
    replicate: ReplicateMessage
    debezium: DebeziumMessage
    rows: PlainRow


def message_schemas() -> dict[str, Any]:
    """Return the JSON schemas of all messages and of their parts, by component name."""
    _, schemas = models_json_schema([(_Messages, "validation")], ref_template=COMPONENTS + "{model}")
    return {name: schema for name, schema in sorted(schemas["$defs"].items()) if name != _Messages.__name__}


def _body(message: str, empty: dict[str, Any] | None, examples: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a body with one or many messages, each of which can also be `empty`."""
    one = {"$ref": COMPONENTS + message}
    alone = [one] if empty is None else [one, empty]
    items = one if empty is None else {"anyOf": alone}
    lines = "".join(json.dumps(message) + "\n" for message in examples["several"]["value"])
    content = {
        "application/json": {
            "schema": {"anyOf": [*alone, {"type": "array", "items": items, "minItems": 1}]},
            "examples": examples,
        },
        "application/x-ndjson": {
            "schema": {"type": "string", "description": "One message per line."},
            "examples": {"lines": {"summary": "One message per line", "value": lines}},
        },
    }
    return {"requestBody": {"required": True, "content": content}}


ARCION_BODY: Final = _body(
    "ArcionMessage",
    None,
    {
        "one": {"summary": "An insert", "value": _ARCION_INSERT},
        "several": {"summary": "An update and a delete", "value": [_ARCION_UPDATE, _ARCION_DELETE]},
    },
)
ARCION_BODY["requestBody"]["content"]["text/csv"] = {
    "schema": {
        "type": "string",
        "description": "One record per row; requires `table`, `mode`, and `columns` or `header`.",
    },
    "examples": {"rows": {"summary": "Two snapshot rows", "value": "100,Testing name\r\n101,NULL\r\n"}},
}
REPLICATE_BODY: Final = _body(
    "ReplicateMessage",
    {"type": "null"},
    {
        "one": {"summary": "Metadata that registers a table", "value": _REPLICATE_METADATA},
        "several": {
            "summary": "An insert in its envelope, and a bare delete",
            "value": [_REPLICATE_INSERT, _REPLICATE_BARE_DELETE],
        },
    },
)
DEBEZIUM_BODY: Final = _body(
    "DebeziumMessage",
    {"type": "null"},
    {
        "one": {"summary": "A record whose schema registers its table", "value": _DEBEZIUM_CREATE},
        "several": {
            "summary": "An update and a delete without a schema",
            "value": [_DEBEZIUM_UPDATE, _DEBEZIUM_DELETE],
        },
    },
)
ROWS_BODY: Final = _body(
    "PlainRow",
    None,
    {
        "one": {"summary": "A row to insert or replace", "value": {"n_nationkey": 100, "n_name": "Testing name"}},
        "several": {
            "summary": "A row to insert or replace, and one to delete",
            "value": [{"n_nationkey": 101, "n_name": None}, {"__op__": "delete", "n_nationkey": 100}],
        },
    },
)
ROWS_BODY["requestBody"]["content"]["text/csv"] = {
    "schema": {"type": "string", "description": "A header with the names of the columns, then one record per row."},
    "examples": {"rows": {"summary": "Two rows", "value": "n_nationkey,n_name\r\n100,Testing name\r\n101,\r\n"}},
}
_STREAM: Final = {
    "schema": {
        "type": "string",
        "format": "binary",
        "description": "One Arrow IPC stream with the table's columns, without view, dictionary or nested types, and "
        "with uncompressed buffers.",
    }
}
ROWS_BODY["requestBody"]["content"][ARROW_STREAM] = _STREAM
ARROW_BODY: Final = {"requestBody": {"required": True, "content": {ARROW_STREAM: _STREAM}}}
