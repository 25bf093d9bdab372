"""Texts: checking UTF-8 slice by slice finds the same byte as decoding in one piece, and keeps no copy."""

import tracemalloc
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.formats.json import texts
from app.formats.json.decoder import MessageDecoder
from app.formats.json.texts import SLICE, first_wrong_byte, has_suspicious_escape


class Message(msgspec.Struct):
    key: str


GOOD = ("a", "é", "語", "😀")
CUT_OR_WRONG = "80 c0 c3 e080 e8aa eda0 eda080 f09f f09f98 f490 f5 ff"
PIECES = st.sampled_from([*(text.encode() for text in GOOD), *map(bytes.fromhex, CUT_OR_WRONG.split())])
BODIES = st.lists(PIECES | st.binary(max_size=3), max_size=12).map(b"".join)


def in_one_piece(body: bytes) -> int | None:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


@given(BODIES, st.integers(4, 9))
@example(b"aaa\xe8", 4)
@example(b"aaa\xf0\x9f\x98\x80\xf0\x9f", 4)
def test_the_first_wrong_byte_is_that_of_decoding_in_one_piece(body: bytes, size: int) -> None:
    with patch.object(texts, "SLICE", size):
        assert first_wrong_byte(body) == in_one_piece(body)


@given(BODIES, st.integers(-4, 4))
def test_slices_of_their_real_length_are_cut_as_well(middle: bytes, shift: int) -> None:
    body = b"a" * (SLICE + shift) + middle + b"a" * SLICE
    assert first_wrong_byte(body) == in_one_piece(body)


def test_a_large_body_with_one_emoji_is_checked_in_little_memory() -> None:
    message = b'{"key":"a","skipped":"' + b"a" * 2**16 + b'"}'
    body = b"\n".join([message] * 64 + [message.replace(b"aa", "😀".encode(), 1)])
    tracemalloc.start()
    try:
        assert first_wrong_byte(body) is None
        assert MessageDecoder(Message).decode_well_formed(body) == [Message("a")] * 65
        assert tracemalloc.get_traced_memory()[1] < len(body) // 4  # as one text it would take four times its bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("escape", "expected"),
    [
        (rb"\u0000", True),
        (rb"\ud83d\ude00", True),
        (rb"\uDBFF", True),
        (rb"\\u0000", True),  # may be wrong
        (rb"\u00e9\u0022\u000a\ud7ff", False),
        (rb"u0000 ud800", False),
    ],
)
def test_an_escape_of_what_is_no_text_is_suspicious(escape: bytes, *, expected: bool) -> None:
    assert has_suspicious_escape(b'{"a":"' + escape + b'"}') is expected
