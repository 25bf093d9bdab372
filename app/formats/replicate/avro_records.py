"""Replicate's data messages in Avro: the bytes in an envelope -> the message that Replicate writes in JSON.

The schema of the bytes is in the envelope (`messageSchema`), or it is the `dataSchema` of the metadata message with the
envelope's `messageSchemaId`. Everything after it reads JSON: masks are hexadecimal digits, decimals, dates and times
are text. `avro_envelope` has the envelope. Source: docs/formats.md, "Avro".

Invariant: bytes that are not of their schema are rejected, with the index of the message. Memory for what they become
is reserved before it is used.
"""

import binascii
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from app.domain.model.change import InputLimits
from app.errors import Code, RejectedInput
from app.formats.avro import DecodePlan, Style, read_schema, unsupported
from app.formats.json.decoder import MessageDecoder
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.replicate.avro_envelope import AvroEnvelope
from app.formats.replicate.forms.standard_form import rejection

MAX_SCHEMA_BYTES: Final = 2**20
"""Bytes of a `dataSchema` that is kept: three thousand columns."""

MAX_LIST_VALUES: Final = 100_000
"""Values of one record whose schema has lists or maps; data messages have none, metadata messages eight per column."""

_MAX_CACHED: Final = 256

SchemaLookup: TypeAlias = Callable[[str], str | None]
"""Returns the data schema of a schema id that earlier metadata messages declared, None if there is none."""


@lru_cache(_MAX_CACHED)
def plan_of(schema: str) -> DecodePlan:
    """Return what decodes the records of a schema. Raises RejectedInput `malformed_avro`."""
    root = read_schema(schema)
    if root.kind != "record":
        raise unsupported("is not that of a record")
    return DecodePlan(root, Style.TEXT, max_values=MAX_LIST_VALUES)


def kept_schema(written: Any) -> str | None:
    """Return the `dataSchema` of a metadata message if it declares a record and is not too long to keep."""
    is_record = isinstance(written, str) and '"fields"' in written
    return written if is_record and len(written.encode()) <= MAX_SCHEMA_BYTES else None


def is_avro(message: Any) -> bool:
    """Tell whether a decoded message is an envelope around bytes."""
    return isinstance(message, dict) and isinstance(message.get("message"), str)


class AvroMessages:
    """Decodes the records of one request in order; its metadata messages count from their place on."""

    def __init__(self, stored: SchemaLookup, limits: InputLimits) -> None:
        self._stored = stored
        self._limits = limits
        self._declared: dict[str, str | None] = {}
        self._json_bytes = 0
        self._decoder: MessageDecoder[dict[str, Any]] = MessageDecoder(dict[str, Any])

    def declare(self, schema_id: str | None, data_schema: str | None) -> None:
        """Note what a metadata message declares."""
        if schema_id is not None:
            self._declared[schema_id] = data_schema

    def decoded(self, index: int, message: Mapping[str, Any], at: str) -> dict[str, Any]:
        """Return an envelope with its message as it is in JSON.

        Raises RejectedInput `malformed_avro` for wrong bytes, `malformed_message` for a message that is not base64, or
        `schema_unknown`.
        """
        try:
            payload = binascii.a2b_base64(message["message"], strict_mode=True)
        except ValueError:
            detail = "expected an object, or the bytes of an Avro record in base64"
            raise rejection(Code.MALFORMED_MESSAGE, detail, index, f"{at}/message") from None
        schema = self._schema_of(index, message, at)
        try:
            text = plan_of(schema).json(payload)
            self._json_bytes += len(text)
            self._limits.reserve(self._json_bytes)
            [record] = self._decoder.decode(text)
        except RejectedInput as error:
            if not error.problems and error.code is not Code.MALFORMED_AVRO:
                raise
            code = Code.MALFORMED_AVRO if error.code is Code.MALFORMED_JSON else error.code
            raise rejection(code, error.detail, index, f"{at}/message") from None
        return {**message, "message": record}

    def _schema_of(self, index: int, message: Mapping[str, Any], at: str) -> str:
        embedded, schema_id = message.get("messageSchema"), message.get("messageSchemaId")
        if isinstance(embedded, str):
            return embedded
        if not isinstance(schema_id, str):
            detail = "an Avro message needs messageSchemaId or messageSchema"
            raise rejection(Code.MALFORMED_MESSAGE, detail, index, f"{at}/messageSchemaId")
        found = self._declared[schema_id] if schema_id in self._declared else self._stored(schema_id)
        if found is None:
            detail = "no metadata message with this schema id and the dataSchema of its records was accepted"
            raise rejection(Code.SCHEMA_UNKNOWN, detail, index, f"{at}/messageSchemaId")
        return found


class _Envelope(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    magic: Literal["atMSG"]
    type: Literal["DT"]
    messageSchemaId: str
    message: bytes
    messageSchema: UnsetType | None = UNSET
    headers: UnsetType | None = UNSET


_ENVELOPES: Final = MessageDecoder(_Envelope)
_ENCODER: Final = msgspec.json.Encoder()


class AvroBody:
    """The data messages of a body, for the columnar path."""

    def __init__(self, schema_ids: Sequence[str], records: Sequence[bytes]) -> None:
        self._ids = schema_ids
        self._records = records
        self.schema_ids: Final = frozenset(schema_ids)

    @classmethod
    def of_json(cls, body: bytes) -> "AvroBody | None":
        """Read a body in JSON, None for one with a message that is no record in an envelope as Replicate writes it."""
        found = _ENVELOPES.decode_well_formed(body)
        if not found or not is_all_decoded(body, _ENCODER.encode_lines(found)):
            return None
        return cls([one.messageSchemaId for one in found], [one.message for one in found])

    @classmethod
    def of_envelopes(cls, envelopes: Sequence[AvroEnvelope]) -> "AvroBody | None":
        """Return the records of envelopes, None if one of them is no data message."""
        ids = [one.schema_id for one in envelopes if one.schema_id and one.schema is None and one.type == "DT"]
        return cls(ids, [one.message for one in envelopes]) if len(ids) == len(envelopes) else None

    def __len__(self) -> int:
        return len(self._records)

    def as_json(self, plans: Mapping[str, DecodePlan], limits: InputLimits) -> bytes:
        """Return the messages as a body in JSON, with the plans of their schema ids.

        Raises RejectedInput `malformed_avro` without the index of the wrong one, and what `limits.reserve` raises.
        """
        lines: list[bytes] = []
        size = start = 0
        for schema_id, run in groupby(self._ids):
            head = b'{"magic":"atMSG","type":"DT","messageSchemaId":%b,"message":' % _ENCODER.encode(schema_id)
            end = start + len([*run])
            for part in plans[schema_id].json_in_parts(self._records[start:end]):
                lines += [b"%b%b}" % (head, record) for record in part]
                size += sum(map(len, part)) + len(part) * len(head)
                limits.reserve(size)
            start = end
        return b"\n".join(lines)
