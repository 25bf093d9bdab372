"""Debezium: envelopes with and without schema, records with keys and tombstones, and flattened rows."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

from tests.support.forms.form import ANY, ENCODER, JSON, Change, Form, Request, Source, SourceTable
from tests.support.forms.values import BAD, EPOCH, FIRST, LAST, Column, Row, as_text, local_time
from tests.support.samples import debezium

PLACEHOLDER: Final = "__debezium_unavailable_value"
_CONNECT: Final[Mapping[str, debezium.Field]] = {
    "boolean": "boolean", "int16": "int16", "int32": "int32", "int64": "int64", "float32": "float", "float64": "double",
    "date": {"type": "int32", "name": "io.debezium.time.Date"}, "string": "string", "binary": "bytes",
    "json": {"type": "string", "name": "io.debezium.data.Json"},
}  # fmt: skip
_ZONED: Final = {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}
_MICRO: Final = {"type": "int64", "name": "io.debezium.time.MicroTimestamp"}


def _connect_decimal(value: Decimal) -> str:
    sign, digits, _ = value.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    return b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()


def _micros(value: datetime) -> int:
    return (value.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class _Writer:
    """How one request writes values: timestamps as texts with a zone or as local numbers, by column in `units`."""

    source: Source
    has_schema: bool
    units: Mapping[str, str]
    decimals_as_bytes: bool

    def field(self, column: Column) -> dict[str, Any]:
        if column.kind == "decimal":
            precision, scale = column.precision
            parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
            of: Any = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": parameters}
        else:
            of = _CONNECT.get(column.kind) or (_MICRO if column.name in self.units else _ZONED)
        return {**({"type": of} if isinstance(of, str) else of), "optional": column.nullable}

    def row(self, row: Row | None, columns: Sequence[Column]) -> dict[str, Any] | None:
        return None if row is None else {column.name: self.value(row, column) for column in columns}

    def value(self, row: Row, column: Column) -> Any:
        value = row.get(column.name)
        if column in self.source.table.excluded:
            return None
        if isinstance(value, bytes):
            return b64encode(value).decode() if self.has_schema else as_text(value, column, self.source.rng)
        if isinstance(value, Decimal):
            as_bytes = self.decimals_as_bytes
            return _connect_decimal(value) if as_bytes else format(value, "f")
        if isinstance(value, datetime):
            unit = self.units.get(column.name)
            if unit is None:
                return value.isoformat().replace("+00:00", "Z")
            return _micros(local_time(value, column.zone) or value) // (1000 if unit == "millis" else 1)
        if isinstance(value, float) and value - value != 0:
            return as_text(value, column, self.source.rng)
        return (value - date(1970, 1, 1)).days if isinstance(value, date) else value


def _writer(source: Source, changes: Sequence[Change], *, has_schema: bool) -> _Writer:
    """Choose how to write; numbers only for columns whose every moment has a local time."""
    rng, units = source.rng, dict[str, str]()
    rows = [row for change in changes for row in (change.old, change.new) if row is not None]
    for column in source.table.columns:
        is_fit = has_schema or (column.zone.key == "UTC" and {*column.name}.isdisjoint(',"'))
        if column.kind == "timestamp" and is_fit and rng.random() < 0.6:
            values = [row[column.name] for row in rows if row.get(column.name) is not None]
            if all(value not in (FIRST, LAST) and local_time(value, column.zone) for value in values):
                is_coarse = not has_schema and not any(value.microsecond % 1000 for value in values)
                units[column.name] = "millis" if is_coarse else "micros"
    is_good = not any(BAD in row.values() for row in rows)  # a corrected value would have to be base64 too
    return _Writer(source, has_schema, units, has_schema or (is_good and rng.random() < 0.5))


def _events(source: Source, changes: Sequence[Change], *, schema: bool, records: bool, flat: bool = False) -> Request:
    table, rng = source.table, source.rng
    writer, columns = _writer(source, changes, has_schema=schema), table.sent
    fields = {column.name: writer.field(column) for column in columns}
    keys, names_table = table.key_columns, not flat or rng.random() < 0.5
    written = []
    for change in changes:
        op = {"I": "c", "U": "u", "D": "d", "S": "r", "R": ""}[change.operation]
        new = writer.row(change.new, columns)
        old = writer.row(change.old, columns if change.known else keys)
        if op == "u" and change.statement == 0:
            old = rng.choice((None, {}, old)) if change.given is None else None
        if new is not None and change.given is not None:
            new = _without(new, change.given, table, schema=schema)
        source.next_position()
        if flat:
            message = _flat(change, op, new, old) | (_address(table) if names_table else {})
            change.tell(ANY, ANY)
        else:
            message = debezium.event(op, table.name, old, new, ts_ms=int(source.moment().timestamp() * 1000))
            change.tell(source.moment(), ANY)
        if schema:
            added = {name: "string" for name in message if name.startswith("__")}
            message = (
                debezium.flat_with_schema(message, fields | added) if flat else debezium.with_schema(message, fields)
            )
        if records:
            key = writer.row(change.new or change.old, keys) or {}
            shown = debezium.key_with_schema(key, {name: fields[name] for name in table.keys}) if schema else key
            written.append(debezium.keyed(shown, message))
            if op == "d":
                written.append(debezium.keyed(shown, None))
        else:
            written.append(message)
    parameters = {} if names_table else {"table": table.name}
    if not schema and writer.decimals_as_bytes:
        parameters["decimals"] = "base64"
    if not schema and writer.units:
        parameters["timestamps"] = ",".join(f"{name}:{unit}" for name, unit in writer.units.items())
    return Request("debezium", parameters, JSON, ENCODER.encode(written))


def _without(new: dict[str, Any], given: frozenset[str], table: SourceTable, *, schema: bool) -> dict[str, Any]:
    """Leave out what is not given; an event with a schema has a placeholder in its place."""
    if schema:
        return {name: value if name in given else PLACEHOLDER for name, value in new.items()}
    return {name: value for name, value in new.items() if name in given}


def _address(table: SourceTable) -> dict[str, str]:
    schema, _, name = table.name.rpartition(".")
    return {"__schema": schema, "__table": name}


def _flat(change: Change, op: str, new: Any, old: Any) -> dict[str, Any]:
    """Return a row as ExtractNewRecordState writes it."""
    row = dict(new or {}) if change.new is not None else dict(old or {})
    row["__deleted"] = str(change.new is None).lower()
    if op:
        row["__op"] = op
    return row


def _is_text(column: Column) -> bool:
    return column.kind in ("string", "json")


FORMS: Final = (
    Form(
        "debezium with schema",
        partial(_events, schema=True, records=False),
        "IUDS",
        partial="U",
        moves=True,
        omits=_is_text,
    ),
    Form("debezium records", partial(_events, schema=True, records=True), "IUDS", partial="U", omits=_is_text),
    Form("debezium without schema", partial(_events, schema=False, records=False), "IUDS", partial="U", moves=True),
    Form("debezium flattened", partial(_events, schema=True, records=False, flat=True), "IUDRS"),
    Form("debezium flattened without schema", partial(_events, schema=False, records=False, flat=True), "IUDRS"),
)
