"""The messages of an Arrow IPC stream: framing, record batches and their buffers.

PyArrow's reader trusts shared buffers, sizes of compressed buffers and repeated metadata, so it never sees bytes from
outside (docs/decisions/0021). Invariant: every length and offset is checked before it is used.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from app.domain.arrow.flatbuffer import Damaged, FlatTable

_CONTINUATION: Final = b"\xff\xff\xff\xff"
_PREFIX: Final = struct.Struct("<4si")
_END_OF_STREAM: Final = _PREFIX.pack(_CONTINUATION, 0)
_FILE_MAGIC: Final = b"ARROW1"
_ALIGNMENT: Final = 8
_METADATA_VERSIONS: Final = (3, 4)
"""V4 and V5, as the format numbers them; flat types have the same layout in both."""

MAX_METADATA_BYTES: Final = 8 * 2**20
"""Bytes of one message's metadata; 16,384 columns take less."""

_VERSION, _HEADER_KIND, _HEADER, _BODY_BYTES = range(4)
SCHEMA: Final = 1
_DICTIONARY_BATCH: Final = 2
RECORD_BATCH: Final = 3
_MAX_BUFFERS: Final = 3
"""Buffers of a column; a text column has the most."""

_ROWS, _NODES, _BUFFERS, _COMPRESSION, _VARIADIC = range(5)


@dataclass(frozen=True, slots=True)
class ArrowMessage:
    """One message: its kind, its header and the body that its buffers are in."""

    kind: int
    header: FlatTable
    body: pa.Buffer


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """A record batch before arrays are made of it, with `buffers` in the order of the schema's fields."""

    rows: int
    nodes: Sequence[tuple[int, int]]
    """Length and null count of each column, as the sender states them."""
    buffers: Sequence[pa.Buffer]


def messages_of(stream: bytes) -> Iterator[ArrowMessage]:
    """Yield the messages up to the end of the stream, which must be the end of the bytes. Raises Damaged.

    Their bodies are slices of `stream`, not copies.
    """
    if stream.startswith(_FILE_MAGIC):
        raise Damaged("the body is an Arrow file; write it as a stream (pyarrow.ipc.new_stream)")
    whole, at = pa.py_buffer(stream), 0
    while True:
        if len(stream) - at < _PREFIX.size:
            raise Damaged("the Arrow stream is cut off before its end marker")
        mark, size = _PREFIX.unpack_from(stream, at)
        at += _PREFIX.size
        if mark != _CONTINUATION:
            raise Damaged(f"no Arrow message starts at byte {at - _PREFIX.size}")
        if size == 0:
            break
        if size < 0 or size % _ALIGNMENT or size > min(MAX_METADATA_BYTES, len(stream) - at):
            raise Damaged("the metadata of a message is longer than the stream, or its length is not a multiple of 8")
        message, length = _message(stream[at : at + size])
        at += size
        if length < 0 or length % _ALIGNMENT or length > len(stream) - at:
            raise Damaged("the buffers of a message are longer than the stream, or their length is not a multiple of 8")
        yield ArrowMessage(message.uint8(_HEADER_KIND), _header(message), whole.slice(at, length))
        at += length
    if at != len(stream):
        raise Damaged("bytes follow the end of the Arrow stream")


def _message(metadata: bytes) -> tuple[FlatTable, int]:
    message = FlatTable.root(metadata)
    if message.int16(_VERSION) not in _METADATA_VERSIONS:
        raise Damaged("a message has a metadata version other than 4 or 5")
    return message, message.int64(_BODY_BYTES)


def _header(message: FlatTable) -> FlatTable:
    header = message.table(_HEADER)
    if header is None:
        raise Damaged("a message has no header")
    return header


def layout_of(message: ArrowMessage, columns: int) -> BatchLayout:
    """Return the layout of a record batch with this many columns.

    Raises Damaged, also for buffers that are compressed or share bytes: these would let a small body become many large
    columns.
    """
    if message.kind == _DICTIONARY_BATCH:
        raise Damaged("the stream has dictionaries; write plain columns")
    if message.kind != RECORD_BATCH:
        raise Damaged("a message is not a record batch")
    header = message.header
    if header.has(_COMPRESSION):
        raise Damaged(
            "the buffers of the stream are compressed; write them uncompressed, and compress the body as a whole with "
            "Content-Encoding: zstd"
        )
    if header.has(_VARIADIC) and header.length(_VARIADIC):
        raise Damaged("the stream has views; write plain columns")
    if header.length(_NODES) != columns or header.length(_BUFFERS) > _MAX_BUFFERS * columns:
        raise Damaged("a record batch does not have as many columns as the schema")
    buffers, end = [], 0
    for offset, length in header.pairs(_BUFFERS):
        if length < 0 or (length and (offset < end or offset % _ALIGNMENT or offset + length > message.body.size)):
            raise Damaged("a buffer is not aligned, shares bytes with another one, or lies outside its message")
        end = max(end, offset + length) if length else end
        buffers.append(message.body.slice(offset, length) if length else _EMPTY)
    rows = header.int64(_ROWS)
    if rows < 0:
        raise Damaged("a record batch has a negative number of rows")
    return BatchLayout(rows, header.pairs(_NODES), buffers)


_EMPTY: Final = pa.py_buffer(b"")
