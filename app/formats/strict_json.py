"""JSON bodies -> typed messages: one object, an array, NDJSON or concatenated objects, in UTF-8."""

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

import msgspec

from app.errors import Code, Problem, RejectedInput

Message = TypeVar("Message")

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}]', re.DOTALL)
"""A string, also one that does not end (or each of its quotes would be tried as a start), or a brace."""

_NULL_CHARACTER: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_PATH: Final = re.compile(r" - at `(?:key in )?\$?([^`]*)`")
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_OTHER_REFUSALS: Final = (ValueError, RecursionError, ArithmeticError)
"""What the decoder lets through: bad UTF-8, too deep nesting, an exponent that no Decimal has."""


class MessageDecoder(Generic[Message]):
    """Decodes bodies whose messages have one msgspec type. Fractions become Decimal, never float."""

    def __init__(self, message_type: type[Message]) -> None:
        hook: Callable[[str], Any] = Decimal
        self._one = msgspec.json.Decoder(message_type, float_hook=hook)
        self._many = msgspec.json.Decoder(list[message_type], float_hook=hook)  # type: ignore[valid-type]  # built at run time

    def decode(self, body: bytes) -> list[Message]:
        """The messages of a body in order. Raises RejectedInput `malformed_json`, `malformed_message` or
        `empty_request`; a wrong message is named by index and pointer."""
        body = _checked_text(body)
        try:
            if body.startswith(b"["):
                messages: list[Message] = self._many.decode(body)
            elif b"\n{" in body:
                messages = self._one.decode_lines(body)
            else:
                messages = [self._one.decode(body)]
        except (msgspec.DecodeError, *_OTHER_REFUSALS):
            messages = [self._decode_part(index, part) for index, part in enumerate(_parts(body))]
        if not messages:
            raise RejectedInput(Code.EMPTY_REQUEST, "the body holds no message")
        return messages

    def _decode_part(self, index: int, part: bytes) -> Message:
        try:
            return self._one.decode(part)
        except msgspec.ValidationError as error:
            pointer, reason = _where(str(error))
            problem = Problem(Code.MALFORMED_MESSAGE, reason, index, pointer)
            raise RejectedInput.of((problem,)) from None
        except (msgspec.DecodeError, *_OTHER_REFUSALS) as error:
            problem = Problem(Code.MALFORMED_JSON, f"not valid JSON: {_reason(error)}", index)
            raise RejectedInput.of((problem,)) from None


def _checked_text(body: bytes) -> bytes:
    body = body.removeprefix(_BYTE_ORDER_MARK).strip(b" \t\r\n")
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise RejectedInput(Code.MALFORMED_JSON, f"the body is not UTF-8 at byte {error.start}") from None
    if not body:
        raise RejectedInput(Code.EMPTY_REQUEST, "the body is empty")
    if b"\\u0000" in body and (null := _NULL_CHARACTER.search(body)):
        raise RejectedInput(Code.MALFORMED_JSON, f"the character U+0000 stands at byte {null.end() - 6}")
    if not body.startswith((b"{", b"[")):
        raise RejectedInput(Code.MALFORMED_JSON, "the body starts with neither { nor [")
    return body


def _parts(body: bytes) -> list[bytes]:
    """The single messages of a body that did not decode as a whole."""
    if body.startswith(b"["):
        try:
            return [bytes(part) for part in msgspec.json.decode(body, type=list[msgspec.Raw])]
        except (msgspec.DecodeError, *_OTHER_REFUSALS) as error:
            raise RejectedInput(Code.MALFORMED_JSON, f"not valid JSON: {_reason(error)}") from None
    parts, depth, start, end = [], 0, 0, 0
    for token in _TOKEN.finditer(body):
        if token[0] == b"{":
            if depth == 0:
                start = token.start()
                _check_between(body[end:start], end)
            depth += 1
        elif token[0] == b"}":
            depth -= 1
            if depth == 0:
                end = token.end()
                parts.append(body[start:end])
            elif depth < 0:
                raise RejectedInput(Code.MALFORMED_JSON, f"unexpected }} at byte {token.start()}")
    if depth > 0:
        raise RejectedInput(Code.MALFORMED_JSON, f"the object that starts at byte {start} does not end")
    _check_between(body[end:], end)
    return parts


def _check_between(gap: bytes, offset: int) -> None:
    if gap.strip(b" \t\r\n"):
        raise RejectedInput(Code.MALFORMED_JSON, f"unexpected text between messages at byte {offset}")


def _reason(error: Exception) -> str:
    """What the decoder says, without any text of the body."""
    text = str(error)
    byte = _BYTE.search(text)
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, ArithmeticError):
        return "a number is out of range"
    if isinstance(error, msgspec.DecodeError):
        return text.removeprefix("JSON is malformed: ")
    return f"a text is not valid{f' at byte {byte[1]}' if byte else ''}"


def _where(message: str) -> tuple[str, str]:
    """The JSON Pointer and the reason in a validation message such as "Expected `str`, got `int` - at `$.opType`"."""
    match = _PATH.search(message)
    if match is None:
        return "", message
    return match[1].replace("[...]", "").replace(".", "/"), message[: match.start()]
