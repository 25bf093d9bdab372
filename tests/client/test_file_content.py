"""Contents of files: expanded while they are read, and cut into requests from which a file resumes."""

import gzip
import json
import zlib
from collections.abc import Callable
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate.chunking.chunks import Limits
from mirrorgate.chunking.json_messages import split_json
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.file_content import HashedStream, Mark, StreamCutter, decompress, with_lookahead
from mirrorgate_bridge.objects.settings import StreamReader

SKIPPABLE = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
PACKERS: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstandard.compress}
packers = pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    """Return the data cut at these positions, modulo its length; equal ones make an empty piece."""
    places = sorted([0, len(data), *(cut % (len(data) + 1) for cut in cuts)])
    return [data[start:end] for start, end in pairwise(places)]


cuts = st.lists(st.integers(0, 10_000), max_size=8)


@packers
@given(members=st.lists(st.binary(max_size=3_000), min_size=1, max_size=4), cuts=cuts)
def test_all_members_come_out_whatever_the_pieces(
    pack: Callable[[bytes], bytes], members: list[bytes], cuts: list[int]
) -> None:
    packed = b"".join(map(pack, members))
    assert b"".join(decompress(pieces(packed, cuts))) == b"".join(members)


@given(st.binary(max_size=100).filter(lambda data: data[:2] != b"\x1f\x8b"), cuts)
def test_what_is_not_compressed_passes_as_it_is(data: bytes, cuts: list[int]) -> None:
    assert b"".join(decompress(pieces(data, cuts))) == data


@packers
def test_an_empty_piece_before_the_first_byte_changes_nothing(pack: Callable[[bytes], bytes]) -> None:
    assert b"".join(decompress([b"", pack(b"a")])) == b"a"


def test_frames_without_data_are_passed_over() -> None:
    packed = SKIPPABLE + zstandard.compress(b"a") + SKIPPABLE + zstandard.compress(b"b") + SKIPPABLE
    assert b"".join(decompress([packed])) == b"ab"


@packers
@given(data=st.binary(min_size=1, max_size=3_000), cut=st.integers(1, 10_000), cuts=cuts)
def test_a_stream_that_was_cut_off_is_rejected_after_what_it_holds(
    pack: Callable[[bytes], bytes], data: bytes, cut: int, cuts: list[int]
) -> None:
    whole, last = pack(b"first"), pack(data)
    short = whole + last[: 4 + cut % (len(last) - 4)]
    out = b""
    with pytest.raises(RejectedInput, match="ends in the middle") as raised:
        for chunk in decompress(pieces(short, cuts)):
            out += chunk
    assert raised.value.code is Code.BAD_ENCODING
    assert (b"first" + data).startswith(out)
    assert out.startswith(b"first")


@packers
def test_a_damaged_stream_is_rejected_with_the_place(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(bytes(range(256)) * 50)
    with pytest.raises(RejectedInput, match=rf"damaged within 1024 bytes of its compressed byte {len(packed)}"):
        list(decompress([packed, b"something else"]))
    with pytest.raises(RejectedInput, match="is damaged"):
        list(decompress([packed[:-3] + bytes([packed[-3] ^ 1]) + packed[-2:] + b"." * 10]))


@packers
def test_what_expands_enormously_comes_in_bounded_chunks(pack: Callable[[bytes], bytes]) -> None:
    size = 300 * 2**20
    if pack is gzip.compress:
        packer = zlib.compressobj(wbits=31)
        packed = b"".join([packer.compress(bytes(2**20)) for _ in range(300)]) + packer.flush()
    else:
        stream = zstandard.ZstdCompressor().compressobj()
        packed = b"".join([stream.compress(bytes(2**20)) for _ in range(300)]) + stream.flush()
    longest = total = 0
    for chunk in decompress([packed]):
        longest, total = max(longest, len(chunk)), total + len(chunk)
    assert total == size
    assert longest < 50 * 2**20


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
