"""Compressed streams are expanded while they are read; damaged ones are rejected after all data before the damage."""

import gzip
import zlib
from collections.abc import Callable
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from mirrorgate.errors import Code, RejectedInput
from mirrorgate.file_content import decompress

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
