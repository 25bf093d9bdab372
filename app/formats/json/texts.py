"""Checks of the strings, lists and objects of a JSON body, and the Kafka records that a body can have as elements.

`check_texts` checks strings: UTF-8, no U+0000, no half of a surrogate pair. msgspec checks no text that it skips, and
accepts U+0000 everywhere, which Postgres cannot store.

`check_nested_values` and `is_too_deep` bound the lists and objects of a body, in number and in depth. Each costs about
100 bytes of memory and part of a microsecond. An empty list takes three bytes of a body, so the size of a body does not
bound the cost of decoding it.

`split` separates the key of a Kafka record from its message, for elements `{"key": …, "value": …}`. A message in Kafka
can leave to the record's key what it does not say itself, such as the key of a deleted row. A program that forwards
records sends both as one element. A message that has these two keys itself is told apart by the shape of `value`, and
the parameter `keyed` decides where the shape does not: docs/reference/replicate.md, "Keyed elements". Invariant: an
element is a record as a whole or a message as a whole; no part of it is dropped.
"""

import re
from codecs import utf_8_decode
from itertools import accumulate
from typing import Any, Final

from msgspec import UNSET

from mirrorgate.errors import Code, RejectedInput

VALUE_AT: Final = "/value"
"""JSON Pointer of the message inside a record."""

_KEYS: Final = frozenset({"key", "value"})


def split(index: int, element: Any, keyed: bool | None) -> tuple[Any, Any, str]:
    """Return key, message and the message's JSON Pointer; the key is UNSET for an element that is the message itself.

    `keyed` says what every element is: True a record, False a message. With None, an element is a record if it has
    exactly `key` and `value`, and `value` is an object or null. The key can be any JSON value.

    Raises RejectedInput `malformed_message` if `keyed` is True and the element has another shape.
    """
    if keyed is not False and is_record(element):
        return element["key"], element["value"], VALUE_AT
    if keyed:
        detail = "with keyed=true, a message must be an object of exactly `key` and `value`, an object or null"
        raise RejectedInput.at(Code.MALFORMED_MESSAGE, detail, index, "")
    return UNSET, element, ""


def is_record(element: Any) -> bool:
    """Return True if an element has the shape of a record."""
    return (
        isinstance(element, dict)
        and element.keys() == _KEYS
        and (element["value"] is None or isinstance(element["value"], dict))
    )


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

    Brackets inside strings do not count; they are told apart only if there are that many.
    """
    limit = MAX_NESTED_VALUES + _OF_A_MESSAGE * messages
    if len(body) > limit and count_brackets(body) > limit and count_brackets(_TEXT.sub(b"", body)) > limit:
        detail = f"the values of the messages have more than {MAX_NESTED_VALUES} lists and objects"
        raise RejectedInput(Code.TOO_MANY_NESTED_VALUES, detail)


def is_too_deep(message: bytes) -> bool:
    """Return True if a valid message has more than MAX_NESTING levels."""
    if count_brackets(message) <= MAX_NESTING:
        return False
    brackets = _TEXT.sub(b"", message).translate(None, _OTHERS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_NESTING


def count_values(body: bytes) -> int:
    """Return how many objects and lists a body has at most; those that do not end are none."""
    return min(body.count(b"{"), body.count(b"}")) + min(body.count(b"["), body.count(b"]"))


def count_brackets(text: bytes) -> int:
    """Return the number of opening brackets, those in strings included."""
    return text.count(b"[") + text.count(b"{")


SLICE: Final = 2**16
"""Bytes decoded at a time and dropped again, so that the text remains in the processor's cache."""

_SUSPICIOUS: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_NOT_TEXT: Final = re.compile(
    rb"(?:[^\\]++|\\(?!u(?:0000|[dD][89a-fA-F])).)*+(?:(\\u0000)|(\\u[dD][89a-fA-F]))", re.DOTALL
)
"""The first wrong escape, and everything before it, escape by escape: so an escaped backslash begins none."""

_SURROGATE_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


def check_texts(body: bytes, offset: int) -> None:
    """Check all strings of a body that begins `offset` bytes into the request. Raise RejectedInput `malformed_json`."""
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
    """Return True if a body may have escaped U+0000 or surrogates."""
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
