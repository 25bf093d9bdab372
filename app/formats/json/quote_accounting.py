"""Quote accounting: proves that every key and text of a JSON document was decoded.

msgspec keeps the last of two equal keys and skips unknown ones, silently. Each part that it drops has a key, and a key
has two quotes. So a document whose quotes all belong to decoded keys and strings holds nothing else. This is the only
check of the columnar path; it costs a tenth of a decode (docs/contribute/decisions/0035). Invariant: equal numbers are
proof. Unequal ones can be wrong and cost a decode on the exact path.

`ImageDecoder` decodes the images of one table under this check, many at once: JSON objects -> tuples in the order of
the table's columns.
"""

from collections.abc import Callable, Iterable, Sequence
from types import GenericAlias
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, Raw, UnsetType

from app.formats.columnar import image_type
from app.formats.json.texts import MAX_NESTED_VALUES, count_brackets, has_suspicious_escape

_SHORT: Final = 4_096
"""Bytes below which a NumPy call costs more than the work it does."""

_SLICE: Final = 2**20
"""Bytes compared at a time. Each comparison gives up the interpreter lock and may wait for it afterwards."""

_QUOTE, _BACKSLASH, _U = b'"\\u'
_MAX_DEPTH: Final = 16
_MAX_OPAQUE_BYTES: Final = 2**16
"""Levels and bytes of an opaque value beyond which the exact path has to read it."""


def count_quotes(document: bytes) -> int:
    """Return the number of quotes, the escaped ones included."""
    if len(document) < _SHORT:
        return document.count(b'"')
    text = np.frombuffer(document, np.uint8)
    return sum(int(np.count_nonzero(text[start : start + _SLICE] == _QUOTE)) for start in range(0, len(text), _SLICE))


def count_structural_quotes(document: bytes) -> int:
    """Return the number of quotes of a valid document that are not escaped."""
    if b"\\" not in document:
        return count_quotes(document)
    if b"\\\\" in document:  # in valid JSON, a run of backslashes begins with an escape, so pairs count from the left
        document = document.replace(b"\\\\", b"")
    if len(document) < _SHORT:
        return document.count(b'"') - document.count(b'\\"')
    text, escaped = np.frombuffer(document, np.uint8), 0
    for start in range(1, len(text), _SLICE):
        quotes = text[start : start + _SLICE] == _QUOTE
        escaped += int(np.count_nonzero(quotes & (text[start - 1 : start - 1 + len(quotes)] == _BACKSLASH)))
    return count_quotes(document) - escaped


def is_all_read(document: bytes, values: Iterable[Any]) -> bool:
    """Return True if a valid document consists of these decoded objects, lists and scalars of built-in types."""
    try:
        return count_structural_quotes(document) == 2 * sum(_count_keys_and_texts(value, 1) for value in values)
    except RecursionError:
        return False


def is_all_decoded(document: bytes, written_again: bytes) -> bool:
    """Return True if valid JSON has the quotes that its decoded values have when they are written again.

    Keys that were not written must not be written again. U+0000 in a string counts as not decoded.
    """
    if b"\\" in document and _has_unicode_escape(document) and b"\\u0000" in document:
        return False
    if document == written_again:  # this is usual, and much faster to find out
        return True
    return count_structural_quotes(document) == count_structural_quotes(written_again)


def _has_unicode_escape(document: bytes) -> bool:
    """Return True if a document may have an escape such as U+0000; a search for two bytes is four times slower."""
    if len(document) < _SHORT:
        return True
    text = np.frombuffer(document, np.uint8)
    return any(
        bool(np.any((text[start : start + _SLICE] == _BACKSLASH)[:-1] & (text[start + 1 : start + _SLICE] == _U)))
        for start in range(0, len(text), _SLICE - 1)
    )


def are_opaque(values: Sequence[Raw], decode: Callable[[bytes], Any]) -> bool:
    """Return True if these valid values, which nothing else reads, hide nothing that has to be rejected.

    That is a key twice, too many lists and objects, deep nesting, U+0000 or half a surrogate pair; strings can have
    only the last two.
    """
    if values and values.count(values[0]) == len(values) and bytes(values[0]).startswith(b'"'):
        values = values[:1]
    if has_suspicious_escape(b"".join(values)):
        return False
    others = [value for value in map(bytes, values) if not value.startswith(b'"')]
    if not others:
        return True
    if any(len(value) > _MAX_OPAQUE_BYTES for value in others):
        return False
    document = b"[" + b",".join(others) + b"]"
    return count_brackets(document) <= MAX_NESTED_VALUES and is_all_read(document, decode(document))


def _count_keys_and_texts(value: Any, depth: int) -> int:
    if isinstance(value, str):
        return 1
    if not isinstance(value, dict | list):
        return 0
    if depth > _MAX_DEPTH:
        raise RecursionError
    keys, inner = (len(value), value.values()) if isinstance(value, dict) else (0, value)
    return keys + sum(_count_keys_and_texts(entry, depth + 1) for entry in inner)


Given: TypeAlias = Raw | UnsetType

_NO_ROW: Final = (Raw(b"null"), Raw(b"{}"))
_astuple: Final = msgspec.structs.astuple


class ImageDecoder:
    """Decoder of images of a table with these columns; all values are strings, or with `str | None` also null.

    msgspec rejects an unknown column, a value of another type and invalid UTF-8; quote accounting finds a column that
    an image has twice. Column names that msgspec cannot take, with quotes or control characters, raise ValueError.
    """

    def __init__(self, columns: Sequence[str], value_type: Any) -> None:
        types = [value_type] * len(columns)
        full, partial = image_type(columns, types), image_type(columns, [value_type | UnsetType] * len(columns), UNSET)
        self._has_nulls = value_type is not str
        self._full: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(GenericAlias(list, (full,)))
        self._partial: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(GenericAlias(list, (partial,)))

    def decode(self, images: Sequence[Raw]) -> tuple[list[tuple[Any, ...]], bool]:
        """Return the row of each image, and whether all images have all columns; others have UNSET in their place.

        Raises ValueError, or RecursionError for values nested too deeply.
        """
        document = b"[" + b",".join(images) + b"]"
        is_full = True
        try:
            decoded = self._full.decode(document)
        except msgspec.ValidationError:
            is_full = False
            decoded = self._partial.decode(document)
        rows = [*map(_astuple, decoded)]
        missing = 0 if is_full else sum(row.count(UNSET) for row in rows)
        keys = sum(map(len, rows)) - missing
        nulls = sum(row.count(None) for row in rows) if self._has_nulls else 0
        if count_structural_quotes(document) != 2 * (keys + keys - nulls):
            raise ValueError("an image has a column twice")
        if has_suspicious_escape(document):
            raise ValueError("a string may have U+0000 or a surrogate")
        return rows, is_full

    def decode_optional(self, images: Sequence[Given]) -> tuple[Sequence[tuple[Any, ...] | None], bool]:
        """Return the rows of images, None for one without columns, and whether all others have all columns."""
        given = [image for image in images if image is not UNSET and image not in _NO_ROW]
        if not given:
            return [None] * len(images), True
        rows, is_full = self.decode(given)
        if len(given) == len(images):
            return rows, is_full
        found = iter(rows)
        return [None if image is UNSET or image in _NO_ROW else next(found) for image in images], is_full
