"""The exact check for duplicate keys in JSON objects, and for nesting beyond the limit.

RFC 8259 leaves the meaning of a repeated key open, and msgspec keeps the last one silently. This check costs several
times a decode, so `duplicate_key_prefilter` first tells which bodies need it.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

from app.errors import Code, Problem, RejectedInput

MAX_NESTING: Final = 64
"""Levels of objects and lists, the message itself included."""

_BLANK: Final = re.compile(r"[ \t\r\n,]*")


def check_duplicate_keys(body: bytes, offset: int = 0) -> None:
    """Check every key of a valid `body`, which starts `offset` bytes into the request.

    Raises RejectedInput `duplicate_member` with index and pointer, or `malformed_json` for deep nesting.
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
            detail = "an object has the same key twice"
            raise RejectedInput.of((Problem(Code.DUPLICATE_MEMBER, detail, index, pointer),)) from None
        except RecursionError:
            depth = MAX_NESTING + 1
        except ValueError:
            raise _malformed("not valid JSON", index, text, start, offset) from None
        if depth > MAX_NESTING:
            raise _malformed(f"nested more than {MAX_NESTING} levels deep", index, text, start, offset)
        index += 1


def _malformed(reason: str, index: int, text: str, start: int, offset: int) -> RejectedInput:
    byte = offset + len(text[:start].encode())
    detail = f"the message that starts at byte {byte} is {reason}"
    return RejectedInput.of((Problem(Code.MALFORMED_JSON, detail, index),))


class _RepeatedError(Exception):
    """An object has the same key twice."""


class _Depth(int):
    """The depth of an object, in its place."""


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object in order, repeated ones too, in its place."""


def _depth_of_object(pairs: list[tuple[str, Any]]) -> _Depth:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise _RepeatedError
    deepest = 0
    for value in values.values():
        if type(value) is _Depth or type(value) is list:
            deepest = max(deepest, _depth(value))
    return _Depth(deepest + 1)


def _depth(value: Any) -> int:
    """Return the depth of a value, or a number beyond MAX_NESTING.

    Lists are counted level by level: a call for each of millions of empty lists takes seconds per megabyte.
    """
    if value.__class__ is not list:
        return value if value.__class__ is _Depth else 0
    deepest, depth, level = 0, 1, value
    while True:
        objects = [inner for inner in level if inner.__class__ is _Depth]
        lists = [inner for inner in level if inner.__class__ is list]
        if objects:
            deepest = max(deepest, depth + max(objects))
        if not lists or depth > MAX_NESTING:
            return max(deepest, depth)
        level = [inner for outer in lists for inner in outer]
        depth += 1


def _pointer_of_repeated(value: Any) -> str | None:
    """Return the JSON Pointer of the first repeated key, outer objects first."""
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


def _reject(_: str) -> Any:
    raise ValueError


_SAME: Final[Callable[[str], Any]] = str
_CHECKER: Final = json.JSONDecoder(
    object_pairs_hook=_depth_of_object, parse_float=_SAME, parse_int=_SAME, parse_constant=_reject
)
_PAIRS: Final = json.JSONDecoder(object_pairs_hook=_Pairs, parse_float=_SAME, parse_int=_SAME, parse_constant=_reject)
