"""Arrow streams from outside: whole, plain and valid, or refused."""

import io
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import Code, RejectedInput
from app.formats.arrow_stream import decode_arrow_stream
from tests.support.refusals import refused

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})


def stream(table: pa.Table = ROWS, *, compression: str | None = None, rows_a_batch: int = 2) -> bytes:
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)
    return sink.getvalue()


def test_all_batches_of_a_stream_are_one() -> None:
    batch = decode_arrow_stream(stream())
    assert pa.Table.from_batches([batch]).equals(ROWS)


@pytest.mark.parametrize(
    "spoilt",
    [
        lambda body: b"",
        lambda body: b"{}",
        lambda body: body[:-8],
        lambda body: body[:-16],
        lambda body: body + b"more",
        lambda body: body + body,
        lambda body: body.replace(b"name", b"\xff\xfeme"),
    ],
)
def test_what_is_no_whole_stream_is_malformed(spoilt: Callable[[bytes], bytes]) -> None:
    with refused() as refusal:
        decode_arrow_stream(spoilt(stream()))
    assert refusal.code is Code.MALFORMED_ARROW


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_buffers_are_refused_since_they_say_how_large_they_get(compression: str) -> None:
    with refused() as refusal:
        decode_arrow_stream(stream(pa.table({"zeros": [0] * 100_000}), compression=compression, rows_a_batch=100_000))
    assert refusal.code is Code.MALFORMED_ARROW
    assert "Content-Encoding" in refusal.text


def test_two_columns_of_one_name_are_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    with refused() as refusal:
        decode_arrow_stream(stream(twice))
    assert refusal.code is Code.MALFORMED_ARROW


def test_a_stream_without_rows_is_empty() -> None:
    with refused() as refusal:
        decode_arrow_stream(stream(ROWS.slice(0, 0)))
    assert refusal.code is Code.EMPTY_REQUEST


def test_texts_that_are_not_utf8_are_refused() -> None:
    with refused() as refusal:
        decode_arrow_stream(stream(pa.table({"name": ["abcdefgh"]})).replace(b"abcdefgh", b"abc\xffefgh"))
    assert refusal.code is Code.MALFORMED_ARROW


@given(place=st.integers(0, len(stream()) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_is_read_or_refused(place: int, byte: int) -> None:
    body = bytearray(stream())
    body[place] = byte
    try:
        batch = decode_arrow_stream(bytes(body))
    except RejectedInput:
        return
    batch.to_pylist()
