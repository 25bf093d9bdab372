"""Cheap pre-check for duplicate keys, U+0000 and deep nesting, which msgspec accepts silently.

It counts the keys that a body is written with, by their colons, and compares the number with that of the decoded keys.
A key's colon follows a quote or whitespace. Few colons inside strings do; those after an escaped quote are excluded.

Invariant: the count is never too low. If it is too high, a clean body gets the exact check of `duplicate_keys`.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET

from app.formats.json.duplicate_keys import MAX_NESTING

_Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
_Positions: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]

_SHORT: Final = 4_096
"""Bytes below which a NumPy call costs more than the work it does."""

_SLICE: Final = 2**19
"""Bytes processed at a time, so that intermediate arrays are small and their memory is reused."""

_MAX_LISTS: Final = MAX_NESTING // 2
_BLANKS: Final = (b" ", b"\n", b"\r", b"\t")
_BLANK, _QUOTE, _COMMA, _COLON, _BRACKET, _BACKSLASH, _U, _ZERO, _D = b' ",:[\\u0d'
_ESCAPE: Final = 5
"""Bytes before a colon that tell whether the quote before it is escaped."""
_CASE: Final = 0x20
"""The bit that tells small letters from capitals."""


def count_written_keys(struct: msgspec.Struct) -> int:
    """Return how many keys an object was written with, if every optional one defaults to UNSET."""
    values = msgspec.structs.astuple(struct)
    return len(values) - values.count(UNSET)


def is_suspicious(body: bytes, keys: int, *, surrogates: bool = False) -> bool:
    """Tell whether a decoded `body` may have more keys than the decoded ones, or U+0000, or deep nesting.

    `keys` can be too low. Do not count the keys of objects inside opaque values: that bounds their nesting. With
    `surrogates`, escaped surrogates are suspicious too: msgspec checks no pairs in texts that it skips.
    """
    if len(body) < _SHORT:
        nul = b"\\u0000" in body or (surrogates and (b"\\ud" in body or b"\\uD" in body))
        return nul or body.count(b"[") > _MAX_LISTS or _max_keys_of_short(body) != keys
    text = np.frombuffer(body, np.uint8)
    has_escapes = _BACKSLASH in body
    in_texts = _count_after_quote_of_text(text) if has_escapes else 0
    written = _count_after_quote_or_blank(text) - in_texts
    if written != keys and written - _count_after_blank_in_texts(text) != keys:
        return True
    if has_escapes and _has_suspicious_escape(text, surrogates=surrogates):
        return True
    return body.find(b"[", 1) > 0 and _may_nest_lists(text)


def has_suspicious_escape(body: bytes) -> bool:
    """Tell whether a body may have escaped U+0000 or surrogates."""
    return b"\\" in body and _has_suspicious_escape(np.frombuffer(body, np.uint8), surrogates=True)


def _max_keys_of_short(body: bytes) -> int:
    after_blanks = sum(body.count(blank + b":") for blank in _BLANKS if blank in body)
    in_texts = body.count(b'\\":')
    if b'\\\\":' in body:
        two, three, four = (body.count(b"\\" * backslashes + b'":') for backslashes in (2, 3, 4))
        in_texts += three - two - four
    return body.count(b'":') - in_texts + after_blanks


def _positions(text: _Bytes, byte: int) -> Iterator[_Positions]:
    """Yield the positions of a byte, slice by slice."""
    for start in range(0, len(text), _SLICE):
        yield start + np.flatnonzero(text[start : start + _SLICE] == byte)


def _count_after_quote_or_blank(text: _Bytes) -> int:
    """Count colons after a quote or whitespace; those after an exclamation mark are included."""
    count = 0
    for start in range(1, len(text), _SLICE):
        colons = text[start : start + _SLICE] == _COLON
        count += int(np.count_nonzero(colons & (text[start - 1 : start - 1 + len(colons)] <= _QUOTE)))
    return count


def _count_after_blank_in_texts(text: _Bytes) -> int:
    """Count colons after a single whitespace character that follows neither a quote nor whitespace."""
    return sum(
        int(np.count_nonzero((text[colons - 1] <= _BLANK) & (text[colons - 2] > _QUOTE)))
        for colons in _positions(text, _COLON)
    )


def _count_after_quote_of_text(text: _Bytes) -> int:
    """Count colons after an escaped quote, or fewer.

    A colon after a key that ends with two or four backslashes is not one of them.
    """
    count = 0
    for start in range(_ESCAPE, len(text), _SLICE):
        end = min(start + _SLICE, len(text))
        colon, quote, first, second, third, fourth = (text[start - back : end - back] for back in range(6))
        found = colon == _COLON
        found &= quote == _QUOTE
        found &= first == _BACKSLASH
        ends_name = found & (second == _BACKSLASH)
        count += int(np.count_nonzero(found))
        if ends_name.any():
            is_text = (third == _BACKSLASH) & (fourth != _BACKSLASH)
            count -= int(np.count_nonzero(ends_name & ~is_text))
    return count


def _has_suspicious_escape(text: _Bytes, *, surrogates: bool) -> bool:
    """Tell whether a text may have escaped U+0000 or, with `surrogates`, an escaped surrogate."""
    for start in range(1, len(text), _SLICE):
        letters = text[start : start + _SLICE] == _U
        letters &= text[start - 1 : start - 1 + len(letters)] == _BACKSLASH
        if not letters.any():
            continue
        escapes = start - 1 + np.flatnonzero(letters)
        if _may_be_nul(text, escapes) or (surrogates and bool(((text[escapes + 2] | _CASE) == _D).any())):
            return True
    return False


def _may_be_nul(text: _Bytes, escapes: _Positions) -> bool:
    for distance in (2, 3, 4, 5):
        escapes = escapes[text[escapes + distance] == _ZERO]
        if not escapes.size:
            return False
    return True


def _may_nest_lists(text: _Bytes) -> bool:
    """Tell whether lists may be nested deeply, the outermost one as the value of a key."""
    of_members, in_lists = False, 0
    for lists in _positions(text, _BRACKET):
        before = text[lists - 1]
        before = np.where(before <= _BLANK, text[lists - 2], before)
        many_blanks = before <= _BLANK
        of_members = of_members or bool((many_blanks | (before == _COLON)).any())
        in_lists += int(np.count_nonzero(many_blanks | (before == _COMMA) | (before == _BRACKET)))
    return of_members and in_lists > _MAX_LISTS
