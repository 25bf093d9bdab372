"""Decompresses gzip and zstd bodies in small chunks, so that memory and work stay bounded for any input."""

import io
import zlib
from collections.abc import Callable
from typing import Final, Protocol

import zstandard

from app.errors import Code, RejectedInput

MAX_MEMBERS: Final = 10_000
"""gzip members or zstd frames of a body: an empty one costs work that the size of the result does not bound."""

_MAX_WINDOW_BYTES: Final = 2**27
_GZIP: Final = 31
"""zlib's `wbits` for a gzip member with the largest window."""

_CHUNK_BYTES: Final = 2**8
"""Compressed bytes that are expanded at a time: at most to 8 MiB with zstd, 256 KiB with gzip."""


class _Decompressor(Protocol):
    """The decompressor of one gzip member or zstd frame."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: memoryview, /) -> bytes: ...


def _gzip_decompressors() -> Callable[[], _Decompressor]:
    return lambda: zlib.decompressobj(wbits=_GZIP)


def _zstd_decompressors() -> Callable[[], _Decompressor]:
    """Return a factory that shares one context among all frames: a new context costs as much as 60 empty frames."""
    return zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj


_DECOMPRESSORS: Final[dict[str, Callable[[], Callable[[], _Decompressor]]]] = {
    "gzip": _gzip_decompressors,
    "zstd": _zstd_decompressors,
}
ENCODINGS: Final = frozenset(_DECOMPRESSORS)


def decompress(body: bytes, encoding: str, reserve: Callable[[int], None]) -> bytes:
    """Return the content of one or more complete gzip members or zstd frames, with nothing after them.

    `reserve` is called with the total size before each chunk is kept, long before a decompression bomb fills the
    memory. Raises RejectedInput `bad_encoding`, also for too many members or frames, and what `reserve` raises.
    """
    try:
        return _decompress(body, _DECOMPRESSORS[encoding](), reserve)
    except (zlib.error, zstandard.ZstdError, ValueError) as error:
        raise RejectedInput(Code.BAD_ENCODING, f"the body is not valid {encoding}") from error


def _decompress(body: bytes, new_decompressor: Callable[[], _Decompressor], reserve: Callable[[int], None]) -> bytes:
    """Raise ValueError if the last member or frame is truncated."""
    expanded = io.BytesIO()
    position = members = 0
    view = memoryview(body)
    while position < len(view):
        members += 1
        if members > MAX_MEMBERS:
            detail = f"the body has more than {MAX_MEMBERS} gzip members or zstd frames"
            raise RejectedInput(Code.BAD_ENCODING, detail)
        decompressor = new_decompressor()
        while not decompressor.eof:
            chunk = view[position : position + _CHUNK_BYTES]
            if not chunk:
                raise ValueError("truncated")
            part = decompressor.decompress(chunk)
            position += len(chunk)
            reserve(expanded.tell() + len(part))
            expanded.write(part)
        position -= len(decompressor.unused_data)
    return expanded.getvalue()
