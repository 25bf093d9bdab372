"""Whether a body is UTF-8, told slice by slice: one emoji makes the text of a whole body four times as long."""

from codecs import utf_8_decode
from typing import Final

SLICE: Final = 2**16
"""Bytes decoded in one go, and thrown away again; what is made of them stays in the processor's cache."""


def first_wrong_byte(body: bytes) -> int | None:
    """Where the body stops being UTF-8, as decoding it in one piece would say; None when all of it is."""
    if body.isascii():
        return None
    start, end = 0, len(body)
    try:
        while end - start > SLICE:
            # A character that the slice cuts through is not taken: it begins the next one.
            start += utf_8_decode(body[start : start + SLICE], "strict", False)[1]
        body[start:].decode()
    except UnicodeDecodeError as error:
        return start + error.start
    return None
