"""The framing of JSON bodies: one object, an array, NDJSON, or objects one after the other.

`split_messages` cuts a body into its messages without decoding their values, for bodies that msgspec rejects as a
whole: then the wrong message is found and named. Messages are found one at a time, and the first error ends the search.
So a body of two bytes per message never becomes a list of all of them.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from app.formats.json.texts import check_utf8
from mirrorgate.errors import Code, RejectedInput

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}]|null', re.DOTALL)
"""A brace, null, or a string, also one without an end: otherwise each of its quotes would be tried as a start."""

_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_NO_JSON: Final = {
    rb"NaN|-?Inf": "JSON has no NaN and no infinity, so send null, or a string for a column of floats",
    rb"None|True|False": "JSON has null, true and false",
    rb"'": "JSON has strings in double quotes",
    rb"(?<=,)[,\s]*[}\]]": "JSON has no comma after the last value",
    rb"undefined": "JSON has null",
}
"""Strings that programs write instead of JSON, with the JSON to write."""

_WHITESPACE: Final = re.compile(r"[ \t\r\n]*")
_ELEMENT: Final = json.JSONDecoder(parse_float=str, parse_int=str)

DECODE_ERRORS: Final = (msgspec.DecodeError, ValueError, RecursionError, ArithmeticError)
"""Exceptions of a decoder: besides its error those for bad UTF-8, deep nesting, and exponents beyond Decimal."""


def strip_body(body: bytes) -> tuple[bytes, int]:
    """Return the body without byte order mark and outer whitespace, and the bytes removed in front.

    Raises RejectedInput `empty_request`, or `malformed_json` for a body that starts no JSON message.
    """
    length = len(body)
    body = body.removeprefix(_BYTE_ORDER_MARK).lstrip(b" \t\r\n")
    offset = length - len(body)
    body = body.rstrip(b" \t\r\n")
    if not body:
        raise RejectedInput(Code.EMPTY_REQUEST, "the body is empty")
    if not body.startswith((b"{", b"[", b"null")):
        check_utf8(body, offset)
        raise RejectedInput(Code.MALFORMED_JSON, "the body must start with { or [")
    return body, offset


def split_messages(body: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """Yield each message of a stripped body with its byte position in the request.

    Raises RejectedInput `malformed_json` where no message can start or end.
    """
    return _elements(body, offset) if body.startswith(b"[") else _objects(body, offset)


def reason_of(error: Exception, offset: int, part: bytes = b"") -> str:
    """Return a decoder's reason without any text of the body, its byte positions counted from `offset`.

    With the `part` that was decoded, the reason says what to write for what programs often write as JSON.
    """
    text = _BYTE.sub(lambda byte: f"(byte {int(byte[1]) + offset})", str(error))
    if isinstance(error, RecursionError):
        return f"nested too deeply at byte {offset} or after it"
    if isinstance(error, ArithmeticError):
        return f"a number is out of range at byte {offset} or after it"
    if isinstance(error, msgspec.DecodeError):
        return text.removeprefix("JSON is malformed: ") + _advice(str(error), part)
    byte = _BYTE.search(text)
    return f"a string is not valid at byte {byte[1] if byte else offset}"


def _advice(error: str, part: bytes) -> str:
    """Return what to write in the place of what is at the byte that an error names."""
    byte = _BYTE.search(error)
    if byte is None:
        return ""
    at = int(byte[1])
    at -= part[max(at - 1, 0) : at] == b"-"  # the decoder reads it, and names what follows
    before = part[:at].rstrip()[-1:] or b","  # only elements of an array behind a comma begin with what is wrong
    text = before + part[at : at + 16]
    found = (advice for pattern, advice in _NO_JSON.items() if re.compile(pattern).match(text, 1))
    return next((f"; {advice}" for advice in found), "")


def _objects(body: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    depth, start, end = 0, 0, 0
    for token in _TOKEN.finditer(body):
        if token[0] == b"{":
            if depth == 0:
                start = token.start()
                _check_between(body[end:start], offset + end)
            depth += 1
        elif token[0] == b"}":
            depth -= 1
            if depth == 0:
                end = token.end()
                yield offset + start, body[start:end]
            elif depth < 0:
                raise RejectedInput(Code.MALFORMED_JSON, f"unexpected }} at byte {offset + token.start()}")
        elif token[0] == b"null" and depth == 0:
            _check_between(body[end : token.start()], offset + end)
            end = token.end()
            yield offset + token.start(), b"null"
    if depth > 0:
        raise RejectedInput(Code.MALFORMED_JSON, f"the object that starts at byte {offset + start} does not end")
    _check_between(body[end:], offset + end)


def _elements(body: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    text = body.decode("latin-1")  # one character per byte; the syntax of JSON is ASCII
    position = _skip_whitespace(text, 1)
    if text[position : position + 1] == "]":
        return
    while True:
        start = position
        try:
            _, end = _ELEMENT.raw_decode(text, start)
        except (ValueError, RecursionError):
            raise _malformed_element(body[start:], offset + start) from None
        yield offset + start, body[start:end]
        position = _skip_whitespace(text, end)
        if text[position : position + 1] != ",":
            break
        position = _skip_whitespace(text, position + 1)
    if text[position:] != "]":
        reason = f"invalid character (byte {offset + position})" if position < len(text) else "Input data was truncated"
        raise RejectedInput(Code.MALFORMED_JSON, f"not valid JSON: {reason}")


def _skip_whitespace(text: str, position: int) -> int:
    match = _WHITESPACE.match(text, position)
    return match.end() if match else position


def _malformed_element(rest: bytes, offset: int) -> RejectedInput:
    """Return the rejection of an array whose next element, at the start of `rest`, is not JSON."""
    reason = "invalid character"
    try:
        msgspec.json.decode(rest, type=msgspec.Raw)
    except DECODE_ERRORS as error:
        reason = reason_of(error, offset, rest)
    return RejectedInput(Code.MALFORMED_JSON, f"not valid JSON: {reason}")


def _check_between(between: bytes, offset: int) -> None:
    if between.strip(b" \t\r\n"):
        raise RejectedInput(Code.MALFORMED_JSON, f"unexpected text between messages at byte {offset}")
