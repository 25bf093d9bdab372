"""JSON bodies -> typed messages: one object, an array, NDJSON or concatenated objects, in UTF-8."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import reduce
from operator import getitem
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.domain.model.written_number import fraction, keep_minus_zeros
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to
from app.formats.json.duplicate_key_prefilter import is_suspicious
from app.formats.json.duplicate_keys import check_duplicate_keys
from app.formats.json.nested_values import check_nested_values
from app.formats.json.utf8 import first_wrong_byte

Message = TypeVar("Message")

Counter: TypeAlias = Callable[[Sequence[Message]], int]
"""How many members decoded messages were written with, or fewer, those of objects within opaque values left out.
A member that the type does not know makes the count fall short, which costs time and nothing else."""

MAX_EXPONENT: Final = 6_144
"""Powers of ten of a fraction, as in the largest decimal format of IEEE 754; a larger one is no measurement."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_ONE_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_MANY_RAW: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[{}]', re.DOTALL)
"""A string, also one that does not end (or each of its quotes would be tried as a start), or a brace."""

_NOT_TEXT: Final = re.compile(rb"(?<!\\)(?:\\\\)*(?:(\\u0000)|(\\u[dD][89a-fA-F]))")
_SURROGATE_PAIR: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_PATH: Final = re.compile(r" - at `(?:key in )?\$?([^`]*)`")
_SOME_KEY: Final = "[...]"
_MAX_BYTES_TRIED: Final = 2**20
"""Bytes decoded to find the member that a rejection is about."""

_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_ELEMENT: Final = json.JSONDecoder(parse_float=str, parse_int=str)
_OTHER_REJECTIONS: Final = (ValueError, RecursionError, ArithmeticError)
"""What the decoder lets through: bad UTF-8, too deep nesting, an exponent that no Decimal has."""


class MessageDecoder(Generic[Message]):
    """Decodes bodies whose messages have one msgspec type. Fractions become Decimal, never float.

    With a `count` of the members decoded, clean bodies are cleared by counting; without, each gets the exact look.
    """

    def __init__(self, message_type: type[Message], count: Counter[Message] | None = None) -> None:
        self._count = count
        self._one = msgspec.json.Decoder(message_type, float_hook=_fraction)
        self._many = msgspec.json.Decoder(list[message_type], float_hook=_fraction)  # type: ignore[valid-type]  # built at run time

    def decode(self, body: bytes, limits: InputLimits = UNLIMITED) -> list[Message]:
        """The messages of a body in order. Raises RejectedInput `malformed_json`, `duplicate_member`,
        `malformed_message`, `empty_request`, `too_many_messages` or `too_many_nested_values`; a wrong message is named
        by index and pointer."""
        body, offset = _stripped(body)
        check_nested_values(body, limits.messages)
        try:
            messages = _framed(keep_minus_zeros(body), self._one, self._many)
        except (msgspec.DecodeError, *_OTHER_REJECTIONS):
            _check_texts(body, offset)
            messages = []
            for index, part in enumerate(_parts(body, offset)):
                limits.check_messages(index + 1)
                messages.append(self._decode_part(index, *part))
        if not messages:
            raise RejectedInput(Code.EMPTY_REQUEST, "the body holds no message")
        limits.check_messages(len(messages))
        check_nested_values(body, len(messages))
        if self._count is None or is_suspicious(body, self._count(messages)):
            _check_texts(body, offset)
            check_duplicate_keys(body, offset)
        return messages

    def decode_well_formed(self, body: bytes) -> list[Message] | None:
        """The messages of a body that is UTF-8 and decodes, None for any other. Nobody has looked for duplicates."""
        try:
            if first_wrong_byte(body) is not None:
                return None
            return _framed(_stripped(body)[0], self._one, self._many)
        except (msgspec.DecodeError, RejectedInput, *_OTHER_REJECTIONS):
            return None

    def _decode_part(self, index: int, offset: int, part: bytes) -> Message:
        try:
            return self._one.decode(part)
        except msgspec.ValidationError as error:
            pointer, reason = _where(str(error))
            problem = Problem(Code.MALFORMED_MESSAGE, reason, index, self._key_at(part, str(error)) or pointer)
            raise RejectedInput.of((problem,)) from None
        except (msgspec.DecodeError, *_OTHER_REJECTIONS) as error:
            problem = Problem(Code.MALFORMED_JSON, f"not valid JSON: {_reason(error, offset)}", index)
            raise RejectedInput.of((problem,)) from None

    def _key_at(self, part: bytes, message: str) -> str | None:
        """The JSON Pointer of the member that a validation message leaves open as `[...]`, found by trying each alone.

        None where it names all of the path, or the message is too long to be tried so often.
        """
        path = _PATH.search(message)
        before, some, behind = path[1].partition(_SOME_KEY) if path else ("", "", "")
        if not (before and some):
            return None
        *outer, last = before.removeprefix(".").split(".")
        try:
            whole = msgspec.json.decode(part)
            parent = reduce(getitem, outer, whole)
            members = parent[last]
            if not isinstance(members, dict) or len(members) * len(part) > _MAX_BYTES_TRIED:
                return None
            for name, value in members.items():
                parent[last] = {name: value}
                if self._rejection_of(msgspec.json.encode(whole)) == message:
                    rest = behind.replace(_SOME_KEY, "").replace(".", "/")
                    return pointer_to(before.replace(".", "/"), name) + rest
        except (msgspec.DecodeError, *_OTHER_REJECTIONS):
            pass  # what cannot be decoded without a type is named by the path alone
        return None

    def _rejection_of(self, part: bytes) -> str | None:
        try:
            self._one.decode(part)
        except msgspec.ValidationError as error:
            return str(error)
        return None


def raw_messages(body: bytes) -> list[bytes]:
    """The messages of a body that was decoded, each as it is written."""
    body, offset = _stripped(body)
    try:
        return [bytes(message) for message in _framed(body, _ONE_RAW, _MANY_RAW)]
    except (msgspec.DecodeError, *_OTHER_REJECTIONS):
        return [part for _, part in _parts(body, offset)]


def _framed(
    body: bytes, one: msgspec.json.Decoder[Message], many: msgspec.json.Decoder[list[Message]]
) -> list[Message]:
    """The messages of an array, of lines, or the only one."""
    if body.startswith(b"["):
        return many.decode(body)
    if b"\n{" in body or body.endswith(b"\nnull") or body.startswith(b"null\n"):
        return one.decode_lines(body)
    return [one.decode(body)]


def _fraction(text: str) -> Decimal:
    number = fraction(text)
    if not -MAX_EXPONENT <= number.adjusted() <= MAX_EXPONENT:
        raise ArithmeticError
    return number


def _stripped(body: bytes) -> tuple[bytes, int]:
    """The body without byte order mark and outer blanks, and how many bytes stood before it."""
    length = len(body)
    body = body.removeprefix(_BYTE_ORDER_MARK).lstrip(b" \t\r\n")
    offset = length - len(body)
    body = body.rstrip(b" \t\r\n")
    if not body:
        raise RejectedInput(Code.EMPTY_REQUEST, "the body is empty")
    if not body.startswith((b"{", b"[", b"null")):
        _check_utf8(body, offset)
        raise RejectedInput(Code.MALFORMED_JSON, "the body starts with neither { nor [")
    return body, offset


def _check_texts(body: bytes, offset: int) -> None:
    """All of them: the decoder itself checks no text that it skips, and none for U+0000."""
    _check_utf8(body, offset)
    _check_escapes(body, offset)


def _check_utf8(body: bytes, offset: int) -> None:
    wrong = first_wrong_byte(body)
    if wrong is not None:
        raise RejectedInput(Code.MALFORMED_JSON, f"the body is not UTF-8 at byte {offset + wrong}")


def _check_escapes(body: bytes, offset: int) -> None:
    """No text may hold U+0000 or half of a surrogate pair, neither in a member that nothing reads."""
    position = 0
    while found := _NOT_TEXT.search(body, position):
        start = found.start(found.lastindex or 0)
        if found[1]:
            raise RejectedInput(Code.MALFORMED_JSON, f"the character U+0000 stands at byte {offset + start}")
        pair = _SURROGATE_PAIR.match(body, start)
        if pair is None:
            raise RejectedInput(Code.MALFORMED_JSON, f"half of a surrogate pair stands at byte {offset + start}")
        position = pair.end()


def _parts(body: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """The single messages of a body that did not decode as a whole, each with its place in the request.

    One after the other: what is wrong ends the search, and a body of two bytes a message never becomes a list of them.
    """
    return _elements(body, offset) if body.startswith(b"[") else _objects(body, offset)


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
    if depth > 0:
        raise RejectedInput(Code.MALFORMED_JSON, f"the object that starts at byte {offset + start} does not end")
    _check_between(body[end:], offset + end)


def _elements(body: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """Raises RejectedInput at the first byte that cannot stand there."""
    text = body.decode("latin-1")  # a character a byte; what is JSON's own is ASCII
    position = _after_blanks(text, 1)
    if text[position : position + 1] == "]":
        return
    while True:
        start = position
        try:
            _, end = _ELEMENT.raw_decode(text, start)
        except (ValueError, RecursionError):
            raise _malformed_element(body[start:], offset + start) from None
        yield offset + start, body[start:end]
        position = _after_blanks(text, end)
        if text[position : position + 1] != ",":
            break
        position = _after_blanks(text, position + 1)
    if text[position:] != "]":
        reason = f"invalid character (byte {offset + position})" if position < len(text) else "Input data was truncated"
        raise RejectedInput(Code.MALFORMED_JSON, f"not valid JSON: {reason}")


def _after_blanks(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position


def _malformed_element(rest: bytes, offset: int) -> RejectedInput:
    """What the decoder says of a list whose next element, with which `rest` begins, is not JSON."""
    reason = "invalid character"
    try:
        msgspec.json.decode(rest, type=msgspec.Raw)
    except (msgspec.DecodeError, *_OTHER_REJECTIONS) as error:
        reason = _reason(error, offset)
    return RejectedInput(Code.MALFORMED_JSON, f"not valid JSON: {reason}")


def _check_between(gap: bytes, offset: int) -> None:
    if gap.strip(b" \t\r\n"):
        raise RejectedInput(Code.MALFORMED_JSON, f"unexpected text between messages at byte {offset}")


def _reason(error: Exception, offset: int) -> str:
    """What the decoder says, without any text of the body; its places count from `offset`."""
    text = _BYTE.sub(lambda byte: f"(byte {int(byte[1]) + offset})", str(error))
    if isinstance(error, RecursionError):
        return f"nested too deeply at byte {offset} or after it"
    if isinstance(error, ArithmeticError):
        return f"a number is out of range at byte {offset} or after it"
    if isinstance(error, msgspec.DecodeError):
        return text.removeprefix("JSON is malformed: ")
    byte = _BYTE.search(text)
    return f"a text is not valid at byte {byte[1] if byte else offset}"


def _where(message: str) -> tuple[str, str]:
    """The JSON Pointer and the reason in a validation message such as "Expected `str`, got `int` - at `$.opType`"."""
    match = _PATH.search(message)
    if match is None:
        return "", message
    return match[1].replace(_SOME_KEY, "").replace(".", "/"), message[: match.start()]
