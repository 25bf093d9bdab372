"""Arrow IPC streams, the fast form of initial loads: bytes -> one record batch of snapshot rows."""

import struct
from typing import Final

import pyarrow as pa

from app.errors import Code, RejectedInput

_END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"
_HEADER_SLOT: Final = 2
_COMPRESSION_SLOT: Final = 3


def decode_arrow_stream(body: bytes) -> pa.RecordBatch:
    """All rows of a stream, in order. Raises RejectedInput `malformed_arrow` or `empty_request`.

    The bytes are not trusted: offsets, texts and decimals are looked at. Buffers must not be compressed, since they
    say themselves how much memory they need; a whole body may be.
    """
    if not body.endswith(_END_OF_STREAM):
        raise RejectedInput(Code.MALFORMED_ARROW, "the body does not end with the end of an Arrow stream")
    source = pa.BufferReader(body)
    try:
        _refuse_compressed(body)
        table = pa.ipc.open_stream(source).read_all()
        table.validate(full=True)
        names = table.schema.names
    except (pa.ArrowException, OSError, EOFError, struct.error, UnicodeDecodeError) as error:
        raise RejectedInput(Code.MALFORMED_ARROW, "the body is not a valid Arrow stream") from error
    if source.tell() != len(body):
        raise RejectedInput(Code.MALFORMED_ARROW, "something follows the end of the Arrow stream")
    if len(set(names)) != len(names):
        raise RejectedInput(Code.MALFORMED_ARROW, "two columns of the Arrow stream have the same name")
    if not table.num_rows:
        raise RejectedInput(Code.EMPTY_REQUEST, "the Arrow stream holds no row")
    (batch,) = table.combine_chunks().to_batches()
    return batch


def _refuse_compressed(body: bytes) -> None:
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
        if message.type == "dictionary" or (message.type == "record batch" and _is_compressed(message.metadata)):
            raise RejectedInput(
                Code.MALFORMED_ARROW,
                "the Arrow stream has compressed buffers or dictionaries",
                remedy="Write plain buffers, and compress the body as a whole with Content-Encoding: zstd.",
            )


def _is_compressed(metadata: pa.Buffer) -> bool:
    """Whether the record batch of a message, which is a flatbuffer, names a compression."""
    content = metadata.to_pybytes()
    (message,) = struct.unpack_from("<I", content, 0)
    header = _field(content, message, _HEADER_SLOT)
    (to_batch,) = struct.unpack_from("<I", content, header)
    return _field(content, header + to_batch, _COMPRESSION_SLOT) != 0


def _field(content: bytes, table: int, slot: int) -> int:
    """Where a field of a flatbuffer's table stands; 0 where it is absent."""
    (to_vtable,) = struct.unpack_from("<i", content, table)
    vtable = table - to_vtable
    (size,) = struct.unpack_from("<H", content, vtable)
    place = 4 + 2 * slot
    if place >= size:
        return 0
    (offset,) = struct.unpack_from("<H", content, vtable + place)
    return table + offset if offset else 0
