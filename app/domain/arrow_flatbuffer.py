"""An Arrow schema as a plain flatbuffer root, the form that ODF's `SetDataSchema` event stores.

PyArrow reads and writes schemas only inside an IPC message. A flatbuffer is bytes whose first four hold the
offset of its root table; so the message's bytes with that offset turned to the schema inside it are the schema's
own flatbuffer, and a schema's flatbuffer behind a message table that points to it is a message again.
"""

import struct
from typing import Final

import pyarrow as pa

from app.domain.names import ROW_MARKER
from app.domain.table_schema import Column, ColumnType, TypeName
from app.errors import Code, RejectedInput

_CONTINUATION: Final = b"\xff\xff\xff\xff"
_HEADER_SLOT: Final = 2
_VERSION_V5: Final = 4
_HEADER_IS_SCHEMA: Final = 1
_ALIGNMENT: Final = 8

# A message table before the schema: root offset, then the vtable (its size, the table's size, the places of
# version, header type and header), two bytes of padding, then the table (distance back to the vtable, the
# header's offset, version, header type, padding).
_MESSAGE: Final = struct.Struct("<I 5H 2x i I h B 5x")
_TABLE_AT: Final = 16
_HEADER_AT: Final = 4


def schema_to_flatbuffer(schema: pa.Schema) -> bytes:
    """The schema as raw flatbuffer bytes, root type `org.apache.arrow.flatbuf.Schema`."""
    message = bytearray(schema.serialize().to_pybytes()[8:])
    (table,) = struct.unpack_from("<I", message, 0)
    (to_vtable,) = struct.unpack_from("<i", message, table)
    (field,) = struct.unpack_from("<H", message, table - to_vtable + 4 + 2 * _HEADER_SLOT)
    (to_header,) = struct.unpack_from("<I", message, table + field)
    struct.pack_into("<I", message, 0, table + field + to_header)
    return bytes(message)


def schema_from_bytes(content: bytes) -> pa.Schema:
    """The schema in an IPC schema message or in raw flatbuffer bytes. Raises RejectedInput `bad_schema`."""
    try:
        message = content if content.startswith(_CONTINUATION) else _as_message(content)
        schema = pa.ipc.read_schema(pa.py_buffer(message))
    except (pa.ArrowException, OSError, struct.error) as error:
        raise RejectedInput(
            Code.BAD_SCHEMA, "the bytes are neither an Arrow schema flatbuffer nor its message"
        ) from error
    try:
        _ = schema.names  # Arrow keeps them as bytes and looks at them only here
    except UnicodeDecodeError as error:
        raise RejectedInput(Code.BAD_SCHEMA, "a column name of the Arrow schema is not UTF-8") from error
    return schema


def _as_message(flatbuffer: bytes) -> bytes:
    (schema_at,) = struct.unpack_from("<I", flatbuffer, 0)
    to_schema = _MESSAGE.size + schema_at - (_TABLE_AT + _HEADER_AT)
    head = _MESSAGE.pack(_TABLE_AT, 10, 12, 8, 10, _HEADER_AT, _TABLE_AT - 4, to_schema, _VERSION_V5, _HEADER_IS_SCHEMA)
    message = head + flatbuffer
    message += bytes(-len(message) % _ALIGNMENT)
    return _CONTINUATION + struct.pack("<i", len(message)) + message


def columns_of(schema: pa.Schema) -> tuple[Column, ...]:
    """The declared columns of an Arrow schema; a row marker, as our own served schemas have it, is passed over.

    Raises RejectedInput `bad_type`, naming the column, for a type that no declared type lands as.
    """
    fields = [field for field in schema if field.name != ROW_MARKER]
    return tuple(Column(field.name, _declared(field), field.nullable) for field in fields)


def _declared(field: pa.Field) -> ColumnType:
    if pa.types.is_decimal128(field.type) and 0 <= field.type.scale <= field.type.precision:
        return ColumnType(TypeName.DECIMAL, field.type.precision, field.type.scale)
    for name in TypeName:
        if name is not TypeName.DECIMAL and ColumnType(name).arrow == field.type:
            return ColumnType(name)
    raise RejectedInput(Code.BAD_TYPE, f"column {field.name!r} has an Arrow type that no declared type lands as")
