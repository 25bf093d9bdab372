"""Arrow streams from outside are complete, uncompressed and valid, or are rejected."""

import io
import struct
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from random import Random

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.model.change import InputLimits
from app.formats.arrow import MAX_ARRAYS, decode_arrow_stream
from mirrorgate.errors import Code, RejectedInput
from tests.fuzz.arrow_mutants import made, messages
from tests.fuzz.decoders import ARROW_LIMITS
from tests.support.rejections import rejected
from tests.support.samples.arrow_streams import (
    dictionary_of_one_text,
    dictionary_that_adds,
    hostile_streams,
    null_view_with_a_size,
    repeated_metadata,
    rows_of_nothing,
    stream,
    views_of_one_text,
)

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})
LIMITS = InputLimits(messages=1_000, value_bytes=1_000)


def test_all_batches_of_a_stream_are_one() -> None:
    assert decode_arrow_stream(stream(ROWS, rows_a_batch=2)).equals(ROWS)


def is_zoned(field: pa.Field) -> bool:
    return pa.types.is_timestamp(field.type) and field.type.tz is not None


@pytest.mark.parametrize("seed", range(120))
def test_a_stream_reads_as_arrows_own_reader_reads_it(seed: int) -> None:
    body = made(Random(seed))
    expected = pa.ipc.open_stream(body).read_all()
    try:
        decoded = decode_arrow_stream(body)
    except RejectedInput as error:
        assert error.code is Code.SCHEMA_MISMATCH
    else:
        for at, field in enumerate(expected.schema):
            if is_zoned(field):
                utc = pa.timestamp(field.type.unit, "UTC")
                expected = expected.set_column(at, field.name, expected.column(at).cast(utc))
        assert repr(decoded.to_pylist()) == repr(expected.to_pylist())


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
        lambda body: b"ARROW1\0\0" + body,
        lambda body: body[:4] + struct.pack("<i", 2**31 - 8) + body[8:],
        lambda body: body[:4] + struct.pack("<i", -8) + body[8:],
    ],
)
def test_what_is_no_whole_stream_is_malformed(spoilt: Callable[[bytes], bytes]) -> None:
    with rejected(Code.MALFORMED_ARROW):
        decode_arrow_stream(spoilt(stream(ROWS)))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_buffers_are_rejected_since_they_say_how_large_they_get(compression: str) -> None:
    with rejected(Code.MALFORMED_ARROW) as rejection:
        decode_arrow_stream(stream(pa.table({"zeros": [0] * 100_000}), compression=compression, rows_a_batch=100_000))
    assert "Content-Encoding" in rejection.text


def test_two_columns_of_one_name_are_rejected() -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    with rejected(Code.MALFORMED_ARROW):
        decode_arrow_stream(stream(twice))


def test_a_stream_without_rows_is_empty() -> None:
    with rejected(Code.EMPTY_REQUEST):
        decode_arrow_stream(stream(ROWS.slice(0, 0)))


def test_a_column_with_a_value_that_its_arrow_type_does_not_have_is_named() -> None:
    texts = stream(pa.table({"id": [1], "a/b": ["abcdefgh"]})).replace(b"abcdefgh", b"abc\xffefgh")
    part_of_a_day = stream(pa.table({"id": [1], "a/b": pa.array([86_400_001]).view(pa.date64())}))
    for body in (texts, part_of_a_day):
        with rejected(places=[(Code.MALFORMED_ARROW, None, "/a~1b", "a/b")]):
            decode_arrow_stream(body)


@given(place=st.integers(0, len(stream(ROWS)) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_is_read_or_rejected(place: int, byte: int) -> None:
    body = bytearray(stream(ROWS))
    body[place] = byte
    try:
        batch = decode_arrow_stream(bytes(body))
    except RejectedInput:
        return
    batch.to_pylist()


@pytest.mark.parametrize("name", [name for name in hostile_streams() if not name.startswith("null view")])
def test_a_stream_made_to_harm_is_rejected(name: str) -> None:
    with rejected() as rejection:
        decode_arrow_stream(hostile_streams()[name], ARROW_LIMITS.adding())
    assert rejection.code in {Code.MALFORMED_ARROW, Code.SCHEMA_MISMATCH, Code.TOO_MANY_MESSAGES, Code.BODY_TOO_LARGE}


@pytest.mark.parametrize("size", [-65_536, 2**31 - 1])
def test_the_length_in_the_view_of_a_null_is_not_used(size: int) -> None:
    assert decode_arrow_stream(null_view_with_a_size(size)).column("name").to_pylist() == ["abc", None]


def test_the_texts_of_views_and_dictionaries_are_reserved_before_they_are_made() -> None:
    reserved: list[int] = []
    limits = InputLimits(1_000, 1_000, reserve=reserved.append)
    decode_arrow_stream(views_of_one_text(500, 2**14), limits)
    decode_arrow_stream(dictionary_of_one_text(500, 2**14), limits)
    assert [size for size in reserved if size > 2**14] == [500 * 2**14] * 2


def test_a_later_dictionary_replaces_the_one_before() -> None:
    batches = [
        pa.record_batch({"name": pa.array(texts).dictionary_encode()}) for texts in (["a", "b"], ["c", "a", "c"])
    ]
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    assert decode_arrow_stream(sink.getvalue()).to_pydict() == {"name": ["a", "b", "c", "a", "c"]}


def test_a_dictionary_that_adds_to_the_one_before_is_rejected() -> None:
    with rejected() as rejection:
        decode_arrow_stream(dictionary_that_adds())
    assert (rejection.code, "as a whole" in rejection.detail) == (Code.MALFORMED_ARROW, True)


@pytest.mark.parametrize("is_nested", [False, True], ids=["columns", "in a list"])
def test_columns_that_share_a_dictionary_have_its_type(is_nested: bool) -> None:
    """Each word of the schema that can be the id of the second dictionary becomes that of the first, in turn."""
    texts = pa.array(["a", "b"], pa.dictionary(pa.int8(), pa.string()))
    lists = pa.array([["a"], ["b"]], pa.list_(pa.dictionary(pa.int8(), pa.string())))
    numbers = pa.array([7, 8], pa.dictionary(pa.int8(), pa.int64()))
    body = stream(pa.table({"a": numbers, "b": lists if is_nested else texts}))
    details = []
    for at in range(8, body.index(b"\xff\xff\xff\xff", 8), 4):
        if body[at : at + 4] == struct.pack("<i", 1):
            try:
                decode_arrow_stream(body[:at] + bytes(4) + body[at + 4 :])
            except RejectedInput as error:
                details.append(error.detail)
    assert "two columns of different types have the same dictionary" in details


def test_a_stream_of_polars_is_read_as_polars_writes_it() -> None:
    """Its newest form: views of texts, categories, lists and structs."""
    frame = pl.DataFrame(
        {
            "text": ["short", "a text of more than twelve bytes", None],
            "bytes": [b"x" * 20, None, b"y"],
            "category": pl.Series(["a", None, "a"], dtype=pl.Categorical),
            "choice": pl.Series(["x", "y", "x"], dtype=pl.Enum(["x", "y"])),
            "at": [datetime(2026, 1, 2, 3, 4, 5), None, datetime(1970, 1, 1)],
            "list": [[1, 2], [], None],
            "struct": [{"a": 1, "b": ["a text of more than twelve bytes"]}, None, {"a": None, "b": None}],
            "pair": pl.Series([[1, 2], None, [3, 4]], dtype=pl.Array(pl.Int8, 2)),
        }
    )
    sink = io.BytesIO()
    frame.write_ipc_stream(sink, compat_level=pl.CompatLevel.newest())
    assert decode_arrow_stream(sink.getvalue()).to_pylist() == frame.to_dicts()


def test_streams_made_to_harm_leave_the_process_alive() -> None:
    """In a process of its own, which has little memory: each of them lands or is rejected."""
    code = """
import resource
resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))
from tests.fuzz.decoders import tried
from tests.support.samples.arrow_streams import hostile_streams, repeated_metadata
for name, body in [*hostile_streams().items(), ("metadata", repeated_metadata(20_000))]:
    print(name, flush=True)
    tried("arrow_stream", body)
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stdout.splitlines()[-1:] + child.stderr.splitlines()[-1:]
    assert child.stdout.splitlines() == [*hostile_streams(), "metadata"]


def test_the_types_that_are_not_taken_are_named_by_column_before_any_row_is_read() -> None:
    given = {"id": pa.array([1]), "a": pa.array([[1]], pa.list_view(pa.int8())), "b": pa.array([1], pa.duration("s"))}
    wrong = stream(pa.table(given))
    end_of_schema = wrong.index(b"\xff\xff\xff\xff", 8)
    for body in (wrong, wrong[:end_of_schema] + b"what is no message at all"):
        with rejected() as rejection:
            decode_arrow_stream(body)
        assert [(code, column) for code, _, _, column in rejection.places] == [
            (Code.SCHEMA_MISMATCH, "a"),
            (Code.SCHEMA_MISMATCH, "b"),
        ]
        assert "another type, such as string" in rejection.text


def test_rows_are_limited_as_messages_are_however_few_bytes_they_take() -> None:
    assert decode_arrow_stream(rows_of_nothing(1_000), LIMITS).num_rows == 1_000
    two_batches = stream(pa.table({"id": range(1_001)}), rows_a_batch=1_000)
    for body in (two_batches, rows_of_nothing(1_001)):
        with rejected(Code.TOO_MANY_MESSAGES):
            decode_arrow_stream(body, LIMITS)


def test_columns_of_all_batches_are_limited() -> None:
    """Empty ones too: each takes time and memory."""
    schema, batch, end = messages(stream(pa.table({f"c{number}": ["a"] for number in range(1_000)})))
    with rejected() as rejection:
        decode_arrow_stream(schema + batch * (MAX_ARRAYS // 1_000 + 1) + end)
    assert "larger batches" in rejection.detail


def test_metadata_is_passed_over_though_it_repeats_itself() -> None:
    assert decode_arrow_stream(repeated_metadata(100)).num_rows == 1


def test_a_record_batch_has_the_columns_of_the_schema() -> None:
    """Neither fewer nor more, nor more buffers than they need."""
    one, two = (messages(stream(pa.table({name: ["x"] for name in names}))) for names in ("a", "ab"))
    for body in ((one[0], two[1], two[2]), (two[0], one[1], one[2])):
        with rejected() as rejection:
            decode_arrow_stream(b"".join(body))
        assert (rejection.code, "columns as the schema" in rejection.detail) == (Code.MALFORMED_ARROW, True)
