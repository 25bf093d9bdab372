"""Cut the content of an object into requests, and resume in its middle only if what was sent is unchanged.

Pieces have the index of their first message, from 0, and a hash of the decompressed content before their end. A
position keeps both, so a resumed object is checked before its next message is sent.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

from app.bridge.objects.marks import Mark
from app.client.chunking.chunks import Limits, Splitter
from app.client.send.decompress import decompress
from app.errors import Code, RejectedInput

CHANGED_REMEDY = "Restore the part that was sent, or delete the object to continue with the next one."


@dataclass(frozen=True, slots=True)
class Piece:
    """One request of an object: its messages from `first` to before `after`."""

    body: bytes
    first: int
    after: int
    end: int
    content: str
    not_counted: int = 0
    """Messages at the start of the body that are no messages of the object."""


class ObjectReader(Protocol):
    """Reads objects of one format."""

    @property
    def content_type(self) -> str:
        """Media type of the bodies."""

    def pieces(self, blocks: Iterable[bytes], limits: Limits, mark: Mark | None) -> Iterator[Piece]:
        """Yield the pieces after `mark`, which is in this object, or all. Raises RejectedInput."""


class HashedStream:
    """Hashes the decompressed bytes of an object up to positions that only grow.

    What lies before `known_end` is hashed as it is read, so that a large part that was sent takes no memory.
    """

    def __init__(self, blocks: Iterable[bytes], known_end: int = 0) -> None:
        self._blocks = blocks
        self._known_end = known_end
        self._hash = sha256()
        self._hashed = 0
        self._ahead = bytearray()

    def __iter__(self) -> Iterator[bytes]:
        for block in decompress(self._blocks):
            self._ahead += block
            if self._hashed < self._known_end:
                self._advance(min(self._known_end, self._hashed + len(self._ahead)))
            yield block

    def digest_at(self, end: int) -> str:
        """Return the hash of the content before `end`, which was read already; another text if it is shorter."""
        if end > self._hashed + len(self._ahead):
            return "too short"
        self._advance(end)
        return self._hash.hexdigest()[:16]

    def _advance(self, end: int) -> None:
        count = end - self._hashed
        with memoryview(self._ahead) as ahead:
            self._hash.update(ahead[:count])
        del self._ahead[:count]
        self._hashed = end


@dataclass(frozen=True)
class StreamReader:
    """Reads formats that a splitter cuts: JSON and CSV."""

    split: Splitter
    content_type: str = "application/json"

    def pieces(self, blocks: Iterable[bytes], limits: Limits, mark: Mark | None) -> Iterator[Piece]:
        """Yield the pieces after `mark`, which is in this object, or all. Raises RejectedInput."""
        stream = HashedStream(blocks, 0 if mark is None else mark.end)
        is_checked = mark is None
        for chunk in self.split(stream, limits, 0 if mark is None else mark.next_message or 0):
            if mark is not None and not is_checked:
                check_unchanged(stream.digest_at(mark.end), mark)
                is_checked = True
            yield Piece(chunk.body, chunk.first, chunk.after, chunk.end, stream.digest_at(chunk.end))
        if mark is not None and not is_checked:
            check_unchanged(stream.digest_at(mark.end), mark)


def check_unchanged(content: str, mark: Mark) -> None:
    """Raise RejectedInput `source_position_lost` if the part of an object that was sent is not what it was."""
    if content != mark.content:
        detail = f"it has changed in its first {mark.next_message} messages, which were sent before"
        raise RejectedInput(Code.SOURCE_POSITION_LOST, detail, remedy=CHANGED_REMEDY)


def with_lookahead(pieces: Iterator[Piece]) -> Iterator[tuple[Piece, bool]]:
    """Yield each piece, and whether it is the last one. A RejectedInput follows the piece before it."""
    previous: Piece | None = None
    try:
        for piece in pieces:
            if previous is not None:
                yield previous, False
            previous = piece
    except RejectedInput:
        if previous is not None:
            yield previous, False
        raise
    if previous is not None:
        yield previous, True
