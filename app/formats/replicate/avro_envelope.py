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

from app.errors import Code, Problem, RejectedInput

MAGIC: Final = b"atMSG"
_BREAKS: Final = frozenset(b"\r\n")
_MAX_VARINT_BYTES: Final = 10
_ENCODER: Final = msgspec.json.Encoder()
_NULL, _VALUE = 0, 1


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


def as_json_lines(body: bytes, check_messages: Callable[[int], None] = lambda _: None) -> bytes:
    """Return the envelopes of a body as NDJSON.

    Raises RejectedInput `malformed_avro` with the index of the wrong one, and what `check_messages` raises for the
    number of messages so far.
    """
    lines: list[bytes] = []
    at = skip_breaks(body, 0)
    while at < len(body):
        check_messages(len(lines) + 1)
        try:
            envelope, end = read_envelope(body, at)
        except Incomplete:
            raise _malformed("the body ends before the envelope does", at, len(lines)) from None
        except ValueError as error:
            raise _malformed(str(error), at, len(lines)) from None
        lines.append(envelope.to_json())
        at = skip_breaks(body, end)
    return b"\n".join(lines)


def _malformed(reason: str, at: int, index: int) -> RejectedInput:
    detail = f"the message that starts at byte {at} is not an envelope of Replicate: {reason}"
    return RejectedInput.of((Problem(Code.MALFORMED_AVRO, detail, index),))


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
        raise ValueError("a text is not UTF-8") from None


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
