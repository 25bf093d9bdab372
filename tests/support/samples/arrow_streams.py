"""Arrow streams: valid ones, and harmful ones."""

import io
import struct
from decimal import Decimal
from typing import Final

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
    texts = pa.array(["a", "b"]).dictionary_encode()
    lists = pa.array([[1], [2]], pa.list_(pa.int64()))
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
        "dictionary": stream(pa.table({"id": [1, 2], "name": texts})),
        "list": stream(pa.table({"id": [1, 2], "name": lists})),
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
