"""Bounds the lists and objects of a JSON body, in number and in depth.

Each costs about 100 bytes of memory and part of a microsecond. An empty list takes three bytes of a body, so the size
of a body does not bound the cost of decoding it.
"""

import re
from itertools import accumulate
from typing import Final

from app.errors import Code, RejectedInput

MAX_NESTING: Final = 64
"""Levels of objects and lists, the message itself included."""

MAX_NESTED_VALUES: Final = 1_000_000
"""Lists and objects inside the values of a request; 16 MiB of coordinates have fewer."""

_OF_A_MESSAGE: Final = 8
"""Objects that a message itself consists of, or fewer."""

_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHERS: Final = bytes({*range(256)} - _STEPS.keys())


def check_nested_values(body: bytes, messages: int) -> None:
    """Raise RejectedInput `too_many_nested_values` if a body with at most this many messages has too many.

    Brackets inside texts do not count; they are told apart only if there are that many.
    """
    limit = MAX_NESTED_VALUES + _OF_A_MESSAGE * messages
    if len(body) > limit and count_brackets(body) > limit and count_brackets(_TEXT.sub(b"", body)) > limit:
        detail = f"the values of the messages have more than {MAX_NESTED_VALUES} lists and objects"
        raise RejectedInput(Code.TOO_MANY_NESTED_VALUES, detail)


def is_too_deep(message: bytes) -> bool:
    """Tell whether a valid message has more than MAX_NESTING levels."""
    if count_brackets(message) <= MAX_NESTING:
        return False
    brackets = _TEXT.sub(b"", message).translate(None, _OTHERS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_NESTING


def count_values(body: bytes) -> int:
    """Return how many objects and lists a body has at most; those that do not end are none."""
    return min(body.count(b"{"), body.count(b"}")) + min(body.count(b"["), body.count(b"]"))


def count_brackets(text: bytes) -> int:
    """Return the number of opening brackets, those in texts included."""
    return text.count(b"[") + text.count(b"{")
