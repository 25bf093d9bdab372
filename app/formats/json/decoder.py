"""Strict decoder of JSON bodies into typed messages: one object, an array, NDJSON or objects one after the other.

msgspec decodes the body as a whole. What it accepts silently (duplicate keys, U+0000, deep nesting) is checked beside
it, and a body that it rejects is decoded again message by message, so that the error names the wrong one.

Invariant: no number passes through float, and no error text holds a value of the body.
"""

from decimal import Decimal
from types import GenericAlias
from typing import Final, Generic, TypeVar

import msgspec

from app.domain.model.input_limits import OBJECT_BYTES, UNLIMITED, InputLimits
from app.domain.model.written_number import fraction, keep_minus_zeros
from app.errors import Code, Problem, RejectedInput
from app.formats.json.duplicate_keys import check_strictly
from app.formats.json.framing import DECODE_ERRORS, reason_of, split_messages, strip_body
from app.formats.json.nested_values import check_nested_values, count_values
from app.formats.json.texts import check_texts, first_wrong_byte
from app.formats.json.validation import open_key, where

Message = TypeVar("Message")

MAX_EXPONENT: Final = 6_144
"""Powers of ten of a fraction, as in the largest decimal format of IEEE 754."""

_ONE_RAW: Final = msgspec.json.Decoder(msgspec.Raw)
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])


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
