"""Streams for splitters: a body in pieces of any size."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from hypothesis import strategies as st

from mirrorgate.chunking.chunks import Chunk
from mirrorgate.errors import RejectedInput

Messages = TypeVar("Messages")

SIZES = st.lists(st.integers(0, 9), max_size=4).map(lambda sizes: [*sizes, 1]) | st.integers(1, 300).map(lambda n: [n])
"""Sizes of pieces: a few of any size and then single bytes, or all of one size."""


def pieces(body: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """Yield the body in pieces of these sizes, repeating the last size; a piece can be empty."""
    position = number = 0
    while position < len(body):
        size = sizes[min(number, len(sizes) - 1)]
        yield body[position : position + size]
        position, number = position + size, number + 1


def check_chunks(chunks: Sequence[Chunk], body: bytes, limit: int, first: int = 0) -> None:
    """Check that chunks are adjacent, hold the body's bytes, and exceed the limit only for a single message."""
    for before, chunk in zip([None, *chunks], chunks, strict=False):
        assert chunk.first == (before.after if before else first)
        assert chunk.messages > 0
        assert body[chunk.start : chunk.end] in chunk.body
        assert chunk.body.index(body[chunk.start : chunk.end], chunk.opening) == chunk.opening
        assert chunk.line == body.count(b"\n", 0, chunk.start) + 1
        assert len(chunk.body) <= limit or chunk.messages == 1


def outcome(read: Callable[[], Messages]) -> Messages | None:
    """Return what is read, None for a rejection."""
    try:
        return read()
    except RejectedInput:
        return None
