"""Bounds-checked reading of flatbuffers, just enough for Arrow's messages.

Every position is checked against the content before it is used, and nothing is copied that a caller does not ask for:
tables and texts of a hostile flatbuffer may be shared a million times, so whoever walks them bounds how many.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

_OFFSET: Final = struct.Struct("<I")
_TO_VTABLE: Final = struct.Struct("<i")
_SIZE_IN_VTABLE: Final = struct.Struct("<H")
_BYTE: Final = struct.Struct("<B")
_SHORT: Final = struct.Struct("<h")
_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")
_VTABLE_HEAD_BYTES: Final = 4
_WORD_BYTES: Final = 8


class Damaged(ValueError):
    """The bytes are no flatbuffer of the expected form."""


class FlatTable:
    """One table of a flatbuffer. Fields are named by their slot; an absent one has its default. Raises Damaged."""

    __slots__ = ("_at", "_content", "_vtable", "_vtable_size")

    def __init__(self, content: bytes, at: int) -> None:
        self._content = content
        self._at = at
        self._vtable = at - _unpack(_TO_VTABLE, content, at)
        self._vtable_size = _unpack(_SIZE_IN_VTABLE, content, self._vtable)
        if self._vtable_size < _VTABLE_HEAD_BYTES:
            raise Damaged("a table has no layout")

    @classmethod
    def root(cls, content: bytes) -> "FlatTable":
        """The table that the first four bytes point at."""
        return cls(content, _unpack(_OFFSET, content, 0))

    def uint8(self, slot: int) -> int:
        """An unsigned byte, a boolean or the type of a union; 0 where it is absent."""
        return self._scalar(_BYTE, slot, 0)

    def int16(self, slot: int, default: int = 0) -> int:
        """A signed integer of 16 bits, or an enumeration's."""
        return self._scalar(_SHORT, slot, default)

    def int32(self, slot: int, default: int = 0) -> int:
        """A signed integer of 32 bits."""
        return self._scalar(_INT, slot, default)

    def int64(self, slot: int) -> int:
        """A signed integer of 64 bits; 0 where it is absent."""
        return self._scalar(_LONG, slot, 0)

    def has(self, slot: int) -> bool:
        """Whether the field is there."""
        return self._place(slot) is not None

    def table(self, slot: int) -> "FlatTable | None":
        """The table that the field points at."""
        place = self._place(slot)
        return None if place is None else FlatTable(self._content, self._target(place))

    def text(self, slot: int, most_bytes: int) -> str | None:
        """A text of `most_bytes` at the most."""
        place = self._place(slot)
        if place is None:
            return None
        start, length = self._vector(place, 1)
        if length > most_bytes:
            raise Damaged("a text is too long")
        try:
            return self._content[start : start + length].decode()
        except UnicodeDecodeError as error:
            raise Damaged("a text is not UTF-8") from error

    def length(self, slot: int) -> int:
        """How many elements the vector of tables has."""
        place = self._place(slot)
        return 0 if place is None else self._vector(place, _OFFSET.size)[1]

    def tables(self, slot: int) -> Iterator["FlatTable"]:
        """The elements of a vector of tables, of which several may be one."""
        place = self._place(slot)
        if place is not None:
            start, length = self._vector(place, _OFFSET.size)
            for at in range(start, start + length * _OFFSET.size, _OFFSET.size):
                yield FlatTable(self._content, self._target(at))

    def pairs(self, slot: int) -> Sequence[tuple[int, int]]:
        """The elements of a vector of structs that are two signed integers of 64 bits each."""
        place = self._place(slot)
        if place is None:
            return ()
        start, length = self._vector(place, 2 * _WORD_BYTES)
        words = np.frombuffer(self._content, "<i8", 2 * length, start).tolist()
        return [*zip(words[::2], words[1::2], strict=True)]

    def _scalar(self, form: struct.Struct, slot: int, default: int) -> int:
        place = self._place(slot)
        return default if place is None else _unpack(form, self._content, place)

    def _place(self, slot: int) -> int | None:
        at = _VTABLE_HEAD_BYTES + _SIZE_IN_VTABLE.size * slot
        if at + _SIZE_IN_VTABLE.size > self._vtable_size:
            return None
        offset = _unpack(_SIZE_IN_VTABLE, self._content, self._vtable + at)
        return self._at + offset if offset else None

    def _target(self, place: int) -> int:
        return place + _unpack(_OFFSET, self._content, place)

    def _vector(self, place: int, element_bytes: int) -> tuple[int, int]:
        """Where the elements begin, and how many there are."""
        at = self._target(place)
        length, start = _unpack(_OFFSET, self._content, at), at + _OFFSET.size
        if start + length * element_bytes > len(self._content):
            raise Damaged("a vector is longer than the flatbuffer")
        return start, length


def _unpack(form: struct.Struct, content: bytes, at: int) -> int:
    if not 0 <= at <= len(content) - form.size:
        raise Damaged("an offset leads out of the flatbuffer")
    (value,) = form.unpack_from(content, at)
    return int(value)
