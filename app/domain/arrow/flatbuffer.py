"""Bounds-checked reader of flatbuffers, as much as Arrow's messages need.

Invariant: every position is checked against the content before it is used, and only requested values are copied. A
hostile flatbuffer can share a table or a text a million times, so callers bound how many they read.
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
    """The bytes are not a flatbuffer of the expected form."""


class FlatTable:
    """One table of a flatbuffer. A field has a slot number; an absent one has its default. Raises Damaged."""

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
        """Return the table that the first four bytes point at."""
        return cls(content, _unpack(_OFFSET, content, 0))

    def uint8(self, slot: int) -> int:
        """Return an unsigned byte, a boolean or the type of a union; 0 if it is absent."""
        return self._scalar(_BYTE, slot, 0)

    def int16(self, slot: int, default: int = 0) -> int:
        """Return a signed 16-bit integer, or the value of an enumeration."""
        return self._scalar(_SHORT, slot, default)

    def int32(self, slot: int, default: int = 0) -> int:
        """Return a signed 32-bit integer."""
        return self._scalar(_INT, slot, default)

    def int64(self, slot: int) -> int:
        """Return a signed 64-bit integer; 0 if it is absent."""
        return self._scalar(_LONG, slot, 0)

    def has(self, slot: int) -> bool:
        """Tell whether the field is present."""
        return self._position(slot) is not None

    def table(self, slot: int) -> "FlatTable | None":
        """Return the table that the field points at."""
        position = self._position(slot)
        return None if position is None else FlatTable(self._content, self._target(position))

    def text(self, slot: int, max_bytes: int) -> str | None:
        """Return a text of at most `max_bytes`."""
        position = self._position(slot)
        if position is None:
            return None
        start, length = self._vector(position, 1)
        if length > max_bytes:
            raise Damaged("a text is too long")
        try:
            return self._content[start : start + length].decode()
        except UnicodeDecodeError as error:
            raise Damaged("a text is not UTF-8") from error

    def length(self, slot: int) -> int:
        """Return how many elements a vector of tables has."""
        position = self._position(slot)
        return 0 if position is None else self._vector(position, _OFFSET.size)[1]

    def tables(self, slot: int) -> Iterator["FlatTable"]:
        """Yield the elements of a vector of tables; several can be the same table."""
        position = self._position(slot)
        if position is not None:
            start, length = self._vector(position, _OFFSET.size)
            for at in range(start, start + length * _OFFSET.size, _OFFSET.size):
                yield FlatTable(self._content, self._target(at))

    def pairs(self, slot: int) -> Sequence[tuple[int, int]]:
        """Return the elements of a vector of structs of two signed 64-bit integers."""
        position = self._position(slot)
        if position is None:
            return ()
        start, length = self._vector(position, 2 * _WORD_BYTES)
        words = np.frombuffer(self._content, "<i8", 2 * length, start).tolist()
        return [*zip(words[::2], words[1::2], strict=True)]

    def _scalar(self, form: struct.Struct, slot: int, default: int) -> int:
        position = self._position(slot)
        return default if position is None else _unpack(form, self._content, position)

    def _position(self, slot: int) -> int | None:
        at = _VTABLE_HEAD_BYTES + _SIZE_IN_VTABLE.size * slot
        if at + _SIZE_IN_VTABLE.size > self._vtable_size:
            return None
        offset = _unpack(_SIZE_IN_VTABLE, self._content, self._vtable + at)
        return self._at + offset if offset else None

    def _target(self, position: int) -> int:
        return position + _unpack(_OFFSET, self._content, position)

    def _vector(self, position: int, element_bytes: int) -> tuple[int, int]:
        """Return where the elements begin, and how many there are."""
        at = self._target(position)
        length, start = _unpack(_OFFSET, self._content, at), at + _OFFSET.size
        if start + length * element_bytes > len(self._content):
            raise Damaged("a vector is longer than the flatbuffer")
        return start, length


def _unpack(form: struct.Struct, content: bytes, at: int) -> int:
    if not 0 <= at <= len(content) - form.size:
        raise Damaged("an offset leads out of the flatbuffer")
    (value,) = form.unpack_from(content, at)
    return int(value)
