"""Arrow as bytes: the rows of staged blocks, and schemas as flatbuffers.

Schemas from outside are read with bounds checks, because PyArrow's reader trusts its input (decision 0021). Invariant:
every position is checked against the content before it is used, and only requested values are copied. A hostile
flatbuffer can share a table or a string a million times, so callers bound how many they read. A type is allowed if its
arrays own their bytes and can be validated in full before they are used. Views and dictionaries are described by the
type that their values have without them; an extension type is read as its storage type.

A schema that is written is the root of a flatbuffer, the form that ODF's `SetDataSchema` event stores. PyArrow writes
schemas only inside an IPC message, whose first four bytes are the offset of its root table; with that offset set to the
schema inside, the same bytes are the schema's own flatbuffer.

The rows of a staged block are one IPC record-batch message without its schema, LZ4 compressed if it is long. The schema
is stored once per schema version; repeating it in every payload would cost more than the rows.
"""

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from app.domain.model.names import ROW_MARKER
from app.domain.model.table_schema import MAX_DECIMAL_DIGITS, Column, ColumnType, TypeName, column_changes
from mirrorgate.errors import Code, RejectedInput

_OFFSET: Final = struct.Struct("<I")
_TO_VTABLE: Final = struct.Struct("<i")
_SIZE_IN_VTABLE: Final = struct.Struct("<H")
_BYTE: Final = struct.Struct("<B")
_SHORT: Final = struct.Struct("<h")
_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")
_VTABLE_HEAD_BYTES: Final = 4
_WORD_BYTES: Final = 8


class Damaged(ValueError):
    """The bytes are not a flatbuffer of the expected form."""


class FlatTable:
    """One table of a flatbuffer. A field has a slot number; an absent one has its default. Raises Damaged."""

    __slots__ = ("_at", "_content", "_vtable", "_vtable_size")

    def __init__(self, content: bytes, at: int) -> None:
        self._content = content
        self._at = at
        self._vtable = at - _unpack(_TO_VTABLE, content, at)
        self._vtable_size = _unpack(_SIZE_IN_VTABLE, content, self._vtable)
        if self._vtable_size < _VTABLE_HEAD_BYTES:
            raise Damaged("a table has no layout")

    @classmethod
    def root(cls, content: bytes) -> "FlatTable":
        """Return the table that the first four bytes point at."""
        return cls(content, _unpack(_OFFSET, content, 0))

    def uint8(self, slot: int) -> int:
        """Return an unsigned byte, a boolean or the type of a union; 0 if it is absent."""
        return self._scalar(_BYTE, slot, 0)

    def int16(self, slot: int, default: int = 0) -> int:
        """Return a signed 16-bit integer, or the value of an enumeration."""
        return self._scalar(_SHORT, slot, default)

    def int32(self, slot: int, default: int = 0) -> int:
        """Return a signed 32-bit integer."""
        return self._scalar(_INT, slot, default)

    def int64(self, slot: int) -> int:
        """Return a signed 64-bit integer; 0 if it is absent."""
        return self._scalar(_LONG, slot, 0)

    def has(self, slot: int) -> bool:
        """Return True if the field is present."""
        return self._position(slot) is not None

    def table(self, slot: int) -> "FlatTable | None":
        """Return the table that the field points at."""
        position = self._position(slot)
        return None if position is None else FlatTable(self._content, self._target(position))

    def text(self, slot: int, max_bytes: int) -> str | None:
        """Return a string of at most `max_bytes`."""
        position = self._position(slot)
        if position is None:
            return None
        start, length = self._vector(position, 1)
        if length > max_bytes:
            raise Damaged("a string is too long")
        try:
            return self._content[start : start + length].decode()
        except UnicodeDecodeError as error:
            raise Damaged("a string is not UTF-8") from error

    def length(self, slot: int) -> int:
        """Return how many elements a vector of tables has."""
        position = self._position(slot)
        return 0 if position is None else self._vector(position, _OFFSET.size)[1]

    def tables(self, slot: int) -> Iterator["FlatTable"]:
        """Yield the elements of a vector of tables; several can be the same table."""
        position = self._position(slot)
        if position is not None:
            start, length = self._vector(position, _OFFSET.size)
            for at in range(start, start + length * _OFFSET.size, _OFFSET.size):
                yield FlatTable(self._content, self._target(at))

    def pairs(self, slot: int) -> Sequence[tuple[int, int]]:
        """Return the elements of a vector of structs of two signed 64-bit integers."""
        words = self.longs(slot, 2)
        return [*zip(words[::2], words[1::2], strict=True)]

    def longs(self, slot: int, of_element: int = 1) -> list[int]:
        """Return the signed 64-bit integers in a vector whose elements have so many each."""
        position = self._position(slot)
        if position is None:
            return []
        start, length = self._vector(position, of_element * _WORD_BYTES)
        words: list[int] = np.frombuffer(self._content, "<i8", of_element * length, start).tolist()
        return words

    def _scalar(self, form: struct.Struct, slot: int, default: int) -> int:
        position = self._position(slot)
        return default if position is None else _unpack(form, self._content, position)

    def _position(self, slot: int) -> int | None:
        at = _VTABLE_HEAD_BYTES + _SIZE_IN_VTABLE.size * slot
        if at + _SIZE_IN_VTABLE.size > self._vtable_size:
            return None
        offset = _unpack(_SIZE_IN_VTABLE, self._content, self._vtable + at)
        return self._at + offset if offset else None

    def _target(self, position: int) -> int:
        return position + _unpack(_OFFSET, self._content, position)

    def _vector(self, position: int, element_bytes: int) -> tuple[int, int]:
        """Return where the elements begin, and how many there are."""
        at = self._target(position)
        length, start = _unpack(_OFFSET, self._content, at), at + _OFFSET.size
        if start + length * element_bytes > len(self._content):
            raise Damaged("a vector is longer than the flatbuffer")
        return start, length


def _unpack(form: struct.Struct, content: bytes, at: int) -> int:
    if not 0 <= at <= len(content) - form.size:
        raise Damaged("an offset leads out of the flatbuffer")
    (value,) = form.unpack_from(content, at)
    return int(value)


MAX_FIELDS: Final = 16_384
MAX_FIELD_NAME_BYTES: Final = 1_024
MAX_ZONE_BYTES: Final = 256

_LITTLE_ENDIAN: Final = 0
_SCHEMA_ENDIANNESS, _SCHEMA_FIELDS = range(2)
_NAME, _NULLABLE, _TYPE_KIND, _TYPE, _DICTIONARY, _CHILDREN = range(6)

_INTEGERS: Final = {
    (8, 1): pa.int8(),
    (16, 1): pa.int16(),
    (32, 1): pa.int32(),
    (64, 1): pa.int64(),
    (8, 0): pa.uint8(),
    (16, 0): pa.uint16(),
    (32, 0): pa.uint32(),
    (64, 0): pa.uint64(),
}
_FLOATS: Final = (pa.float16(), pa.float32(), pa.float64())
_DATES: Final = (pa.date32(), pa.date64())
_DATE64: Final = 1
_DECIMALS: Final[Mapping[int, tuple[Callable[[int, int], pa.DataType], int]]] = {
    32: (pa.decimal32, 9),
    64: (pa.decimal64, 18),
    128: (pa.decimal128, 38),
    256: (pa.decimal256, 76),
}
_DECIMAL128: Final = 128
_TIME_UNITS: Final = ("s", "ms", "us", "ns")
_MAX_FIXED_BYTES: Final = 2**20
"""Bytes of a fixed-size binary value, and elements of a fixed-size list."""
_UNREADABLE: Final = {
    9: "time",
    11: "interval",
    14: "union",
    18: "duration",
    22: "run_end_encoded",
    25: "list_view",
    26: "large_list_view",
}
_LIST, _STRUCT, _FIXED_SIZE_LIST, _MAP, _LARGE_LIST = 12, 13, 16, 17, 21
_NESTED: Final = {_LIST: "list", _STRUCT: "struct", _FIXED_SIZE_LIST: "fixed_size_list", _MAP: "map"} | {
    _LARGE_LIST: "large_list"
}
_VALUE_OF_VIEW: Final = {23: ("binary_view", pa.binary()), 24: ("string_view", pa.string())}
_DICTIONARY_ID, _INDEX_TYPE = range(2)

MAX_NESTING: Final = 16
"""Levels of lists, structs and maps in one another."""

MAX_NESTED_FIELDS: Final = 2_048
"""Fields below all columns together. Fields can share their bytes, so that few bytes are many fields."""


@dataclass(frozen=True, slots=True)
class DictionaryEncoding:
    """Rows are indexes into the dictionary with this id."""

    id: int
    index: pa.DataType


@dataclass(frozen=True, slots=True)
class ArrowField:
    """One field; `type` is None if it is not allowed, `described` names it for an error message."""

    name: str
    nullable: bool
    type: pa.DataType | None
    """That of the values, however they are encoded."""
    described: str
    is_view: bool = False
    dictionary: DictionaryEncoding | None = None
    children: Sequence["ArrowField"] = ()

    def encoded(self) -> Iterator["ArrowField"]:
        """Yield this field and those below it, in the order of their nodes in a record batch."""
        yield self
        for child in self.children:
            yield from child.encoded()


def read_fields(schema: FlatTable) -> list[ArrowField]:
    """Return the fields in order, without their metadata. Raises Damaged."""
    if schema.int16(_SCHEMA_ENDIANNESS) != _LITTLE_ENDIAN:
        raise Damaged("the schema is big-endian")
    reader = _FieldReader()
    return [reader.read(field) for field in schema.tables(_SCHEMA_FIELDS)]


class _FieldReader:
    """Reader of fields with all below them, however many share a table. Raises Damaged for too many."""

    def __init__(self) -> None:
        self._columns = self._nested_fields = 0

    def read(self, field: FlatTable, level: int = 0) -> ArrowField:
        self._columns, self._nested_fields = self._columns + (level == 0), self._nested_fields + (level > 0)
        if self._columns > MAX_FIELDS or self._nested_fields > MAX_NESTED_FIELDS:
            raise Damaged(f"the schema has more than {MAX_FIELDS} fields, or {MAX_NESTED_FIELDS} below them")
        name = field.text(_NAME, MAX_FIELD_NAME_BYTES) or ""
        read = ArrowField(name, bool(field.uint8(_NULLABLE)), None, "")
        kind = field.uint8(_TYPE_KIND)
        if kind in _NESTED and not field.has(_DICTIONARY):
            return self._nested(field, read, kind, level)
        described, value_type = _VALUE_OF_VIEW.get(kind) or _flat_type(field, kind)
        read = replace(read, type=value_type, described=described, is_view=kind in _VALUE_OF_VIEW)
        encoding = field.table(_DICTIONARY)
        return read if encoding is None else _with_dictionary(read, encoding)

    def _nested(self, field: FlatTable, read: ArrowField, kind: int, level: int) -> ArrowField:
        of_type = field.table(_TYPE)
        if of_type is None:
            raise Damaged("a field has no type")
        if level == MAX_NESTING:
            return replace(read, described=f"nested more than {MAX_NESTING} levels deep")
        children = [self.read(child, level + 1) for child in field.tables(_CHILDREN)]
        unreadable = next((child.described for child in children if child.type is None), None)
        if unreadable is not None:
            return replace(read, described=f"{_NESTED[kind]} with {unreadable}")
        nested = _nested_type(kind, of_type, children)
        if isinstance(nested, str):
            return replace(read, described=nested)
        return replace(read, type=nested, described=_NESTED[kind], children=children)


def _with_dictionary(values: ArrowField, encoding: FlatTable) -> ArrowField:
    """Return the field of values that are in a dictionary, which are flat: nothing else can be a category."""
    of_index = encoding.table(_INDEX_TYPE)
    index = pa.int32() if of_index is None else _integer(of_index)
    if values.type is None or pa.types.is_null(values.type) or isinstance(index, str):
        return replace(values, type=None, described=f"dictionary of {values.described}")
    return replace(values, dictionary=DictionaryEncoding(encoding.int64(_DICTIONARY_ID), index))


def _nested_type(kind: int, of_type: FlatTable, children: Sequence[ArrowField]) -> pa.DataType | str:
    """Return the type of lists, structs or maps of allowed children, or what is not allowed."""
    if kind == _STRUCT:
        if len({child.name for child in children}) != len(children):
            raise Damaged("two fields of a struct have the same name")
        return pa.struct([pa.field(child.name, child.type) for child in children])
    if len(children) != 1:
        raise Damaged("a list or a map does not have one field below it")
    (child,) = children
    if kind == _FIXED_SIZE_LIST:
        size = of_type.int32(0)
        return pa.list_(child.type, size) if 0 <= size <= _MAX_FIXED_BYTES else f"fixed_size_list of {size}"
    if kind != _MAP:
        return (pa.list_ if kind == _LIST else pa.large_list)(child.type)
    if len(child.children) != _MAP_FIELDS or not pa.types.is_struct(child.type):
        raise Damaged("a map does not have keys and values")
    key, value = child.children
    if not (pa.types.is_string(key.type) or pa.types.is_large_string(key.type) or pa.types.is_integer(key.type)):
        return f"map with keys of {key.described}"
    return pa.map_(key.type, value.type)


_MAP_FIELDS: Final = 2


def _flat_type(field: FlatTable, kind: int) -> tuple[str, pa.DataType | None]:
    """Return the name of the type for an error message, and the type itself if it is allowed."""
    if kind in _NESTED:
        return _NESTED[kind], None
    if field.length(_CHILDREN) or kind not in _READERS:
        return _UNREADABLE.get(kind, f"type {kind} of the Arrow format"), None
    of_type = field.table(_TYPE)
    if of_type is None:
        raise Damaged("a field has no type")
    read = _READERS[kind](of_type)
    return (read, None) if isinstance(read, str) else (str(read), read)


def _integer(of_type: FlatTable) -> pa.DataType | str:
    bits, signed = of_type.int32(0), of_type.uint8(1)
    return _INTEGERS.get((bits, int(signed != 0)), f"integer of {bits} bits")


def _float(of_type: FlatTable) -> pa.DataType | str:
    precision = of_type.int16(0)
    return _FLOATS[precision] if 0 <= precision < len(_FLOATS) else f"float of precision {precision}"


def _decimal(of_type: FlatTable) -> pa.DataType | str:
    precision, scale, bits = of_type.int32(0), of_type.int32(1), of_type.int32(2, _DECIMAL128)
    declare, max_digits = _DECIMALS.get(bits, (pa.decimal128, 0))
    if 1 <= precision <= max_digits and 0 <= scale <= precision:
        return declare(precision, scale)
    return f"decimal{bits}({precision}, {scale})"


def _date(of_type: FlatTable) -> pa.DataType | str:
    unit = of_type.int16(0, _DATE64)
    return _DATES[unit] if 0 <= unit < len(_DATES) else f"date of unit {unit}"


def _timestamp(of_type: FlatTable) -> pa.DataType | str:
    """Return a timestamp type. Timestamps of any zone count from the epoch in UTC, so the zone itself is dropped."""
    unit = of_type.int16(0)
    if not 0 <= unit < len(_TIME_UNITS):
        return f"timestamp of unit {unit}"
    return pa.timestamp(_TIME_UNITS[unit], "UTC" if of_type.text(1, MAX_ZONE_BYTES) else None)


def _fixed_size_binary(of_type: FlatTable) -> pa.DataType | str:
    width = of_type.int32(0)
    return pa.binary(width) if 1 <= width <= _MAX_FIXED_BYTES else f"fixed_size_binary[{width}]"


_READERS: Final[Mapping[int, Callable[[FlatTable], pa.DataType | str]]] = {
    1: lambda _: pa.null(),
    2: _integer,
    3: _float,
    4: lambda _: pa.binary(),
    5: lambda _: pa.string(),
    6: lambda _: pa.bool_(),
    7: _decimal,
    8: _date,
    10: _timestamp,
    15: _fixed_size_binary,
    19: lambda _: pa.large_binary(),
    20: lambda _: pa.large_string(),
}


MAX_PLAIN_BYTES: Final = 8_000
"""Length up to which a message is not compressed (performance notebook).

Compressing 10 rows of 17 columns takes 28 instead of 5 µs and saves a third of 7 kB; compressing one row makes it
longer. A message of this length fits into one page of Postgres.
"""

_WRITE: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_END_OF_STREAM: Final = 8
_READ: Final = pa.ipc.IpcReadOptions(use_threads=False)
"""Without Arrow's threads. They multiply the decoding of one row by ten, its encoding by two, and that of 2,000 rows by
1.3. Encoding 30,000 rows takes 3 ms without them and, on 2 cores, 4 ms with them."""


class Payload(NamedTuple):
    """The rows of a block as they are stored."""

    message: bytes
    decoded_bytes: int
    """Bytes of the rows once the message is decoded, before compression."""


def encode_payload(batches: Sequence[pa.RecordBatch]) -> Payload:
    """Return the rows of all batches in order. The batches have the same schema."""
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    size = batch.nbytes  # once for all rows: it takes 30 µs for 17 columns (performance notebook)
    if pa.ipc.get_record_batch_size(batch) <= MAX_PLAIN_BYTES:
        return Payload(bytes(batch.serialize()), size)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_WRITE) as writer:
        writer.write_batch(batch)
    stream = sink.getvalue()
    message = stream[batch.schema.serialize().size : stream.size - _END_OF_STREAM]
    return Payload(bytes(message), size)


def decode_payload(payload: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a payload written under `schema`. Raises pa.ArrowInvalid, OSError or EOFError."""
    stream = b"".join((schema.serialize(), payload))
    try:
        with pa.ipc.open_stream(stream, options=_READ) as reader:
            return reader.read_next_batch()
    except StopIteration:
        raise EOFError("a payload without a record batch") from None


def payload_digest(payload: bytes) -> bytes:
    """Return the SHA-256 of a payload, 32 bytes."""
    return hashlib.sha256(payload).digest()


_CONTINUATION: Final = b"\xff\xff\xff\xff"
_METADATA_AT: Final = 8
_HEADER_SLOT: Final = 2
_HEADER_KIND_SLOT: Final = 1
_HEADER_IS_SCHEMA: Final = 1

_SIMPLE_TYPES: Final = {ColumnType(name).arrow: name for name in TypeName if name is not TypeName.DECIMAL} | {
    pa.string(): TypeName.STRING,
    pa.int8(): TypeName.INT16,
    pa.uint8(): TypeName.INT16,
    pa.uint16(): TypeName.INT32,
    pa.uint32(): TypeName.INT64,
    pa.float16(): TypeName.FLOAT32,
    pa.date64(): TypeName.DATE,
    pa.large_string(): TypeName.STRING,
    pa.large_binary(): TypeName.BINARY,
}
"""The column type that can hold every value of an Arrow type."""


def schema_to_flatbuffer(schema: pa.Schema) -> bytes:
    """Return the schema as raw flatbuffer bytes with the root type `org.apache.arrow.flatbuf.Schema`."""
    message = bytearray(schema.serialize().to_pybytes()[8:])
    (table,) = struct.unpack_from("<I", message, 0)
    (to_vtable,) = struct.unpack_from("<i", message, table)
    (field,) = struct.unpack_from("<H", message, table - to_vtable + 4 + 2 * _HEADER_SLOT)
    (to_header,) = struct.unpack_from("<I", message, table + field)
    struct.pack_into("<I", message, 0, table + field + to_header)
    return bytes(message)


def schema_from_bytes(content: bytes) -> pa.Schema:
    """Return the schema in an IPC schema message or in raw flatbuffer bytes, without metadata.

    Raises RejectedInput `bad_schema`, or `bad_type`, naming the column.
    """
    try:
        fields = read_fields(_schema_message(content) if content.startswith(_CONTINUATION) else FlatTable.root(content))
        if not fields:
            raise Damaged("the schema has no field")
    except Damaged as error:
        detail = f"the bytes are neither an Arrow schema flatbuffer nor its message: {error}"
        raise RejectedInput(Code.BAD_SCHEMA, detail) from error
    for field in fields:
        if field.type is None or pa.types.is_null(field.type):  # PyArrow rejects a required column of nulls
            raise _undeclared(field.name, field.described)
    return pa.schema([pa.field(field.name, field.type, field.nullable) for field in fields])


def _schema_message(content: bytes) -> FlatTable:
    """Return the schema of an IPC message. Raises Damaged."""
    message = FlatTable.root(content[_METADATA_AT:])
    schema = message.table(_HEADER_SLOT)
    if message.uint8(_HEADER_KIND_SLOT) != _HEADER_IS_SCHEMA or schema is None:
        raise Damaged("the message holds no schema")
    return schema


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """Return the columns of an Arrow schema, without the row marker that schemas served by the gateway have.

    Raises RejectedInput `bad_type`, naming the column, for a type that no column type can hold.
    """
    fields = [field for field in schema if field.name != ROW_MARKER]
    return tuple(Column(field.name, _declared(field), field.nullable) for field in fields)


def _declared(field: pa.Field) -> ColumnType:
    types = pa.types
    if types.is_nested(field.type):
        return ColumnType(TypeName.JSON)
    if types.is_decimal(field.type) and field.type.precision <= MAX_DECIMAL_DIGITS:
        return ColumnType(TypeName.DECIMAL, field.type.precision, field.type.scale)
    if types.is_timestamp(field.type):
        return ColumnType(TypeName.TIMESTAMP)
    if types.is_fixed_size_binary(field.type):
        return ColumnType(TypeName.BINARY)
    name = _SIMPLE_TYPES.get(field.type)
    if name is None:
        raise _undeclared(field.name, str(field.type))
    return ColumnType(name)


def _undeclared(name: str, described: str) -> RejectedInput:
    detail = f"column {name!r} is {described} in the Arrow schema, which no column type can hold"
    return RejectedInput(Code.BAD_TYPE, detail)


class SchemaEvent(NamedTuple):
    """A schema of files as people read it."""

    columns: tuple[Column, ...]
    changes: list[str]
    """Differences from the schema before it."""


def described_schemas(flatbuffers: Iterable[bytes], before: bytes | None = None) -> Iterator[SchemaEvent]:
    """Yield the columns of consecutive schemas of files, and what each changed; `before` is the one before the first.

    Raises RejectedInput for bytes that `schema_to_flatbuffer` has not written.
    """
    last = None if before is None else schema_from_bytes(before)
    for flatbuffer in flatbuffers:
        schema = schema_from_bytes(flatbuffer)
        columns = columns_of(schema)
        changes = [f"{len(columns)} columns"] if last is None else column_changes(columns, columns_of(last))
        if ROW_MARKER in schema.names and (last is None or ROW_MARKER not in last.names):
            changes.append("files have a row marker from here on")
        yield SchemaEvent(columns, changes)
        last = schema
