"""The Replicate messages of the benchmarks in Avro, with the schemas that Qlik's pages give."""

import json
from collections.abc import Sequence
from functools import cache
from io import BytesIO
from typing import Any, Final

import fastavro

from benchmarks.loads.messages import replicate_insert, replicate_metadata

SCHEMA_ID: Final = "0d8f2c41-5b7e-4c1a-8e60-2f9a7d3b4c55"
_OPTIONAL_TEXT: Final = ["null", "string"]
_ENVELOPE: Final = {
    "type": "record",
    "name": "MessageEnvelope",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 5}},
        {"name": "type", "type": "string"},
        {"name": "headers", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "messageSchemaId", "type": _OPTIONAL_TEXT},
        {"name": "messageSchema", "type": _OPTIONAL_TEXT},
        {"name": "message", "type": "bytes"},
    ],
}
_TEXTS: Final = ("changeSequence", "timestamp", "streamPosition", "transactionId")
_OPERATIONS: Final = ["INSERT", "UPDATE", "DELETE", "REFRESH"]
_HEADERS: Final = {
    "type": "record",
    "name": "Headers",
    "namespace": "com.attunity.queue.msg",
    "fields": [
        {"name": "operation", "type": {"type": "enum", "name": "operation", "symbols": _OPERATIONS}},
        *({"name": name, "type": "string"} for name in _TEXTS),
        *({"name": name, "type": ["null", "bytes"]} for name in ("changeMask", "columnMask")),
        {"name": "transactionEventCounter", "type": ["null", "long"]},
        {"name": "transactionLastEvent", "type": ["null", "boolean"]},
    ],
}


def avro_insert(table: str, names: Sequence[str], key: int) -> bytes:
    """Return the envelope of an insert of the registered table."""
    record = _written(_parsed(json.dumps(_data_schema(table, names))), replicate_insert(names, key)["message"])
    return _envelope("DT", record, schema_id=SCHEMA_ID)


def avro_metadata(table: str, names: Sequence[str]) -> bytes:
    """Return the envelope of the message that registers the table; the first column is the key."""
    message = replicate_metadata(table, names)["message"] | {
        "schemaId": SCHEMA_ID,
        "dataSchema": json.dumps(_data_schema(table, names)),
    }
    message["lineage"]["timestamp"] = ""
    schema = json.dumps(_METADATA)
    return _envelope("MD", _written(_parsed(schema), message), schema=schema)


_NUMBERS: Final = ("ordinal", "length", "precision", "scale", "primaryKeyPosition")
_COLUMN: Final = {
    "type": "record",
    "name": "Column",
    "fields": [{"name": "type", "type": "string"}, *({"name": name, "type": "int"} for name in _NUMBERS)],
}
_LINEAGE: Final = {
    "type": "record",
    "name": "Lineage",
    "fields": [
        *({"name": name, "type": "string"} for name in ("server", "task", "schema", "table")),
        {"name": "tableVersion", "type": "int"},
        {"name": "timestamp", "type": "string"},
    ],
}
_STRUCTURE: Final = {
    "type": "record",
    "name": "TableStructure",
    "fields": [{"name": "tableColumns", "type": {"type": "map", "values": _COLUMN}}],
}
_METADATA: Final = {
    "type": "record",
    "name": "Metadata",
    "fields": [
        {"name": "schemaId", "type": "string"},
        {"name": "lineage", "type": _LINEAGE},
        {"name": "tableStructure", "type": _STRUCTURE},
        {"name": "dataSchema", "type": "string"},
    ],
}


def _data_schema(table: str, names: Sequence[str]) -> dict[str, Any]:
    numbers = len(names) // 2
    row = [{"name": name, "type": ["null", "long" if at < numbers else "string"]} for at, name in enumerate(names)]
    return {
        "type": "record",
        "name": "DataRecord",
        "namespace": f"com.attunity.queue.msg.bench.{table}",
        "fields": [
            {"name": "data", "type": {"type": "record", "name": "Data", "fields": row}},
            {"name": "beforeData", "type": ["null", "Data"]},
            {"name": "headers", "type": _HEADERS},
        ],
    }


def _envelope(kind: str, message: bytes, *, schema_id: str | None = None, schema: str | None = None) -> bytes:
    written = {
        "magic": b"atMSG",
        "type": kind,
        "headers": None,
        "messageSchemaId": schema_id,
        "messageSchema": schema,
        "message": message,
    }
    return _written(_parsed(json.dumps(_ENVELOPE)), written)


@cache
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


def _written(schema: Any, record: Any) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, schema, record)
    return stream.getvalue()
