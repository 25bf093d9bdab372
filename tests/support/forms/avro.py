"""Avro as the Kafka bridge decodes it: messages of Replicate and plain rows, in Confluent's wire format."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from io import BytesIO
from typing import Any, Final

import fastavro
from fastavro.schema import parse_schema

from mirrorgate_bridge.kafka.registry import RegisteredDecoder, RegisteredSchema
from tests.support.forms.form import JSON, NAMES, Change, Form, Request, Source, SourceTable
from tests.support.forms.values import Column, Row
from tests.support.kafka import framed
from tests.support.samples.replicate_avro import data_schema

_TYPES: Final[Mapping[str, Any]] = {
    "boolean": "boolean",
    "int16": {"type": "int", "connect.type": "int16"},
    "int32": "int",
    "int64": "long",
    "float32": "float",
    "float64": "double",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "string": "string",
    "binary": "bytes",
    "json": "string",
}
_HEADERS: Final = {"timestamp": "2026-11-01T12:00:00.000", "streamPosition": "", "transactionId": "01"}


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


def _type(column: Column) -> Any:
    if column.kind == "decimal":
        precision, scale = column.precision
        return ["null", {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}]
    return ["null", _TYPES[column.kind]]


def _image(table: SourceTable, row: Row | None) -> Row | None:
    return row and {column.name: row.get(column.name) for column in table.columns}


def _message_schema(table: SourceTable) -> dict[str, Any]:
    return data_schema(table.name, {column.name: ("", _type(column)) for column in table.columns})


def _message(source: Source, change: Change) -> dict[str, Any]:
    """Return the record of a change: a deleted row is in `data`."""
    old, new = _image(source.table, change.old), _image(source.table, change.new)
    operation = "UPDATE" if old and new else "INSERT" if new else "DELETE"
    mask = ((1 << len(source.table.columns)) - 1).to_bytes(3, "big")
    told = {"operation": operation, "changeSequence": f"{source.next_position():035d}", "columnMask": mask}
    return {"data": new or old, "beforeData": old if new else None, "headers": _HEADERS | told}


def _row_schema(table: SourceTable) -> dict[str, Any]:
    fields = [{"name": column.name, "type": _type(column), "default": None} for column in table.columns]
    return {"type": "record", "name": "Row", "fields": [*fields, {"name": "__op__", "type": "string"}]}


def _row(source: Source, change: Change) -> dict[str, Any]:
    return {**(_image(source.table, change.new or change.old) or {}), "__op__": NAMES[change.operation]}


def _decoded(
    source: Source,
    changes: Sequence[Change],
    *,
    path: str,
    schema: Callable[[SourceTable], Any],
    record: Callable[[Source, Change], Any],
) -> Request:
    """Write a request as the bridge makes it of these records."""
    written = schema(source.table)
    decoder = RegisteredDecoder(OneSchema(written), path, "avro", "none", has_table=False)
    values = (encoded(written, record(source, change)) for change in changes)
    body = b"\n".join(decoder.decode("topic", None, value)[1] or b"" for value in values)
    return Request(path, {"table": source.table.name}, JSON, body)


FORMS: Final = (
    Form("replicate avro", partial(_decoded, path="replicate", schema=_message_schema, record=_message), moves=True),
    Form("rows avro", partial(_decoded, path="rows", schema=_row_schema, record=_row)),
)
