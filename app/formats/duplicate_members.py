"""Members that stand twice in a JSON object, and nesting beyond the limit: what fast decoders let pass.

RFC 8259 leaves the meaning of a repeated name open, and the decoder keeps the last one silently. Looking at every
name costs three times a decode, so a screen counts first: it may suspect a clean body, never clear a wrong one.
"""

import json
import re
import sys
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from app.errors import Code, Problem, RejectedInput

MOST_NESTING: Final = 64
"""Objects and lists inside one another, the message itself included."""

_BLANK: Final = re.compile(r"[ \t\r\n,]*")
_BLANKS: Final = (b" ", b"\n", b"\r", b"\t")
_ENOUGH_FOR_ARROW: Final = 2**15


def is_suspicious(body: bytes, members: int, quoted: int, escaped: bool) -> bool:
    """Whether some object of this valid `body` may name a member twice or nest deeply.

    `members` are those that were decoded, or fewer; `quoted` counts `":` within decoded texts, or fewer. Each
    member is written as `":` unless blanks precede its colon. A quote in a text is written as backslash and
    quote, or with an escape that begins with backslash u00, of which `escaped` tells.
    """
    written = count_pair(body, b'":')
    if any(count_pair(body, blank + b":") for blank in _BLANKS if blank in body):
        return True
    if body.find(b"[", 1) >= 0 and body.count(b"[") > MOST_NESTING // 2 and re.search(rb":\s*\[", body):
        return True
    if written == members + quoted and not escaped:
        return False
    # A text's own `\\":` is no member unless the backslash is itself escaped; that may count some too many.
    return written - body.count(b'\\":') + body.count(b'\\\\":') != members


def check_members(body: bytes, offset: int = 0) -> None:
    """The exact look at every member of a valid `body`, which stands `offset` bytes into the request.

    Raises RejectedInput `duplicate_member` with index and pointer, or `malformed_json`.
    """
    text = body.decode()
    position, end = (1, len(text) - 1) if text.startswith("[") else (0, len(text))
    index = 0
    while (position := _end_of_blank(text, position)) < end:
        start = position
        try:
            value, position = _CHECKER.raw_decode(text, start)
            depth = _depth(value)
        except _RepeatedError:
            pointer = _pointer_of_repeated(_PAIRS.raw_decode(text, start)[0])
            detail = "a member stands twice in one object"
            raise RejectedInput.of((Problem(Code.DUPLICATE_MEMBER, detail, index, pointer),)) from None
        except RecursionError:
            depth = MOST_NESTING + 1
        except ValueError:
            raise _malformed("not valid JSON", index, text, start, offset) from None
        if depth > MOST_NESTING:
            raise _malformed(f"nested more than {MOST_NESTING} deep", index, text, start, offset)
        index += 1


def _malformed(reason: str, index: int, text: str, start: int, offset: int) -> RejectedInput:
    byte = offset + len(text[:start].encode())
    detail = f"the message that starts at byte {byte} is {reason}"
    return RejectedInput.of((Problem(Code.MALFORMED_JSON, detail, index),))


def count_pair(body: bytes, pair: bytes) -> int:
    """How often two different bytes stand side by side. Arrow compares both at once, in half the time."""
    if len(body) < _ENOUGH_FOR_ARROW:
        return body.count(pair)
    wanted = pa.scalar(int.from_bytes(pair, sys.byteorder), pa.uint16())
    whole = pa.py_buffer(body)
    halves = ((whole, len(body) // 2), (whole.slice(1), (len(body) - 1) // 2))
    return sum(
        pc.equal(pa.Array.from_buffers(pa.uint16(), count, [None, buffer]), wanted).true_count
        for buffer, count in halves
    )


class _RepeatedError(Exception):
    """An object names a member twice."""


class _Depth(int):
    """Stands for an object: how deep it nests."""


class _Pairs(list[tuple[str, Any]]):
    """Stands for an object: its members in order, repeated ones too."""


def _depth_of_object(pairs: list[tuple[str, Any]]) -> _Depth:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _RepeatedError
    deepest = 0
    for value in members.values():
        if type(value) is _Depth or type(value) is list:
            deepest = max(deepest, _depth(value))
    return _Depth(deepest + 1)


def _depth(value: Any) -> int:
    if isinstance(value, _Depth):
        return value
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _pointer_of_repeated(value: Any) -> str | None:
    """The JSON Pointer of the first repeated member, outer objects first."""
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, _ in value:
            if name in seen:
                return _step(name)
            seen.add(name)
    below = value if isinstance(value, _Pairs) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in below:
        if (pointer := _pointer_of_repeated(inner)) is not None:
            return _step(step) + pointer
    return None


def _step(name: str | int) -> str:
    return "/" + str(name).replace("~", "~0").replace("/", "~1")


def _end_of_blank(text: str, position: int) -> int:
    match = _BLANK.match(text, position)
    return match.end() if match else position


def _refuse(_: str) -> Any:
    raise ValueError


_SAME: Final[Callable[[str], Any]] = str
_CHECKER: Final = json.JSONDecoder(
    object_pairs_hook=_depth_of_object, parse_float=_SAME, parse_int=_SAME, parse_constant=_refuse
)
_PAIRS: Final = json.JSONDecoder(object_pairs_hook=_Pairs, parse_float=_SAME, parse_int=_SAME, parse_constant=_refuse)
