"""Arrow IPC streams of initial loads: bytes -> one table of snapshot rows that shares those bytes.

PyArrow's reader trusts shared buffers, sizes of compressed buffers and repeated metadata, so it never sees bytes from
outside (decision 0021). Framing and buffers are read here, fields by `app.domain.arrow`. Invariant: every length and
offset is checked before it is used.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import pyarrow as pa

from app.domain.arrow import ArrowField, Damaged, FlatTable, read_fields
from app.domain.model.change import UNLIMITED, InputLimits
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to

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


MAX_ARRAYS: Final = 2**18
"""Columns of all record batches together; each costs time and memory, however few rows it has."""

_MAX_PROBLEMS: Final = 100
_SUPPORTED_TYPES: Final = (
    "Write the column with a plain type, such as string, int64, decimal128 or timestamp with a zone."
)


def decode_arrow_stream(body: bytes, limits: InputLimits = UNLIMITED) -> pa.Table:
    """Return all rows of a stream in order, without copying values.

    Types must be on an allow-list, buffers whole, aligned and apart, and each array is validated in full before it is
    used. The body's size bounds the memory, except for columns of nulls, whose length `limits` bounds. Raises
    RejectedInput `malformed_arrow`, `schema_mismatch`, `too_many_messages` or `empty_request`.
    """
    try:
        messages = messages_of(body)
        fields = _fields(next(messages, None))
        _check_types(fields)
        layouts = [*_layouts(messages, len(fields), limits)]
        if not layouts:
            raise RejectedInput(Code.EMPTY_REQUEST, "the Arrow stream has no rows")
        schema = pa.schema([pa.field(field.name, field.type, field.nullable) for field in fields])
        return pa.Table.from_batches([_batch(layout, schema) for layout in layouts], schema)
    except (Damaged, pa.ArrowException) as error:
        raise _malformed(error) from error


def _malformed(error: Exception) -> RejectedInput:
    detail = str(error) if isinstance(error, Damaged) else "a column of the Arrow stream is not valid"
    return RejectedInput(Code.MALFORMED_ARROW, detail)


def _fields(message: ArrowMessage | None) -> list[ArrowField]:
    if message is None or message.kind != SCHEMA:
        raise Damaged("the Arrow stream does not begin with a schema")
    fields = read_fields(message.header)
    if len({field.name for field in fields}) != len(fields):
        raise Damaged("two columns of the Arrow stream have the same name")
    return fields


def _check_types(fields: Sequence[ArrowField]) -> None:
    problems = tuple(
        Problem(
            Code.SCHEMA_MISMATCH,
            f"the column's type {field.described} fits no column type of a table",
            pointer=pointer_to("", field.name),
            column=field.name,
        )
        for field in fields
        if field.type is None
    )
    if problems:
        raise RejectedInput.of(problems[:_MAX_PROBLEMS], remedy=_SUPPORTED_TYPES)


def _layouts(messages: Iterator[ArrowMessage], columns: int, limits: InputLimits) -> Iterator[BatchLayout]:
    """Yield the layouts of the record batches that have rows. No array is made before all rows are counted."""
    rows = arrays = 0
    for message in messages:
        layout = layout_of(message, columns)
        rows += layout.rows
        arrays += max(1, columns)
        limits.check_messages(rows)
        if arrays > MAX_ARRAYS:
            raise Damaged(f"the record batches have more than {MAX_ARRAYS} columns together; write larger batches")
        if layout.rows:
            yield layout


def _batch(layout: BatchLayout, schema: pa.Schema) -> pa.RecordBatch:
    buffers = iter(layout.buffers)
    arrays = [_array(field.type, layout.rows, node, buffers) for field, node in zip(schema, layout.nodes, strict=True)]
    if next(buffers, None) is not None:
        raise Damaged("a record batch has more buffers than its columns need")
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(of_type: pa.DataType, rows: int, node: tuple[int, int], buffers: Iterator[pa.Buffer]) -> pa.Array:
    """Return the validated array of the next buffers. The sender's null count is not used."""
    length, nulls = node
    if length != rows:
        raise Damaged("a column does not have as many rows as its record batch")
    if pa.types.is_null(of_type):
        return pa.nulls(rows)
    given: list[pa.Buffer | None] = [*islice(buffers, of_type.num_buffers)]
    if len(given) < of_type.num_buffers:
        raise Damaged("a record batch has fewer buffers than its columns need")
    if not nulls:
        given[0] = None
    array = pa.Array.from_buffers(of_type, rows, given)
    array.validate(full=True)
    return array
