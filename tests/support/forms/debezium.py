"""Debezium: envelopes with and without schema, records with keys and tombstones, and flattened rows.

A changed key is a delete and an insert, as Debezium writes it.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from app.domain.model.change import Change
from app.domain.model.table_options import BinaryEncoding, TableOptions, TimestampUnit
from app.formats.debezium.messages import RecordReader
from app.formats.debezium.records import decode_debezium
from app.formats.debezium.values import DEFAULT_PLACEHOLDER, PLAIN_READING, DebeziumReading
from app.ingest.columnar import Asked, ColumnarBody
from app.ingest.readers import DebeziumJson
from tests.support.forms.form import ANYONE, NAME, Events, Form, key_columns, schema, split_key_changes
from tests.support.forms.source_histories import Event, Row, SourceTable
from tests.support.samples.debezium import Field, Message, event, flat_with_schema, key_with_schema, keyed, with_schema
from tests.support.samples.schemas import active_table

_FIELDS: Final[Mapping[str, Field]] = {
    "boolean": "boolean",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "float32": "float",
    "float64": "double",
    "decimal(12,2)": {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "12"},
    },
    "date": {"type": "int32", "name": "io.debezium.time.Date"},
    "timestamp": {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    "string": "string",
    "binary": "bytes",
    "json": {"type": "string", "name": "io.debezium.data.Json"},
}
_ZONED: Final[Mapping[str, Field]] = {"timestamp": {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}}
_CAN_BE_OMITTED: Final = frozenset({"string", "json"})
"""Types of which Postgres omits unchanged values that are long."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
OPTIONS: Final = TableOptions(binary_encoding=BinaryEncoding.HEX)
"""Events without a schema do not tell how their bytes are encoded."""
_MICROS: Final = DebeziumReading(timestamps=(("*", TimestampUnit.MICROS),))


@dataclass(frozen=True, slots=True)
class _Writer:
    """How values and the fields of a table are written."""

    fields: Mapping[str, Field]
    has_schema: bool = True

    def columns(self, table: SourceTable) -> dict[str, Field]:
        """Return the fields by column; keys are required."""
        keys = key_columns(table)
        described = {name: self.fields[of] for name, of in table.types.items()}
        return {
            name: {**({"type": of} if isinstance(of, str) else of), "optional": name not in keys}
            for name, of in described.items()
        }

    def row(self, table: SourceTable, row: Row | None) -> Message | None:
        """Return an image."""
        if row is None:
            return None
        pairs = zip(table.types.items(), row, strict=True)
        return {name: None if value is None else self._value(value, of) for (name, of), value in pairs}

    def _value(self, value: Any, kind: str) -> Any:
        if isinstance(value, Decimal):
            return _connect_decimal(value) if self.has_schema else str(value)
        if isinstance(value, bytes):
            return b64encode(value).decode() if self.has_schema else value.hex()
        if isinstance(value, datetime):
            is_zoned = self.fields["timestamp"] is _ZONED["timestamp"]
            text = value.isoformat().replace("+00:00", "Z")
            return text if is_zoned else (value - _EPOCH) // timedelta(microseconds=1)
        return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


_CONNECT: Final = _Writer(_FIELDS)
_WITH_ZONES: Final = _Writer({**_FIELDS, **_ZONED})
_PLAIN: Final = _Writer(_FIELDS, has_schema=False)


def _connect_decimal(value: Decimal) -> str:
    unscaled = int(value.scaleb(2))
    return b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()


def _envelope(writer: _Writer, table: SourceTable, change: Event) -> Message:
    old, new = writer.row(table, change.old), writer.row(table, change.new)
    return event("u" if old and new else "c" if new else "d", str(NAME), old, new)


def _with_schema(table: SourceTable, change: Event) -> list[Message]:
    return [with_schema(_envelope(_CONNECT, table, change), _CONNECT.columns(table))]


def _without_schema(table: SourceTable, change: Event) -> list[Message]:
    return [_envelope(_PLAIN, table, change)]


def _record(table: SourceTable, change: Event) -> list[Message]:
    """Write a record; a deleted row is followed by its tombstone, and an update has no unchanged texts."""
    written = _envelope(_WITH_ZONES, table, change)
    names, shown = key_columns(table), written["after"] or written["before"]
    columns = _WITH_ZONES.columns(table)
    key = key_with_schema({name: shown[name] for name in names}, {name: columns[name] for name in names})
    if written["op"] == "u":
        old, written["before"] = written["before"], None
        for name in [name for name, of in table.types.items() if of in _CAN_BE_OMITTED and name not in names]:
            if old[name] is not None and old[name] == shown[name]:
                shown[name] = DEFAULT_PLACEHOLDER
    record = keyed(key, with_schema(written, columns))
    return [record, keyed(key, None)] if written["op"] == "d" else [record]


def _flattened(table: SourceTable, change: Event) -> list[Message]:
    """Write the row alone, as ExtractNewRecordState does with `delete.tombstone.handling.mode=rewrite`."""
    row = _CONNECT.row(table, change.new or change.old) or {}
    columns = _CONNECT.columns(table) | {"__deleted": "string", "__op": "string"}
    marks = {"__deleted": str(change.new is None).lower(), "__op": _envelope(_CONNECT, table, change)["op"]}
    names = {"__schema": NAME.schema, "__table": NAME.table}
    return [flat_with_schema(row | marks | names, columns | dict.fromkeys(names, "string"))]


def _form(
    messages: Callable[[SourceTable, Event], list[Message]],
    reading: DebeziumReading = PLAIN_READING,
    *,
    is_partial: bool = False,
) -> Form:
    def write(table: SourceTable, events: Events) -> bytes:
        written = [one for change in split_key_changes(table, events) for one in messages(table, change)]
        return json.dumps(written, separators=(",", ":")).encode()

    def read(table: SourceTable, body: bytes) -> Sequence[Change]:
        reader = RecordReader(active_table(schema(table), OPTIONS, NAME), reading)
        return [reader.change(record) for record in decode_debezium(body, reading).records]

    def request(body: bytes) -> Asked[ColumnarBody]:
        return Asked(DebeziumJson(body, None, reading), ANYONE)

    return Form(write, read, request, is_partial=is_partial, splits_key_changes=True)


WITH_SCHEMA: Final = _form(_with_schema)
WITHOUT_SCHEMA: Final = _form(_without_schema, _MICROS)
RECORDS: Final = _form(_record, is_partial=True)
FLATTENED: Final = _form(_flattened)
