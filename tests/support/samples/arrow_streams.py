"""Arrow streams: valid ones, and harmful ones."""

import io
import struct
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

ABSURD_SCALE: Final = 2_000_000_000
_BUFFERS_OF_TEXT: Final = 3 * 16
"""Bytes that describe the buffers of a text column."""


def stream(table: pa.Table, *, compression: str | None = None, rows_a_batch: int | None = None) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)
    return sink.getvalue()


def typed_rows(rows: Iterable[Mapping[str, Any]], columns: pa.Schema) -> pa.Table:
    """Return rows whose values may be texts as columns of these types."""
    return pa.table({field.name: pa.array([row[field.name] for row in rows]).cast(field.type) for field in columns})


def null_view_with_a_size(size: int = -65_536) -> bytes:
    """Return rows of a text column whose null slot has a length, which Arrow's checks accept and its cast does not."""
    validity = pa.py_buffer(bytes([0b01]))
    views = struct.pack("<i12s", 3, b"abc") + struct.pack("<i12x", size)
    texts = pa.Array.from_buffers(pa.string_view(), 2, [validity, pa.py_buffer(views)])
    return stream(pa.table({"id": pa.array([1, 2]), "name": texts}))


def views_of_one_text(rows: int, size: int) -> bytes:
    """Return a small stream in which each row shows the same long text."""
    views = struct.pack("<i4sii", size, b"aaaa", 0, 0) * rows
    texts = pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(views), pa.py_buffer(b"a" * size)])
    return stream(pa.table({"id": pa.array(range(rows)), "name": texts}))


def dictionary_of_one_text(rows: int, size: int) -> bytes:
    """Return a small stream in which each row has the same long text of a dictionary."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int8()), pa.array(["a" * size]))
    return stream(pa.table({"id": pa.array(range(rows)), "name": texts}))


def dictionary_that_adds() -> bytes:
    """Return a stream whose second dictionary is a delta of the first."""
    sink = io.BytesIO()
    of = pa.dictionary(pa.int8(), pa.string())
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, pa.schema([pa.field("id", of)]), options=options) as writer:
        for texts in (["a"], ["a", "b"]):
            codes = pa.array([*range(len(texts))], pa.int8())
            writer.write_batch(pa.record_batch({"id": pa.DictionaryArray.from_arrays(codes, pa.array(texts))}))
    return sink.getvalue()


def _other_index(index: int) -> bytes:
    codes = pa.array([0x2A2A2A2A2A2A2A2A], pa.int64())
    texts = pa.DictionaryArray.from_arrays(codes, pa.array(["a"]), safe=False)
    return stream(pa.table({"id": [1], "name": texts})).replace(b"*" * 8, struct.pack("<q", index))


def _without_dictionary() -> bytes:
    body = stream(pa.table({"id": [1], "name": pa.array(["a"]).dictionary_encode()}))
    parts = [b"\xff\xff\xff\xff" + part for part in body.split(b"\xff\xff\xff\xff")[1:]]
    return b"".join([parts[0], *parts[2:]])


def view_beyond_its_buffer(buffer: int = 0) -> bytes:
    views = struct.pack("<i4sii", 20, b"aaaa", buffer, 1)
    texts = pa.Array.from_buffers(pa.string_view(), 1, [None, pa.py_buffer(views), pa.py_buffer(b"a" * 20)])
    return stream(pa.table({"id": [1], "name": texts}))


def list_of_nothing(elements: int) -> bytes:
    """Return a row with a list of any number of NULLs."""
    offsets = pa.py_buffer(struct.pack("<ii", 0, elements))
    lists = pa.Array.from_buffers(pa.list_(pa.null()), 1, [None, offsets], children=[pa.nulls(elements)])
    return stream(pa.table({"id": [1], "name": lists}))


def _deep_list(levels: int) -> bytes:
    of: pa.DataType = pa.int8()
    for _ in range(levels):
        of = pa.list_(of)
    return stream(pa.table({"id": [1], "name": pa.array([None], of)}))


def _shared_fields() -> bytes:
    """Return a row whose structs have the vector of their fields twice at each of 16 levels: 65,536 fields."""
    of: pa.DataType = pa.int8()
    for _ in range(15):
        of = pa.struct([pa.field("a", of), pa.field("b", pa.int8())])
    body = bytearray(stream(pa.table({"name": pa.array([None], of)})))
    at = 0
    while (at := body.find(struct.pack("<I", 2), at + 4)) >= 0:  # a vector of two fields: let both be the first one
        (first,) = struct.unpack_from("<I", body, at + 4)
        if first > 4:
            struct.pack_into("<I", body, at + 8, first - 4)
    return bytes(body)


def _list_offsets(first: int, last: int) -> bytes:
    body = stream(pa.table({"id": [1], "name": pa.array([[1] * 7], pa.list_(pa.int8()))}))
    before, _, after = body.rpartition(struct.pack("<ii", 0, 7))
    return before + struct.pack("<ii", first, last) + after


def decimal_of_absurd_scale(scale: int = ABSURD_SCALE) -> bytes:
    numbers = pa.Array.from_buffers(pa.decimal128(20, scale), 1, [None, pa.py_buffer(bytes([1] + 15 * [0]))])
    return stream(pa.table({"id": pa.array([1]), "total": numbers}))


def rows_of_nothing(rows: int, column: str = "id") -> bytes:
    """Return a stream of any number of rows in a few hundred bytes."""
    return stream(pa.table({column: pa.nulls(rows)}))


def columns_that_share_one_buffer(columns: int, size: int) -> bytes:
    """Return a stream whose text columns all refer to the buffers of the first."""
    body = bytearray(stream(pa.table({f"c{number}": ["a" * size] for number in range(columns)})))
    at = _buffers_at(bytes(body))
    for column in range(1, columns):
        body[at + column * _BUFFERS_OF_TEXT : at + (column + 1) * _BUFFERS_OF_TEXT] = body[at : at + _BUFFERS_OF_TEXT]
    return bytes(body)


def _buffers_at(body: bytes) -> int:
    """Return where a record batch of text columns describes its buffers, beginning with an absent bitmap."""
    message = body.index(b"\xff\xff\xff\xff", 8)
    return body.index(struct.pack("<qqqq", 0, 0, 0, 8), message)


def repeated_metadata(times: int) -> bytes:
    """Return a row whose schema refers to one text of 50 kB many times: a copy of each would take gigabytes."""
    long = "k" * 50_000
    schema = pa.schema([pa.field("id", pa.int64())], {long: long, **{str(number): "" for number in range(times - 1)}})
    body = bytearray(stream(pa.table({"id": [1]}, schema)))
    at = body.index(struct.pack("<I", times)) + 4
    (to_first,) = struct.unpack_from("<I", body, at)
    for element in range(times):
        struct.pack_into("<I", body, at + 4 * element, to_first - 4 * element)
    return bytes(body)


def spoilt_zone() -> bytes:
    moments = pa.array([0], pa.timestamp("us", "Europe/Paris"))
    return stream(pa.table({"id": pa.array([1]), "at": moments})).replace(b"Europe/Paris", b"Europe/Par\xff\xfe")


def hostile_streams() -> dict[str, bytes]:
    """Return bodies that once crashed the process, exhausted its memory or were answered as an internal error."""
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["a"]))
    return {
        "null view with a negative size": null_view_with_a_size(),
        "null view with a large size": null_view_with_a_size(2**31 - 1),
        "views of one text": views_of_one_text(500, 2**14),
        "decimal of absurd scale": decimal_of_absurd_scale(),
        "decimal of negative scale": decimal_of_absurd_scale(-ABSURD_SCALE),
        "a billion rows of nothing": rows_of_nothing(10**9),
        "a billion rows of no column": _without_columns(10**9),
        "time zone that is no UTF-8": spoilt_zone(),
        "columns that share one buffer": columns_that_share_one_buffer(40, 512),
        "dictionary of one text": dictionary_of_one_text(500, 2**14),
        "dictionary that adds to itself": dictionary_that_adds(),
        "index beyond the dictionary": _other_index(2),
        "index before the dictionary": _other_index(-1),
        "no dictionary": _without_dictionary(),
        "view beyond its buffer": view_beyond_its_buffer(),
        "view of another buffer": view_beyond_its_buffer(buffer=1),
        "a billion elements of nothing": list_of_nothing(2**30),
        "lists in lists": _deep_list(40),
        "structs that share their fields": _shared_fields(),
        "list that ends before it begins": _list_offsets(3, 1),
        "list beyond its elements": _list_offsets(0, 2**30),
        "run ends": stream(pa.table({"id": [1, 2], "name": runs})),
        "text beyond its end": _long_text(),
        "compressed buffers": stream(pa.table({"id": [0] * 10_000}), compression="lz4"),
        "duration": stream(pa.table({"id": [1], "total": pa.array([1], pa.duration("us"))})),
        "two schemas": stream(pa.table({"id": [1]}))[:-8] + stream(pa.table({"id": [1]})),
        "decimal beyond its digits": _decimal_beyond_its_digits(),
    }


def _without_columns(rows: int) -> bytes:
    sink = io.BytesIO()
    schema = pa.schema([])
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_struct_array(pa.nulls(rows, pa.struct([]))))
    return sink.getvalue()


def _long_text() -> bytes:
    body = stream(pa.table({"id": [1], "name": ["abcdefg"]}))
    before, offsets, after = body.rpartition(struct.pack("<ii", 0, 7))
    return before + offsets[:4] + struct.pack("<i", 2**31 - 1) + after


def _decimal_beyond_its_digits() -> bytes:
    body = stream(pa.table({"id": [1], "total": pa.array([Decimal("1.00")], pa.decimal128(5, 2))}))
    return body.replace((100).to_bytes(16, "little"), b"\xff" * 15 + b"\x7f")
