"""Streams of JSON and files of Replicate's envelopes are cut between messages, wherever their pieces end."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.formats.json.decoder import MessageDecoder
from mirrorgate.chunking.avro_messages import split_replicate
from mirrorgate.chunking.chunks import Chunk, Limits, positions_of
from mirrorgate.chunking.json_messages import split_json
from mirrorgate.errors import Code
from tests.client.chunking.cutting import SIZES, check_chunks, outcome, pieces
from tests.support.rejections import rejected
from tests.support.samples.replicate_avro import envelope

DECODER: MessageDecoder[dict[str, Any]] = MessageDecoder(dict[str, Any])
TEXTS = st.text('{}[]",:\\/ \n\u00e9\u5c71\U0001f600a', max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**20) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
MESSAGES = st.lists(st.dictionaries(TEXTS, VALUES, max_size=2), min_size=1, max_size=6)
BLANKS = st.text(" \t\r\n", max_size=2).map(str.encode)


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Any], bytes]:
    """Draw messages and one way of writing them."""
    messages = draw(MESSAGES)
    written = [
        json.dumps(message, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 0, 2]))).encode()
        for message in messages
    ]
    match draw(st.sampled_from(["array", "lines", "objects"])):
        case "array":
            text = b"[" + b",".join(draw(BLANKS) + one + draw(BLANKS) for one in written) + b"]"
        case "lines":
            text = b"".join(
                json.dumps(message).encode() + draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"])) for message in messages
            )
        case _:
            text = b"".join(one + draw(BLANKS) for one in written)
    return messages, draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + draw(BLANKS) + text + draw(BLANKS)


def split(body: bytes, sizes: list[int], limits: Limits, skip: int = 0) -> list[Chunk]:
    return list(split_json(pieces(body, sizes), limits, skip))


@given(streams(), SIZES, st.integers(1, 200), st.none() | st.integers(1, 3), st.integers(0, 7))
def test_the_parts_hold_the_messages_of_the_whole_behind_those_that_are_left_out(
    stream: tuple[list[Any], bytes], sizes: list[int], limit: int, most: int | None, skip: int
) -> None:
    messages, body = stream
    chunks = split(body, sizes, Limits(limit, most), skip)
    check_chunks(chunks, body, limit, first=skip)
    decoded = [DECODER.decode(chunk.body) for chunk in chunks]
    assert [message for part in decoded for message in part] == messages[skip:]
    assert [len(part) for part in decoded] == [chunk.messages for chunk in chunks]
    assert most is None or all(chunk.messages <= most for chunk in chunks)


@given(streams(), SIZES, st.integers(1, 200))
def test_a_limit_is_filled_before_the_next_part_begins(
    stream: tuple[list[Any], bytes], sizes: list[int], limit: int
) -> None:
    chunks = split(stream[1], sizes, Limits(limit))
    alone = split(stream[1], sizes, Limits(1))
    for chunk, following in pairwise(chunks):
        assert alone[following.first].end - chunk.start + 2 * chunk.opening > limit


@given(st.text('{}[]",:\\nul \n1', max_size=40).map(str.encode) | streams().map(lambda s: s[1][:-1]), SIZES)
@example(b"[{},]", [1])
@example(b"[,{}]", [1])
@example(b"[{}{}]", [1])
@example(b"[{}]{}", [1])
@example(b'{}}{"a":1}', [1])
@example(b'{"a":\n{}\n}\n{"b":\n{}}\n', [5])
@example(b'{}\n{"a":"\n{}\n"}\n{}', [50])
@example(b'{}"\n{}\n', [50])
def test_splitting_neither_heals_nor_breaks_a_text(body: bytes, sizes: list[int]) -> None:
    whole = outcome(lambda: DECODER.decode(body))
    for limit in (1, 8, 100):
        chunks = outcome(lambda limit=limit: split(body, sizes, Limits(limit)))  # type: ignore[misc]
        decoded = [outcome(lambda chunk=chunk: DECODER.decode(chunk.body)) for chunk in chunks or []]  # type: ignore[misc]
        if whole is None:
            assert not decoded or None in decoded
        else:
            assert [message for messages in decoded for message in messages or [None]] == whole


@given(streams(), SIZES, st.integers(1, 200))
def test_every_message_is_found_again_in_the_stream(
    stream: tuple[list[Any], bytes], sizes: list[int], limit: int
) -> None:
    messages, body = stream
    for chunk in split(body, sizes, Limits(limit)):
        positions = positions_of(chunk, range(chunk.messages), split_json)
        assert sorted(positions) == list(range(chunk.messages))
        for index, position in positions.items():
            assert position.message == chunk.first + index
            message, _ = json.JSONDecoder().raw_decode(body[position.byte :].decode())
            assert message == messages[position.message]
            assert position.line == body.count(b"\n", 0, position.byte) + 1


def test_a_null_between_lines_is_a_message_and_begins_no_part() -> None:
    body = b'{"a":1}\nnull\nnull\n{"b":2}\nnull\n'
    chunks = split(body, [3], Limits(1))
    assert [(chunk.body, chunk.first, chunk.messages) for chunk in chunks] == [
        (b'{"a":1}\nnull\nnull\n', 0, 3),
        (b'{"b":2}\nnull\n', 3, 2),
    ]


@pytest.mark.parametrize("body", [b"", b"\xef\xbb\xbf \n", b"[]", b"[ \n ]\n"])
def test_a_stream_without_messages_has_no_chunks(body: bytes) -> None:
    assert split(body, [1], Limits(100)) == []


@pytest.mark.parametrize(
    ("body", "detail", "before"),
    [
        (b"PAR1", "starts with neither", 0),
        (b'{"a":1}\n{"b":', "the object that starts at byte 8 does not end", 1),
        (b'{"a":1}\n{"b":"}', "the object that starts at byte 8 does not end", 1),
        (b'[{"a":1},{"b":2},{"c"', "the array does not end", 2),
        (b'[{"a":1},{"b":2}]\n{"c":3}', "unexpected text after the array at byte 18", 2),
    ],
)
def test_a_stream_that_is_cut_off_or_goes_on_is_rejected_after_the_parts_before(
    body: bytes, detail: str, before: int
) -> None:
    chunks = split_json(pieces(body, [4]), Limits(10))
    for _ in range(before):
        next(chunks)
    with rejected(Code.MALFORMED_JSON) as rejection:
        list(chunks)
    assert detail in rejection.detail


@pytest.mark.parametrize("body", [b'{"a":1}{"b":"' + b"x" * 500, b'[{"a":1},{"b":{"c":' + b"[" * 500])
def test_a_message_without_an_end_is_not_read_for_ever(body: bytes) -> None:
    given_out = iter([body] + [b"x"] * 10_000)
    with rejected(Code.BODY_TOO_LARGE):
        list(split_json(given_out, Limits(10, max_message_bytes=600)))
    assert len(list(given_out)) > 9_000


def test_only_what_a_part_needs_is_held() -> None:
    line = b'{"a":"' + b"x" * 90 + b'"}\n'
    read = 0

    def endless() -> Any:
        nonlocal read
        while True:
            read += len(line)
            yield line

    sent = 0
    for number, chunk in zip(range(1_000), split_json(endless(), Limits(1_000)), strict=False):
        sent += len(chunk.body)
        assert read - sent < 3_000
        assert chunk.first == number * 10


ENVELOPES = st.builds(
    lambda message, schema_id: envelope("DT", message, schema_id=schema_id),
    st.binary(max_size=80) | st.just(b"atMSG\x04DT"),
    st.none() | st.text(max_size=5),
)
BREAKS = st.sampled_from([b"", b"\n", b"\r\n"])


@given(
    st.lists(st.tuples(ENVELOPES, BREAKS), min_size=1, max_size=8),
    SIZES,
    st.integers(1, 200),
    st.integers(0, 3),
)
def test_every_envelope_is_in_one_chunk_in_order(
    messages: list[tuple[bytes, bytes]], sizes: list[int], max_bytes: int, skip: int
) -> None:
    body = b"".join(message + after for message, after in messages)
    chunks = [*split_replicate(pieces(body, sizes), Limits(max_bytes), skip)]
    check_chunks(chunks, body, max_bytes, min(skip, len(messages)))
    assert sum(chunk.messages for chunk in chunks) == max(0, len(messages) - skip)
    for chunk in chunks:
        found = positions_of(chunk, range(chunk.messages), split_replicate)
        assert [found[index].message for index in range(chunk.messages)] == [*range(chunk.first, chunk.after)]


def test_json_is_cut_as_json() -> None:
    chunks = [*split_replicate([b"\n{}", b"{}"], Limits(2))]
    assert [chunk.body for chunk in chunks] == [b"{}", b"{}"]


@pytest.mark.parametrize(("rest", "reason"), [(b"atMSG\x04", "ends before"), (b"atXYZ", "does not begin with atMSG")])
def test_a_broken_envelope_ends_the_file_at_its_byte(rest: bytes, reason: str) -> None:
    whole = envelope("DT", b"x")
    chunks = split_replicate([whole, rest], Limits(1_000))
    assert next(chunks).body == whole
    with rejected(Code.MALFORMED_AVRO) as error:
        next(chunks)
    assert reason in error.detail
    assert f"byte {len(whole)} " in error.detail
