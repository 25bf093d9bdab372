"""Arrow IPC streams: bytes -> one table of plain, list, struct and map columns that shares those bytes.

PyArrow's reader trusts shared buffers, sizes of compressed buffers and repeated metadata, so it never sees bytes from
outside (decision 0021). Framing and buffers are read here, fields by `app.domain.arrow`. Views and dictionaries become
plain columns here, after their bytes are counted and reserved. Invariant: every length and offset is checked before it
is used.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, compress, islice
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.domain.arrow import ArrowField, Damaged, FlatTable, read_fields
from app.domain.model.change import UNLIMITED, InputLimits
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

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
"""Buffers of a column; a string column has the most."""

_ROWS, _NODES, _BUFFERS, _COMPRESSION, _VARIADIC = range(5)
_DICTIONARY_ID, _DICTIONARY_ROWS, _IS_DELTA = range(3)


@dataclass(frozen=True, slots=True)
class ArrowMessage:
    """One message: its kind, its header and the body that its buffers are in."""

    kind: int
    header: FlatTable
    body: pa.Buffer


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """A record batch before arrays are made of it, with nodes and buffers in the order of the schema's fields."""

    rows: int
    nodes: Sequence[tuple[int, int]]
    """Length and null count of each column and of what is below it, as the sender states them."""
    buffers: Sequence[pa.Buffer]
    views: Sequence[int]
    """Number of buffers of each column of views."""
    dictionaries: Mapping[int, "DictionaryValues"]
    """By id, as they are when the batch comes."""


@dataclass(frozen=True)
class DictionaryValues:
    """The values of one dictionary. An array is made of them when a batch needs it."""

    field: ArrowField
    layout: BatchLayout
    reserve: Callable[[int], None]

    @cached_property
    def array(self) -> pa.Array:
        """The values as a plain array. Raises Damaged."""
        return _ArrayReader(self.layout, self.reserve).array(self.field, self.layout.rows)


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


def layout_of(
    header: FlatTable,
    body: pa.Buffer,
    fields: Sequence[ArrowField],
    dictionaries: Mapping[int, DictionaryValues],
) -> BatchLayout:
    """Return the layout of a record batch with these fields, those below others included.

    Raises Damaged, also for buffers that are compressed or share bytes: these would let a small body become many large
    columns.
    """
    if header.has(_COMPRESSION):
        raise Damaged(
            "the buffers of the stream are compressed; write them uncompressed, and compress the body as a whole with "
            "Content-Encoding: zstd"
        )
    views = header.longs(_VARIADIC)
    if len(views) != sum(field.is_view and field.dictionary is None for field in fields) or min(views, default=0) < 0:
        raise Damaged("a record batch does not say how many buffers each column of views has")
    if header.length(_NODES) != len(fields) or header.length(_BUFFERS) > _MAX_BUFFERS * len(fields) + sum(views):
        raise Damaged("a record batch does not have as many columns as the schema")
    buffers, end = [], 0
    for offset, length in header.pairs(_BUFFERS):
        if length < 0 or (length and (offset < end or offset % _ALIGNMENT or offset + length > body.size)):
            raise Damaged("a buffer is not aligned, shares bytes with another one, or lies outside its message")
        end = max(end, offset + length) if length else end
        buffers.append(body.slice(offset, length) if length else _EMPTY)
    rows = header.int64(_ROWS)
    if rows < 0:
        raise Damaged("a record batch has a negative number of rows")
    return BatchLayout(rows, header.pairs(_NODES), buffers, views, dictionaries)


_EMPTY: Final = pa.py_buffer(b"")


MAX_ARRAYS: Final = 2**18
"""Columns of all record batches together; each costs time and memory, however few rows it has.

Fields below a column and dictionaries count as columns.
"""

_ELEMENT_BYTES: Final = 2
"""Bytes of the shortest text of an element of a list, reserved for each: one of NULLs or truth values takes fewer."""

MAX_ARRAY_ROWS: Final = 2**31 - 1
"""Elements of a list column, and bytes of a string column made of views or a dictionary: offsets have 32 bits."""

_MAX_PROBLEMS: Final = 100
_SUPPORTED_TYPES: Final = (
    "Write the column with another type, such as string, int64, decimal128, timestamp, list or struct."
)


def decode_arrow_stream(body: bytes, limits: InputLimits = UNLIMITED) -> pa.Table:
    """Return all rows of a stream in order, without copying values, except those of views and dictionaries.

    Types must be on an allow-list, buffers whole, aligned and apart, and each array is validated in full before it is
    used. The body's size bounds the memory, except for columns of nulls, whose length `limits` bounds, and for what
    views and dictionaries become, whose bytes are reserved first; `limits` have to add what is reserved. Raises
    RejectedInput `malformed_arrow`, `schema_mismatch`, `too_many_messages`, `body_too_large` or `empty_request`.
    """
    try:
        messages = messages_of(body)
        fields = _fields(next(messages, None))
        _check_types(fields)
        layouts = [*_layouts(messages, fields, limits)]
        if not layouts:
            raise RejectedInput(Code.EMPTY_REQUEST, "the Arrow stream has no rows")
        schema = pa.schema([_arrow_field(field) for field in fields])
        return pa.Table.from_batches([_batch(layout, fields, schema, limits) for layout in layouts], schema)
    except (Damaged, pa.ArrowException) as error:
        detail = str(error) if isinstance(error, Damaged) else "the columns of the Arrow stream are not valid"
        raise RejectedInput(Code.MALFORMED_ARROW, detail) from error


def _arrow_field(field: ArrowField) -> pa.Field:
    """Return the field; PyArrow rejects a required one of type null, so that one is not required here."""
    return pa.field(field.name, field.type, field.nullable or pa.types.is_null(field.type))


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


def _layouts(
    messages: Iterator[ArrowMessage], columns: Sequence[ArrowField], limits: InputLimits
) -> Iterator[BatchLayout]:
    """Yield the layouts of the record batches that have rows. No array is made before all rows are counted.

    A dictionary with the id of an earlier one replaces it for the batches that follow.
    """
    by_column = [[*column.encoded()] for column in columns]
    fields = [*chain.from_iterable(by_column)]
    is_below = [at > 0 for encoded in by_column for at, _ in enumerate(encoded)]
    encoded = _encoded(fields)
    dictionaries: dict[int, DictionaryValues] = {}
    rows = arrays = 0
    for message in messages:
        if message.kind == _DICTIONARY_BATCH:
            dictionaries |= _dictionary(message, encoded, limits)
            arrays += 1
        elif message.kind == RECORD_BATCH:
            layout = layout_of(message.header, message.body, fields, {**dictionaries})
            rows += layout.rows
            arrays += max(1, len(fields))
            limits.check_messages(rows)
            limits.reserve(_ELEMENT_BYTES * sum(max(0, length) for length, _ in compress(layout.nodes, is_below)))
            if layout.rows:
                yield layout
        else:
            raise Damaged("a message is not a record batch")
        if arrays > MAX_ARRAYS:
            raise Damaged(f"the record batches have more than {MAX_ARRAYS} columns together; write larger batches")


def _encoded(fields: Sequence[ArrowField]) -> dict[int, ArrowField]:
    """Return the fields of the values of dictionaries by their ids. Columns that share one have the same type."""
    found: dict[int, ArrowField] = {}
    for field in fields:
        if field.dictionary is not None:
            values = found.setdefault(field.dictionary.id, replace(field, dictionary=None))
            if (values.type, values.is_view) != (field.type, field.is_view):
                raise Damaged("two columns of different types have the same dictionary")
    return found


def _dictionary(
    message: ArrowMessage, encoded: Mapping[int, ArrowField], limits: InputLimits
) -> dict[int, DictionaryValues]:
    """Return a dictionary by its id. Raises Damaged."""
    found, values = message.header.int64(_DICTIONARY_ID), message.header.table(_DICTIONARY_ROWS)
    if found not in encoded or values is None:
        raise Damaged("a dictionary belongs to no column")
    if message.header.uint8(_IS_DELTA):
        raise Damaged("a dictionary adds to an earlier one; write each dictionary as a whole")
    field = encoded[found]
    return {found: DictionaryValues(field, layout_of(values, message.body, [field], {}), limits.reserve)}


def _batch(layout: BatchLayout, fields: Sequence[ArrowField], schema: pa.Schema, limits: InputLimits) -> pa.RecordBatch:
    reader = _ArrayReader(layout, limits.reserve)
    arrays = []
    for field in fields:
        try:
            arrays.append(reader.array(field, layout.rows))
        except pa.ArrowException as error:
            detail = "the column is not valid: a text is not UTF-8, or a value is none that its Arrow type has"
            problem = Problem(Code.MALFORMED_ARROW, detail, pointer=pointer_to("", field.name), column=field.name)
            raise RejectedInput.of((problem,)) from error
    reader.check_end()
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _ArrayReader:
    """Reader of validated arrays from the nodes and buffers of a record batch, one field after the other."""

    def __init__(self, layout: BatchLayout, reserve: Callable[[int], None]) -> None:
        self._nodes, self._buffers, self._views = iter(layout.nodes), iter(layout.buffers), iter(layout.views)
        self._dictionaries = layout.dictionaries
        self._reserve = reserve

    def check_end(self) -> None:
        """Raise Damaged if buffers are left."""
        if next(self._buffers, None) is not None:
            raise Damaged("a record batch has more buffers than its columns need")

    def array(self, field: ArrowField, rows: int | None) -> pa.Array:
        """Return the array of the next field, of so many rows if these are known. Raises Damaged or ArrowInvalid.

        The sender's null count is used only to tell that there are no NULLs.
        """
        length, nulls = next(self._nodes)
        if rows not in (None, length) or not 0 <= length <= MAX_ARRAY_ROWS:
            raise Damaged("a column does not have as many rows as its record batch")
        if field.dictionary is not None:
            return self._decoded(self._flat(field.dictionary.index, length, nulls), field.dictionary.id)
        if field.is_view:
            validity, views = self._next(2, nulls)
            texts = _Views(length, validity, views, [*islice(self._buffers, next(self._views))])
            return texts.array(field.type, self._reserve)
        if pa.types.is_nested(field.type):
            return self._nested(field.type, field.children, length, nulls)
        return pa.nulls(length) if pa.types.is_null(field.type) else self._flat(field.type, length, nulls)

    def _flat(self, of_type: pa.DataType, length: int, nulls: int) -> pa.Array:
        return _validated(pa.Array.from_buffers(of_type, length, self._next(of_type.num_buffers, nulls)))

    def _nested(self, of_type: pa.DataType, children: Sequence[ArrowField], length: int, nulls: int) -> pa.Array:
        buffers = self._next(of_type.num_buffers, nulls)
        below = None
        if pa.types.is_struct(of_type):
            below = length
        elif pa.types.is_fixed_size_list(of_type):
            below = length * of_type.list_size
        arrays = [self.array(child, below) for child in children]
        return _validated(pa.Array.from_buffers(of_type, length, buffers, children=arrays))

    def _next(self, count: int, nulls: int) -> list[pa.Buffer | None]:
        """Return the next buffers; the first, which says what is NULL, only if something is."""
        given: list[pa.Buffer | None] = [*islice(self._buffers, count)]
        if len(given) < count:
            raise Damaged("a record batch has fewer buffers than its columns need")
        if not nulls:
            given[0] = None
        return given

    def _decoded(self, indexes: pa.Array, dictionary: int) -> pa.Array:
        """Return the values at these places of a dictionary, whose bytes are counted and reserved first."""
        if dictionary not in self._dictionaries:
            raise Damaged("a record batch precedes its dictionary")
        values = self._dictionaries[dictionary].array
        bounds = pc.min_max(indexes).as_py()
        if bounds["max"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(values):
            raise Damaged("a row has a value that its dictionary does not have")
        if pa.types.is_primitive(values.type) or pa.types.is_decimal(values.type):
            size = len(indexes) * (values.type.bit_width + 7) // 8
        else:
            sizes = pc.cast(pc.binary_length(values), pa.int64())
            size = pc.sum(sizes.take(indexes)).as_py() or 0
        _reserved(size, self._reserve)
        return values.take(indexes)


def _reserved(size: int, reserve: Callable[[int], None]) -> None:
    """Reserve the bytes of a column. Raises Damaged if it cannot have so many, and what `reserve` raises."""
    if size > MAX_ARRAY_ROWS:
        raise Damaged("the strings of a column are too long together")
    reserve(size)


def _validated(array: pa.Array) -> pa.Array:
    array.validate(full=True)
    return array


_VIEW_BYTES: Final = 16
_MAX_INLINE: Final = 12
"""Bytes of a string that its view itself has, after four bytes of its length."""
_COPIED_AT_ONCE: Final = 2**18
"""Bytes; each takes 16 more while they are copied."""


class _Views:
    """Strings or bytes that rows refer to by views: a length, then the bytes, or where in which buffer they are."""

    def __init__(
        self, length: int, validity: pa.Buffer | None, views: pa.Buffer | None, buffers: Sequence[pa.Buffer]
    ) -> None:
        """Check all views, also of rows that are NULL. Raises Damaged."""
        if views is None or views.size < length * _VIEW_BYTES or (validity is not None and validity.size * 8 < length):
            raise Damaged("a column of views has fewer rows than its record batch")
        self._validity = validity
        words = np.frombuffer(views, "<i4", length * 4).reshape(length, 4)
        self._sizes = words[:, 0].astype(np.int64)
        if validity is not None:
            is_valid = np.unpackbits(np.frombuffer(validity, np.uint8), count=length, bitorder="little")
            self._sizes *= is_valid
        parts = [np.frombuffer(part, np.uint8) for part in (views, *buffers)]
        self._content = np.concatenate(parts) if len(parts) > 1 else parts[0]
        ends = np.cumsum([len(part) for part in parts])
        is_long = self._sizes > _MAX_INLINE
        self._starts = np.arange(length, dtype=np.int64) * _VIEW_BYTES + 4
        long = words[is_long]
        if (self._sizes < 0).any() or (long[:, 2:] < 0).any() or (long[:, 2] >= len(buffers)).any():
            raise Damaged("a view refers to a buffer that its column does not have")
        starts = ends[long[:, 2]] + long[:, 3]
        if (starts + self._sizes[is_long] > ends[long[:, 2] + 1]).any():
            raise Damaged("a view refers to bytes outside its buffer")
        self._starts[is_long] = starts

    def array(self, of_type: pa.DataType, reserve: Callable[[int], None]) -> pa.Array:
        """Return the strings as an array that has its own bytes, which are reserved first."""
        ends = np.cumsum(self._sizes)
        total = int(ends[-1]) if len(ends) else 0
        _reserved(total, reserve)
        offsets = np.zeros(len(ends) + 1, "<i4")
        offsets[1:] = ends
        buffers = [self._validity, pa.py_buffer(offsets), pa.py_buffer(self._copied(offsets, total))]
        return _validated(pa.Array.from_buffers(of_type, len(ends), buffers))

    def _copied(self, offsets: "np.ndarray[tuple[int], np.dtype[np.int32]]", total: int) -> bytes:
        """Return the bytes of all rows, copied for some rows at a time."""
        copied, first = np.empty(total, np.uint8), 0
        while first < len(self._sizes):
            last = max(first + 1, int(np.searchsorted(offsets, int(offsets[first]) + _COPIED_AT_ONCE, "right")) - 1)
            begin, end = int(offsets[first]), int(offsets[last])
            if last == first + 1:
                at = int(self._starts[first])
                copied[begin:end] = self._content[at : at + end - begin]
            else:
                places = np.repeat(self._starts[first:last] - offsets[first:last], self._sizes[first:last])
                copied[begin:end] = self._content[places + np.arange(begin, end)]
            first = last
        return copied.tobytes()
