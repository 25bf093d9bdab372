"""How many lists and objects a JSON body may hold: each takes a hundred bytes of memory and some of a microsecond.

A body of empty lists is three bytes a list, so its size does not bound what it costs to decode and to look at.
"""

import re
from typing import Final

from app.errors import Code, RejectedInput

MAX_NESTED_VALUES: Final = 1_000_000
"""Lists and objects within the values of a request: 16 MiB of coordinates have fewer."""

_OF_A_MESSAGE: Final = 8
"""Objects that a message of a tool is made of, or fewer."""

_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def check_nested_values(body: bytes, messages: int) -> None:
    """Raises RejectedInput `too_many_nested_values` for more than `messages`, that many or fewer, may have.

    Brackets and braces within texts do not count; they are told apart only where there are so many.
    """
    most = MAX_NESTED_VALUES + _OF_A_MESSAGE * messages
    if len(body) > most and _count(body) > most and _count(_TEXT.sub(b"", body)) > most:
        detail = f"the messages hold more than {MAX_NESTED_VALUES} lists and objects within their values"
        raise RejectedInput(Code.TOO_MANY_NESTED_VALUES, detail)


def _count(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")
