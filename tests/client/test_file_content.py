"""Requests cut from files: whatever the cuts, a file resumes after its durable messages, and only there."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate.chunking.chunks import Limits
from mirrorgate.chunking.json_messages import split_json
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.file_content import HashedStream, Mark, StreamCutter, with_lookahead
from mirrorgate_bridge.objects.settings import StreamReader

READER = StreamReader(StreamCutter(split_json))


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
    st.integers(1, 5),
    st.integers(1, 5),
    st.data(),
)
def test_an_object_resumes_exactly_after_any_piece(
    numbers: list[int], is_array: bool, is_packed: bool, first: int, second: int, data: st.DataObject
) -> None:
    messages = [json.dumps({"id": number}) for number in numbers]
    text = (f"[{', '.join(messages)}]" if is_array else "\n".join(messages)).encode()
    blocks = [gzip.compress(text)] if is_packed else [text]
    pieces = list(READER.pieces(blocks, Limits(10**6, first), None))
    piece = data.draw(st.sampled_from(pieces))
    mark = Mark("k", "e", 0, piece.after, piece.end, piece.content)
    rest = list(READER.pieces(blocks, Limits(10**6, second), mark))
    sent = [pieces[: pieces.index(piece) + 1], rest]
    assert [one.first for part in sent for one in part] == sorted({one.first for part in sent for one in part})
    ids = [entry["id"] for part in sent for one in part for entry in decoded(one.body)]
    assert ids == numbers
    changed = [text.replace(b"id", b"no", 1)]
    with pytest.raises(RejectedInput, match="has changed in its first") as raised:
        list(READER.pieces(changed, Limits(10**6, second), mark))
    assert raised.value.code is Code.SOURCE_POSITION_LOST


def decoded(body: bytes) -> list[dict[str, int]]:
    if body.startswith(b"["):
        entries: list[dict[str, int]] = json.loads(body)
        return entries
    return [json.loads(line) for line in body.splitlines()]


def test_what_was_sent_is_not_held_in_memory() -> None:
    stream = HashedStream([b"x" * 1000] * 100, known_end=95_000)
    held = [len(stream._ahead) for _ in stream]
    assert max(held) <= 5_000


def test_the_last_piece_is_known_and_an_error_comes_after_the_pieces_before_it() -> None:
    seen: list[tuple[int, bool]] = []
    with pytest.raises(RejectedInput):
        for piece, is_last in with_lookahead(READER.pieces([b'{"a":1}{"b":2}{"c'], Limits(10**6, 1), None)):
            seen.append((piece.first, is_last))
    assert seen == [(0, False), (1, False)]
    whole = with_lookahead(READER.pieces([b'{"a":1}{"b":2}'], Limits(10**6, 1), None))
    assert [is_last for _, is_last in whole] == [False, True]
