"""Decompress streams that may be gzip or zstd, recognized by their first bytes.

Input is decompressed in small pieces, so that a file with an extreme compression ratio cannot fill the memory.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import zstandard

from app.errors import Code, RejectedInput

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
"""Magic numbers of zstd's skippable frames, which some programs put before, between and after the others."""
_MAX_MAGIC_BYTES: Final = 4
_PIECE_BYTES: Final = 2**10
"""Compressed bytes per step. They decompress to at most 44 MB with zstd and 1 MB with gzip."""
_BLOCK_BYTES: Final = 2**18
_MAX_WINDOW_BYTES: Final = 2**27
"""Maximum memory that a zstd frame may request; `zstd --long` requests this much."""


class _Decompressor(Protocol):
    """Decompresses one gzip member or one zstd frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def decompress(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the blocks of a stream, decompressed if it is compressed: all of its members or frames.

    Raises RejectedInput `bad_encoding` for a damaged or truncated stream, after yielding the bytes before the damage.
    """
    stream = iter(blocks)
    start = b""
    while len(start) < _MAX_MAGIC_BYTES and (block := next(stream, b"")):
        start += block
    if start.startswith(_GZIP):
        return _decompress_with("gzip", lambda: zlib.decompressobj(wbits=31), start, stream)
    if start.startswith((_ZSTD, *_SKIPPABLE)):
        return _decompress_with(
            "zstd", lambda: zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj(), start, stream
        )
    return _following(start, stream)


def _following(start: bytes, stream: Iterator[bytes]) -> Iterator[bytes]:
    if start:
        yield start
    yield from stream


def _decompress_with(
    name: str, begin: Callable[[], _Decompressor], start: bytes, stream: Iterator[bytes]
) -> Iterator[bytes]:
    decompressor, read, ready = begin(), 0, b""
    within = False
    for block in _following(start, stream):
        position = 0
        while position < len(block):
            if decompressor.eof:
                decompressor, within = begin(), False
            piece = block[position : position + _PIECE_BYTES]
            try:
                ready += decompressor.decompress(piece)
            except (zlib.error, zstandard.ZstdError) as error:
                if ready:
                    yield ready
                raise _damaged(name, read + position) from error
            position += len(piece) - len(decompressor.unused_data)
            within = True
            if len(ready) >= _BLOCK_BYTES:
                yield ready
                ready = b""
        read += len(block)
        if ready:
            yield ready
            ready = b""
    if within and not decompressor.eof:
        detail = f"the {name} stream ends in the middle of its data, after {read} compressed bytes"
        raise RejectedInput(
            Code.BAD_ENCODING, detail, remedy="Check whether the file was truncated, and get the complete file."
        )


def _damaged(name: str, position: int) -> RejectedInput:
    detail = f"the {name} stream is damaged within {_PIECE_BYTES} bytes of its compressed byte {position}"
    return RejectedInput(Code.BAD_ENCODING, detail, remedy=f"Check it with `{name} -t`, and get the file again.")
