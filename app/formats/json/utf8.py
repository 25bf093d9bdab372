"""Finds the first byte that is not UTF-8, slice by slice.

Decoding a whole body would need four times its size: one emoji makes Python store every character in four bytes.
"""

from codecs import utf_8_decode
from typing import Final

SLICE: Final = 2**16
"""Bytes decoded at a time and dropped again, so that the text stays in the processor's cache."""


def first_wrong_byte(body: bytes) -> int | None:
    """Return the position of the first byte that is not UTF-8, None if there is none."""
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
