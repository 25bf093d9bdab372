"""Group consecutive messages of a stream into request bodies, and map positions in a body back to the stream.

A buffer holds the part of the stream that is still needed, addressed by positions in the whole stream.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from mirrorgate.errors import Code, RejectedInput


class StreamBuffer:
    """The bytes from `start` to `end` of a stream; `read_more` appends to them, `discard` drops the front."""

    def __init__(self, blocks: Iterable[bytes], max_message_bytes: int) -> None:
        self._blocks = iter(blocks)
        self._max_message_bytes = max_message_bytes
        self.data = bytearray()
        self.start = 0
        self.line = 1
        """The line of the stream that contains `start`, from 1."""

    @property
    def end(self) -> int:
        """The position after the last byte held."""
        return self.start + len(self.data)

    def read_more(self, since: int, at_least: int = 1) -> bool:
        """Append `at_least` more bytes to the message that starts at `since`; return False at the end of the stream.

        Raises RejectedInput `body_too_large` for a message above the maximum size.
        """
        if self.end - since > self._max_message_bytes:
            detail = f"the message that starts at byte {since} does not end within {self._max_message_bytes} bytes"
            raise RejectedInput(Code.BODY_TOO_LARGE, detail, remedy="Check how the file is quoted at that byte.")
        before = self.end
        for block in self._blocks:
            self.data += block
            if self.end - before >= max(1, at_least):
                break
        return self.end > before

    def discard(self, until: int) -> None:
        """Drop the bytes before `until`."""
        length = until - self.start
        if length > 0:
            self.line += self.data.count(b"\n", 0, length)
            del self.data[:length]
            self.start = until

    def byte(self, position: int) -> int:
        """Return the byte at a position."""
        return self.data[position - self.start]

    def text(self, start: int, end: int) -> bytes:
        """Return the bytes between two positions."""
        with memoryview(self.data) as held:
            return bytes(held[start - self.start : end - self.start])

    def match(self, pattern: re.Pattern[bytes], position: int) -> int | None:
        """Return the end of a match that starts exactly at `position`; None if there is none."""
        found = pattern.match(self.data, position - self.start)
        return None if found is None else found.end() + self.start

    def rfind(self, sign: bytes, start: int) -> int:
        """Return the last position of `sign` at or after `start`; `start` - 1 if there is none."""
        found = self.data.rfind(sign, start - self.start)
        return start - 1 if found < 0 else found + self.start

    def line_of(self, position: int) -> int:
        """Return the line of the stream that contains a position, from 1."""
        return self.line + self.data.count(b"\n", 0, position - self.start)


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum size of a chunk. A single message above `max_bytes` becomes a separate chunk."""

    max_bytes: int
    max_messages: int | None = None
    max_message_bytes: int = 64 * 2**20
    """A message that does not end within this many bytes is rejected: its file is broken."""


class Extent(NamedTuple):
    """A range of the stream that must not be cut, and its number of messages."""

    start: int
    end: int
    messages: int


class Frame(NamedTuple):
    """Bytes before and after the messages of every chunk, which make them a valid body."""

    opening: bytes
    closing: bytes


@dataclass(frozen=True, slots=True)
class Chunk:
    """One request body. Without its frame it is the range `start` to `end` of the stream."""

    body: bytes
    first: int
    """The index of the first message in the stream, from 0."""
    messages: int
    start: int
    end: int
    line: int
    """The line of the stream that contains `start`, from 1."""
    opening: int
    """Number of bytes that the frame puts before the first message."""

    @property
    def after(self) -> int:
        """The index of the first message after the chunk."""
        return self.first + self.messages

    def byte_in_stream(self, position: int) -> int:
        """Return the position in the stream of a byte of the body."""
        return max(self.start, self.start + position - self.opening)

    def line_in_stream(self, line: int) -> int:
        """Return the line of the stream for a line of the body, both from 1."""
        return max(self.line, self.line + line - 1 - self.body.count(b"\n", 0, self.opening))


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A message's position in the stream: its index and first byte, from 0, and the line of that byte, from 1."""

    message: int
    byte: int
    line: int


Splitter: TypeAlias = Callable[[Iterable[bytes], Limits, int], Iterator[Chunk]]
"""Cuts the blocks of a stream into chunks within limits, without the first `skip` messages.

Raises RejectedInput where the stream cannot be cut, after yielding every chunk before that position.
"""


def group_into_chunks(
    extents: Iterable[Extent], buffer: StreamBuffer, limits: Limits, skip: int, frame: Frame
) -> Iterator[Chunk]:
    """Fill each chunk with as many consecutive extents as the limits allow.

    `extents` reads through `buffer`. A RejectedInput that it raises is raised again after the chunks before it.
    """
    open_chunk = _OpenChunk(buffer, limits, frame)
    rejection: RejectedInput | None = None
    try:
        for extent in extents:
            if open_chunk.messages and not open_chunk.has_space_for(extent):
                yield open_chunk.cut()
            if open_chunk.messages or (extent.messages and open_chunk.first >= skip):
                open_chunk.add(extent)
            else:
                open_chunk.skip(extent)
            if open_chunk.messages and open_chunk.is_full:
                yield open_chunk.cut()
    except RejectedInput as error:
        rejection = error
    if open_chunk.messages:
        yield open_chunk.cut()
    if rejection is not None:
        raise rejection


class _OpenChunk:
    """The chunk that is being filled."""

    def __init__(self, buffer: StreamBuffer, limits: Limits, frame: Frame) -> None:
        self._buffer, self._limits, self._frame = buffer, limits, frame
        self._start = self._end = 0
        self.first = self.messages = 0

    @property
    def is_full(self) -> bool:
        return self.messages == self._limits.max_messages

    def has_space_for(self, extent: Extent) -> bool:
        size = len(self._frame.opening) + extent.end - self._start + len(self._frame.closing)
        max_messages = self._limits.max_messages
        return size <= self._limits.max_bytes and (
            max_messages is None or self.messages + extent.messages <= max_messages
        )

    def add(self, extent: Extent) -> None:
        if not self.messages:
            self._start = extent.start
        self._end = extent.end
        self.messages += extent.messages

    def skip(self, extent: Extent) -> None:
        self.first += extent.messages
        self._buffer.discard(extent.end)

    def cut(self) -> Chunk:
        self._buffer.discard(self._start)
        line, opening = self._buffer.line, self._frame.opening
        body = opening + self._buffer.text(self._start, self._end) + self._frame.closing
        self._buffer.discard(self._end)
        chunk = Chunk(body, self.first, self.messages, self._start, self._end, line, len(opening))
        self.first, self.messages = chunk.after, 0
        return chunk


def positions_of(chunk: Chunk, indexes: Collection[int], split: Splitter) -> dict[int, StreamPosition]:
    """Return the positions in the stream of messages of a chunk, by their index within the chunk."""
    positions: dict[int, StreamPosition] = {}
    for single in split([chunk.body], Limits(max_bytes=1), 0):
        for index in indexes:
            if single.first <= index < single.after:
                byte, line = chunk.byte_in_stream(single.start), chunk.line_in_stream(single.line)
                positions[index] = StreamPosition(chunk.first + index, byte, line)
    return positions
