"""An Arrow schema as a flatbuffer root, the form that ODF's `SetDataSchema` event stores.

PyArrow writes schemas only inside an IPC message. The first four bytes of a flatbuffer are the offset of its root
table; so the bytes of the message, with that offset set to the schema inside, are the schema's own flatbuffer. PyArrow
never reads schemas from outside: `fields` does.
"""

import struct
from typing import Final

import pyarrow as pa

from app.domain.arrow.fields import read_fields
from app.domain.arrow.flatbuffer import Damaged, FlatTable
from app.domain.model.names import ROW_MARKER
from app.domain.model.table_schema import MAX_DECIMAL_DIGITS, Column, ColumnType, TypeName
from app.errors import Code, RejectedInput

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
    if types.is_decimal(field.type) and field.type.precision <= MAX_DECIMAL_DIGITS:
        return ColumnType(TypeName.DECIMAL, field.type.precision, field.type.scale)
    if types.is_timestamp(field.type) and field.type.tz is not None:
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
