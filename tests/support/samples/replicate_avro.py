"""Replicate's messages in Avro, written with Apache's own library, which shares nothing with the gateway's decoder."""

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final

import avro.schema
from avro.io import BinaryEncoder, DatumWriter

ENVELOPE: Final = {
    "type": "record",
    "name": "MessageEnvelope",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 5}},
        {"name": "type", "type": "string"},
        {"name": "headers", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "messageSchemaId", "type": ["null", "string"]},
        {"name": "messageSchema", "type": ["null", "string"]},
        {"name": "message", "type": "bytes"},
    ],
}
"""As Qlik's help has it."""

COLUMN: Final = {
    "type": "record",
    "name": "Column",
    "fields": [
        {"name": "ordinal", "type": "int"},
        {"name": "type", "type": "string"},
        *({"name": name, "type": "int"} for name in ("length", "precision", "scale", "primaryKeyPosition")),
    ],
}
LINEAGE: Final = {
    "type": "record",
    "name": "Lineage",
    "fields": [
        *({"name": name, "type": "string"} for name in ("server", "task", "schema", "table")),
        {"name": "tableVersion", "type": "int"},
        {"name": "timestamp", "type": "string"},
    ],
}
STRUCTURE: Final = {
    "type": "record",
    "name": "TableStructure",
    "fields": [{"name": "tableColumns", "type": {"type": "map", "values": COLUMN}}],
}
METADATA: Final = {
    "type": "record",
    "name": "Metadata",
    "namespace": "com.attunity.queue.msg",
    "fields": [
        {"name": "schemaId", "type": "string"},
        {"name": "lineage", "type": LINEAGE},
        {"name": "tableStructure", "type": STRUCTURE},
        {"name": "dataSchema", "type": "string"},
    ],
}
HEADERS: Final = {
    "type": "record",
    "name": "Headers",
    "namespace": "com.attunity.queue.msg",
    "fields": [
        {
            "name": "operation",
            "type": {"type": "enum", "name": "operation", "symbols": ["INSERT", "UPDATE", "DELETE", "REFRESH"]},
        },
        *({"name": name, "type": "string"} for name in ("changeSequence", "timestamp", "streamPosition")),
        {"name": "transactionId", "type": "string"},
        {"name": "changeMask", "type": ["null", "bytes"]},
        {"name": "columnMask", "type": ["null", "bytes"]},
        {"name": "transactionEventCounter", "type": ["null", "long"]},
        {"name": "transactionLastEvent", "type": ["null", "boolean"]},
    ],
}

Types = Mapping[str, tuple[str, Any]]
"""By column: its type at Replicate, and in Avro."""

JOBS: Final[Types] = {
    "ID": ("INT4", "int"),
    "TITLE": ("WSTRING", ["null", "string"]),
    "PAY": ("NUMERIC", ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]),
    "SINCE": ("DATE", ["null", {"type": "int", "logicalType": "date"}]),
    "AT": ("DATETIME", ["null", {"type": "long", "logicalType": "timestamp-micros"}]),
    "RATIO": ("REAL8", ["null", "double"]),
    "BADGE": ("BYTES", ["null", "bytes"]),
}


def encoded(schema: Any, record: Any) -> bytes:
    """Return the record as Apache's library writes it."""
    stream = BytesIO()
    DatumWriter(avro.schema.parse(json.dumps(schema))).write(record, BinaryEncoder(stream))
    return stream.getvalue()


def data_schema(table: str, types: Types = JOBS) -> dict[str, Any]:
    """Return the `dataSchema` of a table."""
    fields = [{"name": name, "type": written} for name, (_, written) in types.items()]
    return {
        "type": "record",
        "name": "DataRecord",
        "namespace": f"com.attunity.queue.msg.task.{table}",
        "fields": [
            {"name": "data", "type": {"type": "record", "name": "Data", "fields": fields}},
            {"name": "beforeData", "type": ["null", "Data"]},
            {"name": "headers", "type": HEADERS},
        ],
    }


def metadata_message(table: str, schema_id: str, types: Types = JOBS, *, version: int = 1, schema: Any = None) -> bytes:
    """Return the envelope that describes a table; its first column is the key. `schema` replaces its `dataSchema`."""
    owner, _, name = table.rpartition(".")
    columns = {
        column: {
            "ordinal": ordinal,
            "type": of,
            "length": 0,
            "precision": 9 if of == "NUMERIC" else 0,
            "scale": 2 if of == "NUMERIC" else 0,
            "primaryKeyPosition": int(ordinal == 1),
        }
        for ordinal, (column, (of, _)) in enumerate(types.items(), 1)
    }
    lineage = {"server": "s", "task": "t", "schema": owner, "table": name, "tableVersion": version, "timestamp": ""}
    record = {
        "schemaId": schema_id,
        "lineage": lineage,
        "tableStructure": {"tableColumns": columns},
        "dataSchema": json.dumps(data_schema(table, types) if schema is None else schema),
    }
    return envelope("MD", encoded(METADATA, record), schema=json.dumps(METADATA))


def data_record(
    table: str,
    operation: str,
    row: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
    types: Types = JOBS,
    **headers: Any,
) -> bytes:
    """Return the record of a change without an envelope."""
    width = max(1, (len(types) + 7) // 8)
    whole = {"columnMask": ((1 << len(types)) - 1).to_bytes(width, "big"), "changeMask": None}
    texts = dict.fromkeys(("changeSequence", "timestamp", "streamPosition", "transactionId"), "")
    others = {"transactionEventCounter": None, "transactionLastEvent": None}
    message = {
        "data": dict.fromkeys(types) | row,
        "beforeData": None if before is None else dict.fromkeys(types) | before,
        "headers": {"operation": operation, **texts, **whole, **others, **headers},
    }
    return encoded(data_schema(table, types), message)


def data_message(table: str, schema_id: str, operation: str, row: Mapping[str, Any], *more: Any, **named: Any) -> bytes:
    """Return the envelope of a change."""
    return envelope("DT", data_record(table, operation, row, *more, **named), schema_id=schema_id)


def envelope(kind: str, message: bytes, *, schema_id: str | None = None, schema: str | None = None) -> bytes:
    """Return Replicate's envelope around a record."""
    written = {
        "magic": b"atMSG",
        "type": kind,
        "headers": None,
        "messageSchemaId": schema_id,
        "messageSchema": schema,
        "message": message,
    }
    return encoded(ENVELOPE, written)
