"""Strict decoder of JSON bodies into typed messages: one object, an array, NDJSON or objects one after the other.

msgspec decodes the body as a whole. What it accepts silently (duplicate keys, U+0000, deep nesting) is checked beside
it, and a body that it rejects is decoded again message by message, so that the error names the wrong one.

Invariant: no number passes through float, and no error text holds a value of the body.
"""

import re
from decimal import Decimal
from functools import reduce
from operator import getitem
from types import GenericAlias
from typing import Final, Generic, TypeVar

import msgspec

from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.domain.model.written_number import fraction, keep_minus_zeros
from app.errors import Code, Problem, RejectedInput
from app.errors.json_pointer import pointer_to
from app.formats.json.duplicate_keys import check_strictly
from app.formats.json.framing import DECODE_ERRORS, reason_of, split_messages, strip_body
from app.formats.json.nested_values import check_nested_values
from app.formats.json.texts import check_texts, first_wrong_byte

Message = TypeVar("Message")

MAX_EXPONENT: Final = 6_144
"""Powers of ten of a fraction, as in the largest decimal format of IEEE 754."""

_ONE_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_PATH: Final = re.compile(r" - at `(?:key in )?\$?([^`]*)`")
_SOME_KEY: Final = "[...]"
_MAX_BYTES_TRIED: Final = 2**20
"""Bytes decoded to find the JSON key that a rejection is about."""


class MessageDecoder(Generic[Message]):
    """Decodes bodies whose messages have one msgspec type. Fractions become Decimal, never float.

    Optional keys of the type must default to UNSET, as `check_strictly` requires.
    """

    def __init__(self, message_type: type[Message]) -> None:
        self._one = msgspec.json.Decoder(message_type, float_hook=exact_fraction)
        self._many = msgspec.json.Decoder(GenericAlias(list, (message_type,)), float_hook=exact_fraction)

    def decode(self, body: bytes, limits: InputLimits = UNLIMITED) -> list[Message]:
        """Return the messages of a body in order.

        Raises RejectedInput `malformed_json`, `duplicate_member`, `malformed_message`, `empty_request`,
        `too_many_messages` or `too_many_nested_values`, with the index and pointer of a wrong message.
        """
        body, offset = strip_body(body)
        check_nested_values(body, limits.messages)
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
        check_strictly(body, messages, offset)
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
            message = self._one.decode(part)  # as it is written first, for the positions in error texts
            kept = keep_minus_zeros(part)
            return message if kept is part else self._one.decode(kept)
        except msgspec.ValidationError as error:
            pointer, reason = _where(str(error))
            problem = Problem(Code.MALFORMED_MESSAGE, reason, index, self._key_at(part, str(error)) or pointer)
            raise RejectedInput.of((problem,)) from None
        except DECODE_ERRORS as error:
            problem = Problem(Code.MALFORMED_JSON, f"not valid JSON: {reason_of(error, offset)}", index)
            raise RejectedInput.of((problem,)) from None

    def _key_at(self, part: bytes, message: str) -> str | None:
        """Return the JSON Pointer of the key that a validation message leaves open as `[...]`, by trying each alone.

        None where the message names the whole path, or would have to be tried too often.
        """
        path = _PATH.search(message)
        before, some, behind = path[1].partition(_SOME_KEY) if path else ("", "", "")
        if not (before and some):
            return None
        *outer, last = before.removeprefix(".").split(".")
        try:
            whole = msgspec.json.decode(part)
            parent = reduce(getitem, outer, whole)
            values = parent[last]
            if not isinstance(values, dict) or len(values) * len(part) > _MAX_BYTES_TRIED:
                return None
            for name, value in values.items():
                parent[last] = {name: value}
                if self._validation_error(msgspec.json.encode(whole)) == message:
                    rest = behind.replace(_SOME_KEY, "").replace(".", "/")
                    return pointer_to(before.replace(".", "/"), name) + rest
        except DECODE_ERRORS:
            pass  # a message that cannot be decoded without a type is named by the path alone
        return None

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


def _where(message: str) -> tuple[str, str]:
    """Return pointer and reason of a validation message such as "Expected `str`, got `int` - at `$.opType`"."""
    match = _PATH.search(message)
    if match is None:
        return "", message
    return match[1].replace(_SOME_KEY, "").replace(".", "/"), message[: match.start()]
