"""Streams that may be compressed with gzip or zstd -> their bytes, expanded on the way; told by their first bytes.

Only small pieces are expanded at once, so that a file that expands enormously does not fill the memory.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol

import zstandard

from app.errors import Code, RejectedInput

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_SKIPPABLE: Final = tuple(bytes([first]) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
"""Frames without data, which some programs put before, between and behind the others."""
_LONGEST_MAGIC: Final = 4
_PIECE: Final = 2**10
"""Compressed bytes that are expanded at once: at most 44 MB with zstd, 1 MB with gzip."""
_CHUNK: Final = 2**18
_WINDOW: Final = 2**27
"""The most memory that a zstd frame may ask for, as `zstd --long` makes it."""


class _Decompressor(Protocol):
    """One gzip member or zstd frame on its way."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def expanded(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks of a stream, expanded if it is compressed: all members or frames of it, one after the other.

    Raises RejectedInput `bad_encoding`, after the bytes before that place, where the stream is damaged or cut off.
    """
    stream = iter(chunks)
    start = b""
    while len(start) < _LONGEST_MAGIC and (chunk := next(stream, b"")):
        start += chunk
    if start.startswith(_GZIP):
        return _expand("gzip", lambda: zlib.decompressobj(wbits=31), start, stream)
    if start.startswith((_ZSTD, *_SKIPPABLE)):
        return _expand(
            "zstd", lambda: zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj(), start, stream
        )
    return _following(start, stream)


def _following(start: bytes, stream: Iterator[bytes]) -> Iterator[bytes]:
    if start:
        yield start
    yield from stream


def _expand(name: str, begin: Callable[[], _Decompressor], start: bytes, stream: Iterator[bytes]) -> Iterator[bytes]:
    decompressor, read, ready = begin(), 0, b""
    within = False
    for chunk in _following(start, stream):
        place = 0
        while place < len(chunk):
            if decompressor.eof:
                decompressor, within = begin(), False
            piece = chunk[place : place + _PIECE]
            try:
                ready += decompressor.decompress(piece)
            except (zlib.error, zstandard.ZstdError) as error:
                if ready:
                    yield ready
                raise _damaged(name, read + place) from error
            place += len(piece) - len(decompressor.unused_data)
            within = True
            if len(ready) >= _CHUNK:
                yield ready
                ready = b""
        read += len(chunk)
        if ready:
            yield ready
            ready = b""
    if within and not decompressor.eof:
        detail = f"the {name} stream ends in the middle of its data, after {read} compressed bytes"
        raise RejectedInput(Code.BAD_ENCODING, detail, remedy="Check whether the file was cut off, and get all of it.")


def _damaged(name: str, place: int) -> RejectedInput:
    detail = f"the {name} stream is damaged within {_PIECE} bytes of its compressed byte {place}"
    return RejectedInput(Code.BAD_ENCODING, detail, remedy=f"Try it with `{name} -t`, and get the file again.")
