"""Replicate's Avro envelope: the schema `MessageEnvelope` of Qlik's help, read and cut without an Avro library.

    magic fixed(5) "atMSG" · type string · headers null or map of string · messageSchemaId null or string ·
    messageSchema null or string · message bytes

`message` is Avro too. Its schema is beside it (`messageSchema`, in metadata messages), or it is the `dataSchema` of the
metadata message whose `schemaId` is `messageSchemaId`. Envelopes follow each other without anything between them, or
with a line break, as Kafka Connect's byte-array files have it.

As JSON, an envelope has the same members, and `message` is base64. So one request can hold many messages, with their
keys and beside messages in JSON. The gateway decodes `message` (`avro_records`). The client and the Kafka bridge use
this module, so it must not import more than msgspec.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from mirrorgate.errors import Code, RejectedInput

MAGIC: Final = b"atMSG"
_BREAKS: Final = frozenset(b"\r\n")
_MAX_VARINT_BYTES: Final = 10
_ENCODER: Final = msgspec.json.Encoder()
_NULL, _VALUE = 0, 1
_MORE: Final = 0x80
"""The bit of a number's byte that says that another one follows."""
_TWO_BYTES: Final = 1 << 14


class Incomplete(Exception):
    """The bytes end before the envelope does."""


class AvroEnvelope(
    msgspec.Struct, frozen=True, gc=False, rename={"schema_id": "messageSchemaId", "schema": "messageSchema"}
):
    """One envelope. Encoded as JSON, its message is base64."""

    magic: str
    type: str
    schema_id: str | None
    schema: str | None
    message: bytes
    """A record in Avro."""

    def to_json(self) -> bytes:
        """Return the envelope as JSON, on one line."""
        return _ENCODER.encode(self)


def read_envelope(data: bytes | bytearray, start: int = 0) -> tuple[AvroEnvelope, int]:
    """Return the envelope that begins at `start`, and the position after it.

    Raises Incomplete, or ValueError with what is wrong, without a value.
    """
    at = start + len(MAGIC)
    if data[start:at] != MAGIC:
        raise Incomplete if MAGIC.startswith(bytes(data[start:at])) else ValueError("it does not begin with atMSG")
    kind, at = _text(data, at)
    at = _after_headers(data, at)
    schema_id, at = _optional_text(data, at)
    schema, at = _optional_text(data, at)
    message, at = _bytes(data, at)
    return AvroEnvelope("atMSG", kind, schema_id, schema, message), at


def skip_breaks(data: bytes | bytearray, at: int) -> int:
    """Return the position after line breaks between envelopes."""
    while at < len(data) and data[at] in _BREAKS:
        at += 1
    return at


def read_envelopes(body: bytes, check_messages: Callable[[int], None] = lambda _: None) -> list[AvroEnvelope]:
    """Return the envelopes of a body.

    Raises RejectedInput `malformed_avro` with the index of the wrong one, and what `check_messages` raises for the
    number of messages so far.
    """
    found: list[AvroEnvelope] = []
    at = skip_breaks(body, 0)
    usual, head = AvroEnvelope("atMSG", "", None, None, b""), b""
    while at < len(body):
        check_messages(len(found) + 1)
        if head and body.startswith(head, at) and (known := _message_after(body, at + len(head))) is not None:
            message, at = known
            found.append(AvroEnvelope("atMSG", usual.type, usual.schema_id, usual.schema, message))
        else:
            try:
                usual, end = read_envelope(body, at)
            except Incomplete:
                raise _malformed("the body ends before the envelope does", at, len(found)) from None
            except ValueError as error:
                raise _malformed(str(error), at, len(found)) from None
            head = body[at : end - len(usual.message) - _varint_bytes(len(usual.message))]
            found.append(usual)
            at = end
        at = skip_breaks(body, at)
    return found


def _message_after(body: bytes, at: int) -> tuple[bytes, int] | None:
    """Return a message of up to 8 KiB at this position and its end, None for another one.

    Envelopes of one table differ in their message only, so most are read by this short way.
    """
    length = body[at] if at < len(body) else 1
    at += 1
    if length >= _MORE:
        length = length - _MORE | (body[at] << 7 if at < len(body) else 1)
        at += 1
    end = at + (length >> 1)
    return None if length & 1 or length >= _TWO_BYTES or end > len(body) else (body[at:end], end)


def _varint_bytes(length: int) -> int:
    return max(1, ((2 * length).bit_length() + 6) // 7)


def _malformed(reason: str, at: int, index: int) -> RejectedInput:
    detail = f"the message that starts at byte {at} is not an envelope of Replicate: {reason}"
    return RejectedInput.at(Code.MALFORMED_AVRO, detail, index)


def _long(data: bytes | bytearray, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_MAX_VARINT_BYTES):
        if at >= len(data):
            raise Incomplete
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise ValueError("a number has more than ten bytes")


def _bytes(data: bytes | bytearray, at: int) -> tuple[bytes, int]:
    length, at = _long(data, at)
    if length < 0:
        raise ValueError("a length is negative")
    if at + length > len(data):
        raise Incomplete
    return bytes(data[at : at + length]), at + length


def _text(data: bytes | bytearray, at: int) -> tuple[str, int]:
    written, at = _bytes(data, at)
    try:
        return written.decode(), at
    except UnicodeDecodeError:
        raise ValueError("a string is not UTF-8") from None


def _is_given(data: bytes | bytearray, at: int) -> tuple[bool, int]:
    branch, at = _long(data, at)
    if branch not in (_NULL, _VALUE):
        raise ValueError("a union has two branches, null and a value")
    return branch == _VALUE, at


def _optional_text(data: bytes | bytearray, at: int) -> tuple[str | None, int]:
    given, at = _is_given(data, at)
    return _text(data, at) if given else (None, at)


def _after_headers(data: bytes | bytearray, at: int) -> int:
    """Return the position after the headers, which are not needed: Replicate sets none."""
    given, at = _is_given(data, at)
    while given:
        count, at = _long(data, at)
        if count < 0:  # with the bytes of the block
            _, at = _long(data, at)
        for _ in range(abs(count)):
            _, at = _bytes(data, at)
            _, at = _bytes(data, at)
        given = count != 0
    return at
