"""A fast look at a decoded body: may a member stand twice in it, or anything else that the decoder lets pass?

The decoder keeps one of two keys with the same name and skips those that its type does not know. So the keys
that are written are counted against those that were decoded. Names are not compared, which is what the exact look
costs; the count may come out too high, and then a clean body gets the exact look, but never too low.

A member's colon stands after a quote or after blanks. So do few colons of texts: those with which a text begins, and
some after blanks; a quote within a text comes after a backslash, so that a colon after it is told apart.
"""

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET

from app.formats.json.duplicate_keys import MAX_NESTING

_Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
_Places: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]

_SHORT: Final = 4_096
"""Bytes, below which a call of NumPy costs more than what it does."""

_SLICE: Final = 2**19
"""Bytes looked at in one go, so that what is computed of them needs little memory, and the same again and again."""

_MAX_LISTS: Final = MAX_NESTING // 2
_BLANKS: Final = (b" ", b"\n", b"\r", b"\t")
_BLANK, _QUOTE, _COMMA, _COLON, _BRACKET, _BACKSLASH, _U, _ZERO, _D = b' ",:[\\u0d'
_ESCAPE: Final = 5
"""Bytes before a colon that tell whether the quote before it is escaped."""
_CASE: Final = 0x20
"""The bit that tells small letters from capitals."""


def count_written_keys(struct: msgspec.Struct) -> int:
    """How many keys of an object were written, if each that may be absent is UNSET then."""
    values = msgspec.structs.astuple(struct)
    return len(values) - values.count(UNSET)


def is_suspicious(body: bytes, keys: int, *, surrogates: bool = False) -> bool:
    """Whether this decoded `body` may hold more than the `keys` that were decoded, or U+0000, or deep nesting.

    `keys` may be too low. Those of objects within opaque values must not be counted: that bounds their nesting.
    With `surrogates`, escaped ones are suspicious too: where texts were skipped, nobody has looked at their pairs.
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
    """Whether U+0000, or a surrogate, may be written."""
    return b"\\" in body and _has_suspicious_escape(np.frombuffer(body, np.uint8), surrogates=True)


def _max_keys_of_short(body: bytes) -> int:
    after_blanks = sum(body.count(blank + b":") for blank in _BLANKS if blank in body)
    in_texts = body.count(b'\\":')
    if b'\\\\":' in body:
        two, three, four = (body.count(b"\\" * backslashes + b'":') for backslashes in (2, 3, 4))
        in_texts += three - two - four
    return body.count(b'":') - in_texts + after_blanks


def _places(text: _Bytes, byte: int) -> Iterator[_Places]:
    """Where a byte stands, by slices of the text."""
    for start in range(0, len(text), _SLICE):
        yield start + np.flatnonzero(text[start : start + _SLICE] == byte)


def _count_after_quote_or_blank(text: _Bytes) -> int:
    """How many colons stand there, those after an exclamation mark included."""
    count = 0
    for start in range(1, len(text), _SLICE):
        colons = text[start : start + _SLICE] == _COLON
        count += int(np.count_nonzero(colons & (text[start - 1 : start - 1 + len(colons)] <= _QUOTE)))
    return count


def _count_after_blank_in_texts(text: _Bytes) -> int:
    """How many colons stand after one blank that follows neither a quote nor another blank."""
    return sum(
        int(np.count_nonzero((text[colons - 1] <= _BLANK) & (text[colons - 2] > _QUOTE)))
        for colons in _places(text, _COLON)
    )


def _count_after_quote_of_text(text: _Bytes) -> int:
    """How many colons stand after an escaped quote, or fewer: one after a name that ends with two or four backslashes
    is none of them."""
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
    """Whether U+0000, or a surrogate, may be written."""
    for start in range(1, len(text), _SLICE):
        letters = text[start : start + _SLICE] == _U
        letters &= text[start - 1 : start - 1 + len(letters)] == _BACKSLASH
        if not letters.any():
            continue
        escapes = start - 1 + np.flatnonzero(letters)
        if _may_be_nul(text, escapes) or (surrogates and bool(((text[escapes + 2] | _CASE) == _D).any())):
            return True
    return False


def _may_be_nul(text: _Bytes, escapes: _Places) -> bool:
    for distance in (2, 3, 4, 5):
        escapes = escapes[text[escapes + distance] == _ZERO]
        if not escapes.size:
            return False
    return True


def _may_nest_lists(text: _Bytes) -> bool:
    """Whether lists may stand in one another deeply, the outermost as the value of a member."""
    of_members, in_lists = False, 0
    for lists in _places(text, _BRACKET):
        before = text[lists - 1]
        before = np.where(before <= _BLANK, text[lists - 2], before)
        many_blanks = before <= _BLANK
        of_members = of_members or bool((many_blanks | (before == _COLON)).any())
        in_lists += int(np.count_nonzero(many_blanks | (before == _COMMA) | (before == _BRACKET)))
    return of_members and in_lists > _MAX_LISTS
