"""Duplicate keys, U+0000 and deep nesting, which msgspec accepts silently: the check of the exact path.

msgspec keeps the last of two equal keys and skips a key that a struct does not know. Every key has two quotes. So if
the decoded messages, written again, have as many quotes as the body, nothing was dropped (docs/decisions/0034). Any
other body is read a second time, key by key.

Invariant: a body that passes has no key twice in any object, no U+0000 and at most MAX_NESTING levels.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from app.domain.model.written_number import as_json
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to
from app.formats.json.nested_values import MAX_NESTING, is_too_deep
from app.formats.json.quote_accounting import count_quotes, count_structural_quotes
from app.formats.json.texts import check_texts

_ENCODER: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=as_json)
_SLICE: Final = 256
"""Messages written again at a time, so that the copy is small."""

_SHORT: Final = 4_096
"""Bytes below which a NumPy call costs more than the work it does."""

_BRACE, _BREAK = b"{\n"
_CASE: Final = 0x20
"""The bit that tells `{` from `[`."""

_MISLEADING_ESCAPE: Final = re.compile(rb"\\u00(?:00|22)")
"""U+0000, or a quote that the body writes by its number and the encoder as `\\"`."""

_TOO_DEEP: Final = f"nested more than {MAX_NESTING} levels deep"
_START: Final = re.compile(r"[^ \t\r\n,]")


def check_strictly(body: bytes, messages: Sequence[Any], offset: int = 0) -> None:
    """Check a valid `body`, which starts `offset` bytes into the request, and was decoded to `messages`.

    Optional keys of their types must default to UNSET: a key that was not written must not be written again.

    Raises RejectedInput `duplicate_member` with index and pointer, or `malformed_json`.
    """
    if not _is_all_decoded(body, messages):
        check_texts(body, offset)
        _check_each_key(body, offset)


def _is_all_decoded(body: bytes, messages: Sequence[Any]) -> bool:
    """Tell whether a body consists of its decoded messages. True is proof; False costs a second reading."""
    found = _MISLEADING_ESCAPE.search(body)
    if found and b"\\u0000" in body:
        return False
    count = count_structural_quotes if found else count_quotes
    quotes = 0
    try:
        for start in range(0, len(messages), _SLICE):
            written = _ENCODER.encode_lines(messages[start : start + _SLICE])
            if _has_many_brackets(written) and any(map(is_too_deep, written.splitlines())):
                return False
            quotes += count(written)
    except RecursionError:
        return False
    return quotes == count(body)


def _has_many_brackets(lines: bytes) -> bool:
    """Tell whether a line may have more than MAX_NESTING opening brackets, those in texts included."""
    if len(lines) < _SHORT:
        return True
    text = np.frombuffer(lines, np.uint8)
    brackets = np.flatnonzero(text | _CASE == _BRACE)
    ends = np.flatnonzero(text == _BREAK)
    return bool((np.diff(np.searchsorted(brackets, ends), prepend=0) > MAX_NESTING).any())


def _check_each_key(body: bytes, offset: int) -> None:
    text = body.decode()
    if text.startswith("["):
        text, offset = text[1:-1], offset + 1
    index = position = 0
    while found := _START.search(text, position):
        start = found.start()
        wrong = None
        try:
            _, position = _CHECKER.raw_decode(text, start)
            if is_too_deep(text[start:position].encode()):
                wrong = _TOO_DEEP
        except _RepeatedKeyError:
            detail = "an object has the same key twice"
            raise RejectedInput.of((Problem(Code.DUPLICATE_MEMBER, detail, index, _pointer(text, start)),)) from None
        except RecursionError:
            wrong = _TOO_DEEP
        except ValueError:
            wrong = "not valid JSON"
        if wrong:
            detail = f"the message that starts at byte {offset + len(text[:start].encode())} is {wrong}"
            raise RejectedInput.of((Problem(Code.MALFORMED_JSON, detail, index),))
        index += 1


class _RepeatedKeyError(Exception):
    """An object has the same key twice."""


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of an object in order, repeated ones too, in its place."""


def _check_object(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _RepeatedKeyError


def _pointer(text: str, start: int) -> str | None:
    """Return the JSON Pointer of the first repeated key of a message, outer objects first."""
    try:
        return _pointer_of_repeated(_PAIRS.raw_decode(text, start)[0])
    except RecursionError:
        return None


def _pointer_of_repeated(value: Any) -> str | None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, _ in value:
            if name in seen:
                return pointer_to("", name)
            seen.add(name)
    below = value if isinstance(value, _Pairs) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in below:
        if (pointer := _pointer_of_repeated(inner)) is not None:
            return pointer_to("", str(step)) + pointer
    return None


def _reject(_: str) -> Any:
    raise ValueError


_SAME: Final[Callable[[str], Any]] = str
_CHECKER: Final = json.JSONDecoder(
    object_pairs_hook=_check_object, parse_float=_SAME, parse_int=_SAME, parse_constant=_reject
)
_PAIRS: Final = json.JSONDecoder(object_pairs_hook=_Pairs, parse_float=_SAME, parse_int=_SAME, parse_constant=_reject)
