"""Streams for splitters: a body in pieces of any size."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from app.client.chunking.parts import Part
from app.errors import RejectedInput

Messages = TypeVar("Messages")


def pieces(body: bytes, sizes: Sequence[int]) -> Iterator[bytes]:
    """The body in pieces of these sizes, the last size again and again; a piece may be empty."""
    place = number = 0
    while place < len(body):
        size = sizes[min(number, len(sizes) - 1)]
        yield body[place : place + size]
        place, number = place + size, number + 1


def check_parts(parts: Sequence[Part], body: bytes, limit: int, first: int = 0) -> None:
    """The parts follow each other, hold the body's bytes, and only a single message is above the limit."""
    for before, part in zip([None, *parts], parts, strict=False):
        assert part.first == (before.after if before else first)
        assert part.messages > 0
        assert body[part.start : part.end] in part.body
        assert part.body.index(body[part.start : part.end], part.opening) == part.opening
        assert part.line == body.count(b"\n", 0, part.start) + 1
        assert len(part.body) <= limit or part.messages == 1


def outcome(read: Callable[[], Messages]) -> Messages | None:
    """What is read, None for a rejection."""
    try:
        return read()
    except RejectedInput:
        return None
