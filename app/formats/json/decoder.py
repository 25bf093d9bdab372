"""Strict decoder of JSON bodies into typed messages: one object, an array, NDJSON or objects one after the other.

`MessageDecoder` has msgspec decode a body as a whole. `check_strictly` checks what msgspec accepts silently (duplicate
keys, U+0000, deep nesting), and a body that msgspec rejects is decoded again message by message, so that the error
names the wrong one.

`convert` converts decoded JSON values to msgspec types. msgspec names the path of a wrong value, but leaves the key of
a mapping open as `[...]`; `open_key` finds that key.

Invariant: no number passes through float, and no error message holds a value of the body.
"""

import json
import re
from collections.abc import Callable, Collection, Sequence
from decimal import Decimal
from functools import reduce
from operator import getitem
from types import GenericAlias
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np

from app.domain.model.change import OBJECT_BYTES, UNLIMITED, InputLimits
from app.domain.model.written_values import JSON_ENCODER, fraction, keep_minus_zeros
from app.formats.json.framing import DECODE_ERRORS, reason_of, split_messages, strip_body
from app.formats.json.quote_accounting import count_quotes, count_structural_quotes
from app.formats.json.texts import (
    MAX_NESTING,
    check_nested_values,
    check_texts,
    count_values,
    first_wrong_byte,
    is_too_deep,
)
from mirrorgate.errors import Code, Problem, RejectedInput
from mirrorgate.errors.exceptions import pointer_to

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


def check_strictly(
    body: bytes, messages: Sequence[Any], offset: int = 0, images: Collection[str] = frozenset()
) -> None:
    """Check a valid `body`, which starts `offset` bytes into the request, and was decoded to `messages`.

    msgspec keeps the last of two equal keys and skips a key that a struct does not know. Every key has two quotes. So
    if the decoded messages, written again, have as many quotes as the body, nothing was dropped
    (docs/contribute/decisions/0034). Any other body is read a second time, key by key. Invariant: a body that passes
    has no key twice in any object, no U+0000 and at most MAX_NESTING levels.

    Optional keys of their types must default to UNSET: a key that was not written must not be written again.

    Raises RejectedInput `duplicate_member` with index and pointer, or `malformed_json`. A pointer names a key of a
    message or of its `images`; the keys of deeper objects can be values of a row.
    """
    if not _is_all_decoded(body, messages):
        check_texts(body, offset)
        _check_each_key(body, offset, images)


def _is_all_decoded(body: bytes, messages: Sequence[Any]) -> bool:
    """Return True if a body consists of its decoded messages. True is proof; False costs a second reading."""
    found = _MISLEADING_ESCAPE.search(body)
    if found and b"\\u0000" in body:
        return False
    count = count_structural_quotes if found else count_quotes
    quotes = 0
    try:
        for start in range(0, len(messages), _SLICE):
            written = JSON_ENCODER.encode_lines(messages[start : start + _SLICE])
            if _has_many_brackets(written) and any(map(is_too_deep, written.splitlines())):
                return False
            quotes += count(written)
    except RecursionError:
        return False
    return quotes == count(body)


def _has_many_brackets(lines: bytes) -> bool:
    """Return True if a line may have more than MAX_NESTING opening brackets, those in strings included."""
    if len(lines) < _SHORT:
        return True
    text = np.frombuffer(lines, np.uint8)
    brackets = np.flatnonzero(text | _CASE == _BRACE)
    ends = np.flatnonzero(text == _BREAK)
    return bool((np.diff(np.searchsorted(brackets, ends), prepend=0) > MAX_NESTING).any())


def _check_each_key(body: bytes, offset: int, images: Collection[str]) -> None:
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
            pointer = _pointer(text, start)
            while pointer and (above := pointer.rpartition("/")[0]) and above not in images:
                pointer = above
            raise RejectedInput.at(Code.DUPLICATE_MEMBER, detail, index, pointer) from None
        except RecursionError:
            wrong = _TOO_DEEP
        except ValueError:
            wrong = "not valid JSON"
        if wrong:
            detail = f"the message that starts at byte {offset + len(text[:start].encode())} is {wrong}"
            raise RejectedInput.at(Code.MALFORMED_JSON, detail, index)
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


Converted = TypeVar("Converted")

_PATH: Final = re.compile(r" - at `(?:key in )?\$?([^`]*)`")
_FRACTION: Final = re.compile("`(?:decimal|WrittenNumber)`")
_SOME_KEY: Final = "[...]"
_MAX_BYTES_TRIED: Final = 2**20
"""Bytes validated to find the JSON key that a rejection is about."""


def convert(value: Any, wanted: type[Converted], index: int, at: str) -> Converted:
    """Return a decoded value as this type; fractions are Decimal.

    Raises RejectedInput `malformed_message` with the pointer of what is wrong, below `at`.
    """
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        message = str(error)
    pointer, reason = where(message)
    if _SOME_KEY in message:
        size = len(JSON_ENCODER.encode(value))
        pointer = open_key(value, size, message, lambda one: _validation_error(one, wanted)) or pointer
    raise RejectedInput.at(Code.MALFORMED_MESSAGE, reason, index, at + pointer)


def where(message: str) -> tuple[str, str]:
    """Return pointer and reason of a validation message such as "Expected `str`, got `int` - at `$.opType`"."""
    message = message.replace("Integer value out of range", "an integer has too many digits")
    message = _FRACTION.sub("`number`", message)
    match = _PATH.search(message)
    if match is None:
        return "", message
    return match[1].replace(_SOME_KEY, "").replace(".", "/"), message[: match.start()]


def open_key(whole: Any, size: int, message: str, validation_error: Callable[[Any], str | None]) -> str | None:
    """Return the pointer of the key that a validation message leaves open.

    `validation_error` validates the value, of `size` bytes, again with one key of the open mapping alone. None where
    the message names the whole path, or where there are too many bytes and keys to try.
    """
    path = _PATH.search(message)
    before, some, behind = path[1].partition(_SOME_KEY) if path else ("", "", "")
    if not (before and some):
        return None
    steps = before.removeprefix(".").split(".")
    try:
        values = reduce(getitem, steps, whole)
    except (KeyError, TypeError):
        return None  # a step of the path is an element of a list: the message names the path alone
    if not isinstance(values, dict) or len(values) * size > _MAX_BYTES_TRIED:
        return None
    for name, value in values.items():
        if validation_error(_with(whole, steps, {name: value})) == message:
            rest = behind.replace(_SOME_KEY, "").replace(".", "/")
            return pointer_to(before.replace(".", "/"), name) + rest
    return None


def _with(whole: Any, steps: Sequence[str], value: Any) -> Any:
    """Return a copy of nested objects with another value at the end of the steps."""
    return {**whole, steps[0]: _with(whole[steps[0]], steps[1:], value)} if steps else value


def _validation_error(value: Any, wanted: Any) -> str | None:
    try:
        msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        return str(error)
    return None


Message = TypeVar("Message")

MAX_EXPONENT: Final = 6_144
"""Powers of ten of a fraction, as in the largest decimal format of IEEE 754."""

_ONE_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])


class MessageDecoder(Generic[Message]):
    """Decoder of bodies whose messages have one msgspec type. Fractions become Decimal, never float.

    Optional keys of the type must default to UNSET, as `check_strictly` requires.
    """

    def __init__(self, message_type: type[Message], *, images: Collection[str] = ()) -> None:
        """Take messages of this type. `images` are the JSON Pointers of their row images, if they are no rows."""
        self._images = images
        self._one = msgspec.json.Decoder(message_type, float_hook=exact_fraction)
        self._many = msgspec.json.Decoder(GenericAlias(list, (message_type,)), float_hook=exact_fraction)

    def decode(self, body: bytes, limits: InputLimits = UNLIMITED) -> list[Message]:
        """Return the messages of a body in order.

        Raises RejectedInput `malformed_json`, `duplicate_member`, `malformed_message`, `empty_request`,
        `too_many_messages` or `too_many_nested_values`, with the index and pointer of a wrong message; and what
        `limits.reserve` raises.
        """
        body, offset = strip_body(body)
        check_nested_values(body, limits.messages)
        limits.reserve(count_values(body) * OBJECT_BYTES)
        try:
            messages = _framed(keep_minus_zeros(body), self._one, self._many)
        except DECODE_ERRORS:
            check_texts(body, offset)
            messages = []
            for index, part in enumerate(split_messages(body, offset)):
                limits.check_messages(index + 1)
                messages.append(self._decode_part(index, *part))
        if not messages:
            raise RejectedInput(Code.EMPTY_REQUEST, "the body contains no message")
        limits.check_messages(len(messages))
        check_nested_values(body, len(messages))
        check_strictly(body, messages, offset, self._images)
        return messages

    def decode_well_formed(self, body: bytes) -> list[Message] | None:
        """Return the messages of a body that decodes, None for any other body. Duplicate keys are not checked."""
        try:
            if first_wrong_byte(body) is not None:
                return None
            return _framed(strip_body(body)[0], self._one, self._many)
        except (RejectedInput, *DECODE_ERRORS):
            return None

    def _decode_part(self, index: int, offset: int, part: bytes) -> Message:
        try:
            message = self._one.decode(part)  # as it is written first, for the positions in error messages
            kept = keep_minus_zeros(part)
            return message if kept is part else self._one.decode(kept)
        except msgspec.ValidationError as error:
            pointer, reason = where(str(error))
            problem = Problem(Code.MALFORMED_MESSAGE, reason, index, self._key_at(part, str(error)) or pointer)
            raise RejectedInput.of((problem,)) from None
        except DECODE_ERRORS as error:
            problem = Problem(Code.MALFORMED_JSON, f"not valid JSON: {reason_of(error, offset, part)}", index)
            raise RejectedInput.of((problem,)) from None

    def _key_at(self, part: bytes, message: str) -> str | None:
        """Return the JSON Pointer of the key that a validation message leaves open; see `open_key`."""
        try:
            whole = msgspec.json.decode(part)
        except DECODE_ERRORS:
            return None  # a message that cannot be decoded without a type is named by the path alone
        return open_key(whole, len(part), message, lambda one: self._validation_error(msgspec.json.encode(one)))

    def _validation_error(self, part: bytes) -> str | None:
        try:
            self._one.decode(part)
        except msgspec.ValidationError as error:
            return str(error)
        return None


def raw_messages(body: bytes) -> list[bytes]:
    """Return the messages of a body that was decoded before, each as it is written."""
    body, offset = strip_body(body)
    try:
        return [bytes(message) for message in _framed(body, _ONE_RAW, _RAW_LIST)]
    except DECODE_ERRORS:
        return [part for _, part in split_messages(body, offset)]


def _framed(
    body: bytes, one: msgspec.json.Decoder[Message], many: msgspec.json.Decoder[list[Message]]
) -> list[Message]:
    """Decode an array, lines, or one message."""
    if body.startswith(b"["):
        return many.decode(body)
    if b"\n{" in body or body.endswith(b"\nnull") or body.startswith(b"null\n"):
        return one.decode_lines(body)
    return [one.decode(body)]


def exact_fraction(text: str) -> Decimal:
    """Return a JSON number with a point or an exponent, exactly. Raises ArithmeticError beyond MAX_EXPONENT."""
    number = fraction(text)
    if not -MAX_EXPONENT <= number.adjusted() <= MAX_EXPONENT:
        raise ArithmeticError
    return number
