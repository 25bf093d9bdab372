"""The encodings: each writes changes of one table as a request, and says what it can tell of a change."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

import msgspec
import pyarrow as pa

from tests.model.fold import Change
from tests.model.tables import ANY, Facts, Spec
from tests.model.values import BAD, EPOCH, FIRST, LAST, Column, Row, as_json, as_text, local_time
from tests.support.samples import debezium, messages
from tests.support.samples.arrow_streams import stream

ENCODER: Final = msgspec.json.Encoder(decimal_format="number")
PLACEHOLDER: Final = "__debezium_unavailable_value"
JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
_WORDS: Final = {"I": "INSERT", "U": "UPDATE", "D": "DELETE", "S": "REFRESH"}
_NAMES: Final = {"I": "insert", "U": "update", "D": "delete", "R": "upsert", "S": "snapshot"}


@dataclass
class Request:
    """A request of changes, and the messages one by one where a dead letter can be one of them."""

    path: str
    parameters: dict[str, str]
    content: str
    body: bytes


@dataclass
class Source:
    """The writer's side of a table: its random source, the state of its metadata, and a clock."""

    spec: Spec
    rng: Random
    table_version: int = 0
    described: tuple[str, ...] = ()
    position: int = 0

    def next_position(self) -> int:
        self.position += 1
        return self.position

    def moment(self) -> datetime:
        """Return the time of a change, in milliseconds."""
        return datetime(2026, 1, 5, 8, tzinfo=UTC) + timedelta(milliseconds=1234 * self.position)


@dataclass(frozen=True)
class Form:
    """An encoding. `operations` are those that it writes; `partial` tells of what it can leave values out.

    `partial` is a subset of "U" for updates, "I" for inserts, and "*" if all rows of a request leave out the same.
    """

    name: str
    write: Callable[[Source, Sequence[Change]], Request]
    operations: str = "IUD"
    partial: str = ""
    moves: bool = False
    is_text: bool = True
    """Whether a message can have a value that is no value of its column."""
    omits: Callable[[Column], bool] = field(default=lambda column: True)


def _told(change: Change, timestamp: Any, position: Any) -> None:
    change.facts = Facts(_NAMES[change.operation], timestamp, position)


def _keys(spec: Spec) -> list[Column]:
    return [column for column in spec.columns if column.name in spec.keys]


def _given(change: Change, spec: Spec) -> list[Column]:
    """Return the columns that a message gives of the new row."""
    return [column for column in spec.sent if change.given is None or column.name in change.given]


def _excluded(row: Row, column: Column, source: Source) -> Any:
    """Return a value; excluded columns have whatever comes."""
    return row.get(column.name) if column not in source.spec.excluded else source.rng.choice((None, "secret", 1))


# Arcion


def _arcion_image(source: Source, row: Row | None, columns: Sequence[Column]) -> dict[str, Any]:
    rng = source.rng
    image: dict[str, Any] = {}
    for column in columns if row is not None else ():
        value = _excluded(row or {}, column, source)
        if value is None:
            image[column.name] = rng.choice((None, "null"))
        elif column in source.spec.excluded or rng.random() < 0.9:
            image[column.name] = as_text(value, column, rng) if not isinstance(value, str) else value
        else:
            image[column.name] = value if isinstance(value, bool | int | str) else as_text(value, column, rng)
    return image


def _arcion_names(spec: Spec) -> dict[str, Any]:
    schema, _, name = spec.name.rpartition(".")
    return {"namespace": {"catalog": None, "schema": schema}, "name": name}


def _arcion(source: Source, changes: Sequence[Change], *, native: bool) -> Request:
    spec, rng, written = source.spec, source.rng, []
    keys = _keys(spec)
    for change in changes:
        given = _given(change, spec)
        if change.given is not None and change.old is not None and change.operation == "U" and rng.random() < 0.5:
            given = [column for column in given if column.name not in spec.keys]
        before = spec.sent if rng.random() < 0.5 or change.statement or change.given is None else keys
        old = _arcion_image(source, change.old, before if change.known else keys)
        new = _arcion_image(source, change.new, given)
        if change.operation == "R":
            old = {}
        position = {"log": "bin.1", "position": source.next_position()}
        position |= {"timestamp": int(source.moment().timestamp() * 1000)} if rng.random() < 0.7 else {}
        _told(change, source.moment() if "timestamp" in position else None, json.dumps(position, separators=(",", ":")))
        message = {"tableName": _arcion_names(spec), "opType": change.operation, "cursor": position,
                   "before": old or None, "after": new or None}  # fmt: skip
        if not native:
            message = _with_exists(source, message, change, old, new)
        written.append(message)
    lines = rng.random() < 0.3
    body = b"\n".join(map(ENCODER.encode, written)) if lines else ENCODER.encode(written)
    return Request("arcion", {"table": spec.name} if rng.random() < 0.5 else {}, JSON, body)


def _with_exists(source: Source, message: dict[str, Any], change: Change, old: Row, new: Row) -> dict[str, Any]:
    """Add `exists`; sometimes placeholders stand where nothing is given."""
    exists = {c.name: (c.name in new) + 2 * (c.name in old) for c in source.spec.sent}
    placeholders = source.rng.random() < 0.5
    for image, present in (("before", old), ("after", new)):
        if placeholders and message[image] is not None:
            message[image] = {c.name: present.get(c.name, "null") for c in source.spec.sent}
    if not placeholders:
        exists = {name: flag for name, flag in exists.items() if flag}
    as_number = source.rng.random() < 0.3
    return message | {"exists": {name: flag if as_number else str(flag) for name, flag in exists.items()}}


def _quoted(value: Any, column: Column, source: Source, quote: str = '"') -> str:
    if value is None:
        return "NULL"
    text = str(value) if column in source.spec.excluded else as_text(value, column, source.rng)
    return quote + text.replace(quote, quote * 2) + quote


def _csv_parameters(source: Source, **parameters: str) -> dict[str, str]:
    names = ['"' + column.name.replace('"', '""') + '"' for column in source.spec.sent]
    delimiter = source.rng.choice((",", ",", ";", "|", "\t"))
    return {"table": source.spec.name, "columns": ",".join(names), "delimiter": delimiter, **parameters}


def _arcion_realtime(source: Source, changes: Sequence[Change]) -> Request:
    spec, rng, lines = source.spec, source.rng, []
    parameters = _csv_parameters(source, mode="realtime")
    for change in changes:
        given = {column.name for column in _given(change, spec)} if change.new is not None else set()
        has_old = change.old is not None and change.operation != "R"
        old_names = {c.name for c in spec.sent} if change.known else {*spec.keys}
        fields = []
        for column in spec.sent:
            is_new, is_old = column.name in given, has_old and column.name in old_names
            new, old = _excluded(change.new or {}, column, source), _excluded(change.old or {}, column, source)
            fields += [
                _quoted(new, column, source) if is_new else "NULL",
                _quoted(old, column, source) if is_old else "NULL",
            ]
            fields.append(str(is_new + 2 * is_old))
        position = {"log": "bin.1", "v": source.next_position(), "timestamp": int(source.moment().timestamp() * 1000)}
        cursor = json.dumps(position, separators=(",", ":"))
        _told(change, source.moment(), cursor)
        fields += [change.operation, '"' + cursor.replace('"', '""') + '"', '"{}"']
        lines.append(parameters["delimiter"].join(fields))
    return Request("arcion", parameters, CSV, rng.choice(("\n", "\r\n")).join(lines).encode())


def _arcion_snapshot(source: Source, changes: Sequence[Change]) -> Request:
    parameters = _csv_parameters(source, mode="snapshot")
    lines = []
    for change in changes:
        row = change.new or {}
        fields = [_quoted(_excluded(row, column, source), column, source) for column in source.spec.sent]
        lines.append(parameters["delimiter"].join(fields))
        _told(change, None, None)
    return Request("arcion", parameters, CSV, "\n".join(lines).encode())


def _arcion_native_snapshot(source: Source, changes: Sequence[Change]) -> Request:
    rows = [_arcion_image(source, change.new, source.spec.sent) for change in changes]
    for change in changes:
        _told(change, None, None)
    parameters = {"table": source.spec.name, "mode": "snapshot"}
    return Request("arcion", parameters, JSON, b"\n".join(map(ENCODER.encode, rows)))


# Replicate

_REPLICATE: Final[Mapping[str, str]] = {
    "boolean": "BOOLEAN", "int16": "INT2", "int32": "INT4", "int64": "INT8", "float32": "REAL4", "float64": "REAL8",
    "decimal": "NUMERIC", "date": "DATE", "timestamp": "DATETIME", "string": "WSTRING", "binary": "BYTES",
    "json": "NCLOB",
}  # fmt: skip


def _replicate_image(source: Source, row: Row | None, columns: Sequence[Column]) -> dict[str, Any] | None:
    if row is None:
        return None
    return {c.name: as_json(_excluded(row, c, source), c, source.rng) if c not in source.spec.excluded else "secret"
            for c in columns}  # fmt: skip


def _headers(source: Source, change: Change) -> dict[str, Any]:
    headers: dict[str, Any] = {"operation": _WORDS[change.operation]}
    sequence = f"{source.next_position():035d}"
    if change.operation == "S":
        _told(change, None, None)
        return headers | {"changeSequence": "", "timestamp": ""}
    moment = source.moment()
    _told(change, moment, sequence)
    return headers | {"changeSequence": sequence, "timestamp": moment.replace(tzinfo=None).isoformat()}


def _replicate(source: Source, changes: Sequence[Change], *, form: str) -> Request:
    spec, rng = source.spec, source.rng
    schema, _, name = spec.name.rpartition(".")
    written: list[Any] = [_metadata(source)] if form == "enveloped" and source.described != _names(spec) else []
    for change in changes:
        headers = _headers(source, change)
        new = _replicate_image(source, change.new, _given(change, spec))
        keys = _keys(spec)
        old = _replicate_image(source, change.old, spec.sent if change.known else keys)
        if change.operation == "D":
            data, before = (old, None) if rng.random() < 0.5 else (None, old)
        else:
            data, before = new, old
            if change.operation == "U" and not change.statement and rng.random() < 0.4:
                before = None if form == "enveloped" else before
        if form == "enveloped" and change.operation == "U":
            given = change.given or frozenset(column.name for column in spec.sent)
            mask = sum(1 << at for at, title in enumerate(source.described) if title in given)
            headers |= {"columnMask": f"{mask:04X}", "changeMask": None}
        message: dict[str, Any] = {"data": data, "beforeData": before}
        if form == "flattened":
            message |= {f"headers_{key}": value for key, value in headers.items()}
        elif form == "plain":
            message |= headers
        else:
            message["headers"] = headers
        if form == "keyed":
            shown = change.new or change.old or {}
            if change.operation == "D" and rng.random() < 0.6:
                message["data"] = message["beforeData"] = None
            written.append({"key": _replicate_image(source, shown, keys), "value": {"message": message}})
        elif form == "enveloped":
            schema_id = f"{spec.name}-{source.table_version}"
            written.append({"magic": "atMSG", "type": "DT", "messageSchemaId": schema_id, "message": message})
        elif form == "routed":
            written.append(message | {"schema": schema, "table": name})
        else:
            written.append(message)
    parameters = {} if form in ("enveloped", "routed") else {"table": spec.name}
    return Request("replicate", parameters, JSON, ENCODER.encode(written))


def _names(spec: Spec) -> tuple[str, ...]:
    return tuple(column.name for column in spec.sent)


def _metadata(source: Source) -> dict[str, Any]:
    """Describe the table as it is now."""
    source.table_version, source.described = source.table_version + 1, _names(source.spec)
    columns: dict[str, Any] = {}
    for column in source.spec.sent:
        columns[column.name] = {"type": _REPLICATE[column.kind], "nullable": column.nullable}
        if column.kind == "decimal":
            columns[column.name] |= dict(zip(("precision", "scale"), column.precision, strict=True))
    version = source.table_version
    return messages.metadata(source.spec.name, columns, tuple(source.spec.keys), version=version)


# Debezium

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
        if column in self.source.spec.excluded:
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
    for column in source.spec.columns:
        is_fit = has_schema or (column.zone.key == "UTC" and {*column.name}.isdisjoint(',"'))
        if column.kind == "timestamp" and is_fit and rng.random() < 0.6:
            values = [row[column.name] for row in rows if row.get(column.name) is not None]
            if all(value not in (FIRST, LAST) and local_time(value, column.zone) for value in values):
                is_coarse = not has_schema and not any(value.microsecond % 1000 for value in values)
                units[column.name] = "millis" if is_coarse else "micros"
    is_good = not any(BAD in row.values() for row in rows)  # a corrected value would have to be base64 too
    return _Writer(source, has_schema, units, has_schema or (is_good and rng.random() < 0.5))


def _debezium(source: Source, changes: Sequence[Change], *, schema: bool, records: bool, flat: bool = False) -> Request:
    spec, rng = source.spec, source.rng
    writer, columns = _writer(source, changes, has_schema=schema), spec.sent
    fields = {column.name: writer.field(column) for column in columns}
    keys = _keys(spec)
    written = []
    for change in changes:
        op = {"I": "c", "U": "u", "D": "d", "S": "r", "R": ""}[change.operation]
        new = writer.row(change.new, columns)
        old = writer.row(change.old, columns if change.known else keys)
        if op == "u" and change.statement == 0:
            old = rng.choice((None, {}, old)) if change.given is None else None
        if new is not None and change.given is not None:
            new = _without(new, change.given, spec, schema=schema)
        source.next_position()
        if flat:
            message = _flat(change, op, new, old)
            _told(change, ANY, ANY)
        else:
            message = debezium.event(op, spec.name, old, new, ts_ms=int(source.moment().timestamp() * 1000))
            _told(change, source.moment(), ANY)
        if schema:
            added = {name: "string" for name in message if name.startswith("__")}
            message = (
                debezium.flat_with_schema(message, fields | added) if flat else debezium.with_schema(message, fields)
            )
        if records:
            key = writer.row(change.new or change.old, keys) or {}
            shown = debezium.key_with_schema(key, {name: fields[name] for name in spec.keys}) if schema else key
            written.append(debezium.keyed(shown, message))
            if op == "d":
                written.append(debezium.keyed(shown, None))
        else:
            written.append(message)
    parameters = {"table": spec.name} if flat else {}
    if not schema and writer.decimals_as_bytes:
        parameters["decimals"] = "base64"
    if not schema and writer.units:
        parameters["timestamps"] = ",".join(f"{name}:{unit}" for name, unit in writer.units.items())
    return Request("debezium", parameters, JSON, ENCODER.encode(written))


def _without(new: dict[str, Any], given: frozenset[str], spec: Spec, *, schema: bool) -> dict[str, Any]:
    """Leave out what is not given; an event with a schema has a placeholder in its place."""
    if schema:
        return {name: value if name in given else PLACEHOLDER for name, value in new.items()}
    return {name: value for name, value in new.items() if name in given}


def _flat(change: Change, op: str, new: Any, old: Any) -> dict[str, Any]:
    """Return a row as ExtractNewRecordState writes it."""
    row = dict(new or {}) if change.new is not None else dict(old or {})
    row["__deleted"] = str(change.new is None).lower()
    if op:
        row["__op"] = op
    return row


# Plain rows


def _columns_of(source: Source, changes: Sequence[Change]) -> list[Column]:
    """Return the columns that all rows of a request give."""
    given = next((change.given for change in changes if change.given is not None), None)
    return [column for column in source.spec.sent if given is None or column.name in given]


def _operation(source: Source, change: Change) -> str:
    name = _NAMES[change.operation]
    return source.rng.choice((name, name.upper(), change.operation))


def _rows_json(source: Source, changes: Sequence[Change], *, lines: bool) -> Request:
    written = []
    for change in changes:
        row, spec = change.new or change.old or {}, source.spec
        columns = _given(change, spec) if change.new is not None else [c for c in spec.sent if c.name in spec.keys]
        written.append((_replicate_image(source, row, columns) or {}) | {"__op__": _operation(source, change)})
        _told(change, None, None)
    body = b"\n".join(map(ENCODER.encode, written)) if lines else ENCODER.encode(written)
    return Request("rows", {"table": source.spec.name}, "application/x-ndjson" if lines else JSON, body)


def _rows_csv(source: Source, changes: Sequence[Change]) -> Request:
    delimiter = source.rng.choice((",", ";", "\t"))
    columns = _columns_of(source, changes)
    header = ['"' + column.name.replace('"', '""') + '"' for column in columns]
    lines = [delimiter.join([*header, "__op__"])]
    for change in changes:
        row = change.new or change.old or {}
        values = [(_excluded(row, column, source), column) for column in columns]
        fields = [
            source.rng.choice(("", "NULL")) if value is None else _quoted(value, c, source) for value, c in values
        ]
        lines.append(delimiter.join([*fields, _operation(source, change)]))
        _told(change, None, None)
    return Request("rows", {"table": source.spec.name, "delimiter": delimiter}, CSV, "\n".join(lines).encode())


def _table(source: Source, changes: Sequence[Change], columns: Sequence[Column]) -> dict[str, pa.Array]:
    rows = [change.new or change.old or {} for change in changes]
    kept = [column for column in columns if column not in source.spec.excluded]
    return {column.name: pa.array([row.get(column.name) for row in rows], _encoded(column, source)) for column in kept}


def _encoded(column: Column, source: Source) -> pa.DataType:
    """Return the type of a column as one of the libraries for data frames writes it."""
    if not (pa.types.is_string(column.arrow) or pa.types.is_binary(column.arrow)):
        return column.arrow
    view = pa.string_view() if pa.types.is_string(column.arrow) else pa.binary_view()
    return source.rng.choice((column.arrow, view, pa.dictionary(pa.int32(), column.arrow)))


def _rows_arrow(source: Source, changes: Sequence[Change]) -> Request:
    table = _table(source, changes, _columns_of(source, changes))
    table["__op__"] = pa.array([_operation(source, change) for change in changes])
    for change in changes:
        _told(change, None, None)
    return Request("rows", {"table": source.spec.name}, ARROW, stream(pa.table(table)))


def _arrow(source: Source, changes: Sequence[Change]) -> Request:
    for change in changes:
        _told(change, None, None)
    body = stream(pa.table(_table(source, changes, source.spec.columns)))
    return Request("arrow", {"table": source.spec.name}, ARROW, body)


def _made(write: Callable[..., Request], **arguments: Any) -> Callable[[Source, Sequence[Change]], Request]:
    return lambda source, changes: write(source, changes, **arguments)


def _is_text(column: Column) -> bool:
    return column.kind in ("string", "json")


FORMS: Final = (
    Form("arcion json", _made(_arcion, native=False), "IUDR", partial="UI", moves=True),
    Form("arcion native", _made(_arcion, native=True), "IUDR", partial="UI", moves=True),
    Form("arcion csv", _arcion_realtime, "IUDR", partial="UI", moves=True),
    Form("arcion csv snapshot", _arcion_snapshot, "S"),
    Form("arcion native snapshot", _arcion_native_snapshot, "S"),
    Form("replicate enveloped", _made(_replicate, form="enveloped"), "IUDS", partial="U", moves=True),
    Form("replicate bare", _made(_replicate, form="bare"), "IUDS", partial="UI", moves=True),
    Form("replicate flattened", _made(_replicate, form="flattened"), "IUDS", partial="UI", moves=True),
    Form("replicate plain headers", _made(_replicate, form="plain"), "IUDS", partial="UI", moves=True),
    Form("replicate keyed", _made(_replicate, form="keyed"), "IUD", partial="UI", moves=True),
    Form("replicate routed", _made(_replicate, form="routed"), "IUDS", partial="UI", moves=True),
    Form("debezium with schema", _made(_debezium, schema=True, records=False), "IUDS", partial="U", moves=True,
         omits=_is_text),
    Form("debezium records", _made(_debezium, schema=True, records=True), "IUDS", partial="U", omits=_is_text),
    Form("debezium without schema", _made(_debezium, schema=False, records=False), "IUDS", partial="U", moves=True),
    Form("debezium flattened", _made(_debezium, schema=True, records=False, flat=True), "IUDRS"),
    Form("debezium flattened without schema", _made(_debezium, schema=False, records=False, flat=True), "IUDRS"),
    Form("rows json", _made(_rows_json, lines=False), "IUDR", partial="URI"),
    Form("rows ndjson", _made(_rows_json, lines=True), "IUDR", partial="URI"),
    Form("rows csv", _rows_csv, "IUDR", partial="*"),
    Form("rows arrow", _rows_arrow, "IUDR", partial="*", is_text=False),
    Form("arrow", _arrow, "S", is_text=False),
)  # fmt: skip
