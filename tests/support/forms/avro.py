"""Avro as the Kafka bridge decodes it: messages of Replicate and plain rows, in Confluent's wire format."""

import json
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Final

import fastavro
from fastavro.schema import parse_schema

from app.formats.rows.messages import OPERATION_COLUMN
from mirrorgate_bridge.kafka.registry import RegisteredDecoder, RegisteredSchema
from tests.support.forms import replicate, rows
from tests.support.forms.form import NAME, Events, Form, split_key_changes
from tests.support.forms.source_histories import Event, Row, SourceTable
from tests.support.kafka import framed

TYPES: Final[Mapping[str, Any]] = {
    "boolean": "boolean",
    "int16": {"type": "int", "connect.type": "int16"},
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "decimal(12,2)": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "string": "string",
    "binary": "bytes",
    "json": "string",
}
_OPERATION: Final = {"type": "enum", "name": "operation", "symbols": ["INSERT", "UPDATE", "DELETE", "REFRESH"]}
_HEADERS: Final = {
    "type": "record",
    "name": "Headers",
    "namespace": "com.attunity.queue.msg",
    "fields": [
        {"name": "operation", "type": _OPERATION},
        {"name": "changeSequence", "type": "string"},
        {"name": "timestamp", "type": "string"},
        {"name": "streamPosition", "type": "string"},
        {"name": "transactionId", "type": "string"},
        {"name": "changeMask", "type": ["null", "bytes"], "default": None},
        {"name": "columnMask", "type": ["null", "bytes"], "default": None},
        {"name": "transactionEventCounter", "type": ["null", "long"], "default": None},
        {"name": "transactionLastEvent", "type": ["null", "boolean"], "default": None},
    ],
}


class OneSchema:
    """A registry that has one schema, under every id."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def schema(self, identity: int) -> RegisteredSchema:
        """Return the schema."""
        return RegisteredSchema("AVRO", json.dumps(self._schema))


def encoded(schema: Any, record: Any, identity: int = 1) -> bytes:
    """Return the record in Confluent's wire format; `identity` is the id of its schema."""
    stream = BytesIO()
    fastavro.schemaless_writer(stream, parse_schema(schema), record)
    return framed(identity, stream.getvalue())


def columns_of(table: SourceTable) -> list[dict[str, Any]]:
    """Return the fields of a row, all of which may be null."""
    return [{"name": name, "type": ["null", TYPES[of]], "default": None} for name, of in table.types.items()]


def replicate_schema(table: SourceTable) -> dict[str, Any]:
    """Return what Replicate registers for a table: the data, the data before, and the headers."""
    data = {"type": "record", "name": "Data", "fields": columns_of(table)}
    return {
        "type": "record",
        "name": "DataRecord",
        "namespace": f"com.attunity.queue.msg.task.{NAME}",
        "fields": [
            {"name": "data", "type": ["null", data], "default": None},
            {"name": "beforeData", "type": ["null", "Data"], "default": None},
            {"name": "headers", "type": _HEADERS},
        ],
    }


def replicate_message(table: SourceTable, event: Event) -> dict[str, Any]:
    """Return the record of an event: a deleted row is in `data`."""
    old, new = _record(table, event.old), _record(table, event.new)
    headers = {
        "operation": "UPDATE" if old and new else "INSERT" if new else "DELETE",
        "changeSequence": f"{1:035d}",
        "timestamp": "2026-11-01T12:00:00.000",
        "streamPosition": "",
        "transactionId": "01",
        "columnMask": ((1 << len(table.types)) - 1).to_bytes(3, "big"),
    }
    return {"data": new or old, "beforeData": old if new else None, "headers": headers}


def row_schema(table: SourceTable) -> dict[str, Any]:
    """Return the schema of a row with its operation."""
    operation = {"name": OPERATION_COLUMN, "type": "string"}
    return {"type": "record", "name": "Row", "fields": [*columns_of(table), operation]}


def _row(table: SourceTable, event: Event) -> dict[str, Any]:
    operation = "update" if event.old and event.new else "insert" if event.new else "delete"
    return {**(_record(table, event.new or event.old) or {}), OPERATION_COLUMN: operation}


def _record(table: SourceTable, row: Row | None) -> dict[str, Any] | None:
    return None if row is None else dict(zip(table.types, row, strict=True))


def _writer(
    source_format: str,
    schema: Callable[[SourceTable], Any],
    record: Callable[[SourceTable, Event], Any],
    split: Callable[[SourceTable, Events], Events],
) -> Callable[[SourceTable, Events], bytes]:
    def write(table: SourceTable, events: Events) -> bytes:
        written = schema(table)
        decoder = RegisteredDecoder(OneSchema(written), source_format, "avro", "none", has_table=False)
        values = (encoded(written, record(table, event)) for event in split(table, events))
        return b"\n".join(decoder.decode("topic", None, value)[1] or b"" for value in values)

    return write


def _together(_: SourceTable, events: Events) -> Events:
    return events


REPLICATE: Final = Form(
    _writer("replicate", replicate_schema, replicate_message, _together),
    replicate.FLATTENED.read,
    replicate.FLATTENED.request,
)
ROWS: Final = Form(
    _writer("rows", row_schema, _row, split_key_changes), rows.ARRAY.read, rows.ARRAY.request, splits_key_changes=True
)
