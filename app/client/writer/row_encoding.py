"""Rows and messages as lines of JSON.

JSON has no NaN, and msgspec writes it as null, which would land as NULL without an error. So a row with null in its
text is searched for such a number.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from app.errors import Code, RejectedInput

Encode: TypeAlias = Callable[[Any], bytes]

_encoder: Final = msgspec.json.Encoder()
_one_value: Final = msgspec.json.Decoder(msgspec.Raw)


def encode_row(row: Any) -> bytes:
    """Return a row as a JSON object in one line.

    A row is a mapping, a dataclass, an attrs class or a msgspec Struct. Decimals, dates, times and UUIDs become texts,
    bytes become base64. Raises RejectedInput `malformed_message` for anything else, and for NaN and infinity.
    """
    try:
        body = _encoder.encode(row)
        if b"null" in body and _has_no_json(msgspec.to_builtins(row)):
            raise _malformed("it has a number that is NaN or infinite", "Write None, or the text that the table takes.")
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        reason = "a text has a lone surrogate" if isinstance(error, UnicodeError) else str(error)
        raise _malformed(reason, "Give values that JSON has, or `encode`, a function that writes a row.") from error
    return body


def as_row(body: bytes, operation: str | None) -> bytes:
    """Return an encoded row with its operation if there is one. Raises RejectedInput `malformed_message`."""
    if not body.startswith(b"{"):
        raise _malformed("it is no object of values by column name", "Give a mapping, a dataclass or a Struct.")
    if operation is None:
        return body
    return b'{"__op__":%b%b' % (_encoder.encode(operation), body[1:] if body == b"{}" else b"," + body[1:])


def encode_change(message: Mapping[str, Any] | bytes | str) -> bytes:
    """Return a message of a tool in one line; texts stay as written. Raises RejectedInput."""
    if isinstance(message, str):
        message = message.encode(errors="surrogatepass")  # which `in_one_line` rejects
    return in_one_line(message) if isinstance(message, bytes) else encode_row(message)


def in_one_line(body: bytes) -> bytes:
    """Return one JSON value without line ends between its parts.

    Raises RejectedInput `malformed_message` for anything else: two values would be two messages of the request.
    """
    try:
        body.decode()
        _one_value.decode(body)
        return msgspec.json.format(body, indent=-1) if b"\n" in body or b"\r" in body else body.strip()
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise _malformed("it is not one JSON value", "Give one JSON value, in UTF-8.") from error


def _has_no_json(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_no_json, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_no_json, value))


def _malformed(reason: str, remedy: str) -> RejectedInput:
    return RejectedInput(Code.MALFORMED_MESSAGE, f"the row cannot be written as JSON: {reason}", remedy=remedy)
