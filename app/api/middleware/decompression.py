"""gzip and zstd bodies, expanded piece by piece: the work is bounded, whatever comes of it."""

import io
import zlib
from collections.abc import Callable
from typing import Final, Protocol

import zstandard

from app.errors import Code, RejectedInput

MAX_MEMBERS: Final = 10_000
"""gzip members or zstd frames of a body: an empty one is work that the size of the result does not bound."""

_MAX_WINDOW_BYTES: Final = 2**27
_GZIP: Final = 31
_PIECE: Final = 2**8
"""Compressed bytes that are expanded at once: at most 8 MiB with zstd, 256 KiB with gzip."""


class _Decompressor(Protocol):
    """One gzip member or zstd frame on its way."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: memoryview, /) -> bytes: ...


def _gzip_members() -> Callable[[], _Decompressor]:
    return lambda: zlib.decompressobj(wbits=_GZIP)


def _zstd_frames() -> Callable[[], _Decompressor]:
    """All frames of a body share one context: a new one costs as much as 60 empty frames."""
    return zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj


_STARTS: Final[dict[str, Callable[[], Callable[[], _Decompressor]]]] = {"gzip": _gzip_members, "zstd": _zstd_frames}
ENCODINGS: Final = frozenset(_STARTS)


def decompress(body: bytes, encoding: str, hold: Callable[[int], None]) -> bytes:
    """One or more whole gzip members or zstd frames, and nothing behind them.

    It reads small pieces, and asks `hold` for all that has come of them, long before a bomb fills the memory. Raises
    RejectedInput `bad_encoding`, also for more members or frames than anybody writes, and what `hold` raises.
    """
    try:
        return _decompress(body, _STARTS[encoding](), hold)
    except (zlib.error, zstandard.ZstdError, ValueError) as error:
        raise RejectedInput(Code.BAD_ENCODING, f"the body is not valid {encoding}") from error


def _decompress(body: bytes, start: Callable[[], _Decompressor], hold: Callable[[int], None]) -> bytes:
    """Raises ValueError where the last member or frame is cut off."""
    expanded = io.BytesIO()
    position = members = 0
    view = memoryview(body)
    while position < len(view):
        members += 1
        if members > MAX_MEMBERS:
            detail = f"the body has more than {MAX_MEMBERS} gzip members or zstd frames"
            raise RejectedInput(Code.BAD_ENCODING, detail)
        decompressor = start()
        while not decompressor.eof:
            piece = view[position : position + _PIECE]
            if not piece:
                raise ValueError("truncated")
            part = decompressor.decompress(piece)
            position += len(piece)
            hold(expanded.tell() + len(part))
            expanded.write(part)
        position -= len(decompressor.unused_data)
    return expanded.getvalue()
