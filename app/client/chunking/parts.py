"""Consecutive messages of a stream as request bodies, and where in the stream each of them stands."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from app.client.chunking.window import Window
from app.errors import RejectedInput


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a part may be. A single message above `part_bytes` is a part of its own."""

    part_bytes: int
    part_messages: int | None = None
    message_bytes: int = 64 * 2**20
    """A message that has not ended after so many bytes is taken for a broken file."""
    first_end: int | None = None
    """Where in the stream the first part ends, whatever its size: so that it is cut where it was cut before."""


class Extent(NamedTuple):
    """Bytes of the stream that stay together, and how many messages they are."""

    start: int
    end: int
    messages: int


class Frame(NamedTuple):
    """What makes consecutive messages a body: it stands before and after them in every part."""

    opening: bytes
    closing: bytes


@dataclass(frozen=True, slots=True)
class Part:
    """One request body; without its frame it is `start` to `end` of the stream."""

    body: bytes
    first: int
    """The index of its first message in the stream, from 0."""
    messages: int
    start: int
    end: int
    line: int
    """The line of the stream on which `start` is, from 1."""
    opening: int
    """How many bytes the frame puts before the first message."""

    @property
    def after(self) -> int:
        """The index of the first message behind it."""
        return self.first + self.messages

    def byte_in_stream(self, place: int) -> int:
        """The place in the stream of a byte of the body."""
        return max(self.start, self.start + place - self.opening)

    def line_in_stream(self, line: int) -> int:
        """The line of the stream that a line of the body is, both from 1."""
        return max(self.line, self.line + line - 1 - self.body.count(b"\n", 0, self.opening))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message stands: its index from 0, its first byte from 0 and that byte's line from 1."""

    message: int
    byte: int
    line: int


Splitter: TypeAlias = Callable[[Iterable[bytes], Limits, int], Iterator[Part]]
"""Chunks of a stream, limits, and how many messages to leave out at the start -> its parts in order.

It raises RejectedInput where the stream has no message borders, after the parts before that place.
"""


def gather(extents: Iterable[Extent], window: Window, limits: Limits, skip: int, frame: Frame) -> Iterator[Part]:
    """As many consecutive extents in each part as the limits let in. `extents` reads through `window`; what it
    refuses to read comes after everything before that."""
    gathered = _Gathered(window, limits, frame)
    rejection: RejectedInput | None = None
    try:
        for extent in extents:
            if gathered.messages and not gathered.has_room_for(extent):
                yield gathered.cut()
            if gathered.messages or (extent.messages and gathered.first >= skip):
                gathered.add(extent)
            else:
                gathered.leave_out(extent)
            if gathered.messages and gathered.is_full:
                yield gathered.cut()
    except RejectedInput as error:
        rejection = error
    if gathered.messages:
        yield gathered.cut()
    if rejection is not None:
        raise rejection


class _Gathered:
    """Extents that will be one part."""

    def __init__(self, window: Window, limits: Limits, frame: Frame) -> None:
        self._window, self._limits, self._frame = window, limits, frame
        self._end_known = limits.first_end
        self._start = self._end = 0
        self.first = self.messages = 0

    @property
    def is_full(self) -> bool:
        if self._end_known is not None:
            return self._end >= self._end_known
        return self.messages == self._limits.part_messages

    def has_room_for(self, extent: Extent) -> bool:
        if self._end_known is not None:
            return extent.end <= self._end_known
        size = len(self._frame.opening) + extent.end - self._start + len(self._frame.closing)
        most = self._limits.part_messages
        return size <= self._limits.part_bytes and (most is None or self.messages + extent.messages <= most)

    def add(self, extent: Extent) -> None:
        if not self.messages:
            self._start = extent.start
        self._end = extent.end
        self.messages += extent.messages

    def leave_out(self, extent: Extent) -> None:
        self.first += extent.messages
        self._window.forget(extent.end)

    def cut(self) -> Part:
        self._window.forget(self._start)
        line, opening = self._window.line, self._frame.opening
        body = opening + self._window.text(self._start, self._end) + self._frame.closing
        self._window.forget(self._end)
        part = Part(body, self.first, self.messages, self._start, self._end, line, len(opening))
        self.first, self.messages, self._end_known = part.after, 0, None
        return part


def places_of(part: Part, indexes: Collection[int], split: Splitter) -> dict[int, Place]:
    """Where the messages with these indexes within the part stand in the stream."""
    places: dict[int, Place] = {}
    for single in split([part.body], Limits(part_bytes=1), 0):
        for index in indexes:
            if single.first <= index < single.after:
                byte, line = part.byte_in_stream(single.start), part.line_in_stream(single.line)
                places[index] = Place(part.first + index, byte, line)
    return places
