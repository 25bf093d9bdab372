"""Checks of the texts of a JSON body: UTF-8, no U+0000, no half of a surrogate pair.

msgspec checks no text that it skips, and accepts U+0000 everywhere, which Postgres cannot store.
"""

import re
from codecs import utf_8_decode
from typing import Final

from app.errors import Code, RejectedInput

SLICE: Final = 2**16
"""Bytes decoded at a time and dropped again, so that the text stays in the processor's cache."""

_SUSPICIOUS: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_NOT_TEXT: Final = re.compile(
    rb"(?:[^\\]++|\\(?!u(?:0000|[dD][89a-fA-F])).)*+(?:(\\u0000)|(\\u[dD][89a-fA-F]))", re.DOTALL
)
"""The first wrong escape, and everything before it, escape by escape: so an escaped backslash begins none."""

_SURROGATE_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


def check_texts(body: bytes, offset: int) -> None:
    """Check all texts of a body that starts `offset` bytes into the request. Raises RejectedInput `malformed_json`."""
    check_utf8(body, offset)
    if has_suspicious_escape(body):
        _check_escapes(body, offset)


def check_utf8(body: bytes, offset: int) -> None:
    """Raise RejectedInput `malformed_json` with the first byte that is not UTF-8."""
    wrong = first_wrong_byte(body)
    if wrong is not None:
        raise RejectedInput(Code.MALFORMED_JSON, f"the body is not UTF-8 at byte {offset + wrong}")


def first_wrong_byte(body: bytes) -> int | None:
    """Return the position of the first byte that is not UTF-8, None if there is none.

    Decoding a whole body would need four times its size: one emoji makes Python store every character in four bytes.
    """
    if body.isascii():
        return None
    start, end = 0, len(body)
    try:
        while end - start > SLICE:
            # A character cut by the slice is left to the next one.
            start += utf_8_decode(body[start : start + SLICE], "strict", False)[1]
        body[start:].decode()
    except UnicodeDecodeError as error:
        return start + error.start
    return None


def has_suspicious_escape(body: bytes) -> bool:
    """Tell whether a body may have escaped U+0000 or surrogates."""
    return b"\\" in body and _SUSPICIOUS.search(body) is not None


def _check_escapes(body: bytes, offset: int) -> None:
    """Reject escaped U+0000 and half surrogate pairs, also in the values of keys that nothing reads."""
    position = 0
    while found := _NOT_TEXT.match(body, position):
        start = found.start(found.lastindex or 0)
        if found[1]:
            raise RejectedInput(Code.MALFORMED_JSON, f"the body has the character U+0000 at byte {offset + start}")
        pair = _SURROGATE_PAIR.match(body, start)
        if pair is None:
            raise RejectedInput(Code.MALFORMED_JSON, f"the body has half of a surrogate pair at byte {offset + start}")
        position = pair.end()
