"""Replicate's data messages in Avro: the bytes in an envelope -> the message that Replicate writes in JSON.

The schema of the bytes is in the envelope (`messageSchema`), or it is the `dataSchema` of the metadata message with the
envelope's `messageSchemaId`. Everything after it reads JSON: masks are hexadecimal digits, decimals, dates and times
are text. `avro_envelope` has the envelope. Source: docs/reference/avro.md.

Invariant: bytes that are not of their schema are rejected, with the index of the message. Memory for what they become
is reserved before it is used.
"""

import binascii
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from types import NoneType
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from app.domain.model.change import InputLimits
from app.formats.avro import DecodePlan, Style, read_schema, unsupported
from app.formats.avro.flat import FieldValues, FlatReader, RecordColumns, is_flat
from app.formats.json.decoder import MessageDecoder
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.replicate.columnar import DataBody, DataColumns, by_address
from app.formats.replicate.standard_form import Headers
from mirrorgate.avro_envelope import AvroEnvelope
from mirrorgate.errors import Code, RejectedInput

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
    """Return True if a decoded message is an envelope around bytes."""
    return isinstance(message, dict) and isinstance(message.get("message"), str)


class AvroMessages:
    """Decoder of one request's records in order; each of its metadata messages applies to the records after it."""

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
            raise RejectedInput.at(Code.MALFORMED_MESSAGE, detail, index, f"{at}/message") from None
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
            raise RejectedInput.at(code, error.detail, index, f"{at}/message") from None
        return {**message, "message": record}

    def _schema_of(self, index: int, message: Mapping[str, Any], at: str) -> str:
        embedded, schema_id = message.get("messageSchema"), message.get("messageSchemaId")
        if isinstance(embedded, str):
            return embedded
        if not isinstance(schema_id, str):
            detail = "an Avro message needs messageSchemaId or messageSchema"
            raise RejectedInput.at(Code.MALFORMED_MESSAGE, detail, index, f"{at}/messageSchemaId")
        found = self._declared[schema_id] if schema_id in self._declared else self._stored(schema_id)
        if found is None:
            detail = "no metadata message with this schema id and the dataSchema of its records was accepted"
            raise RejectedInput.at(Code.SCHEMA_UNKNOWN, detail, index, f"{at}/messageSchemaId")
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


_HEADERS: Final = Headers.__struct_fields__
_READ_HEADERS: Final = (
    "operation",
    "columnMask",
    "changeMask",
    "externalSchemaId",
    "changeSequence",
    "timestamp",
    "transactionLastEvent",
    "transactionId",
    "transactionEventCounter",
)
"""In the order of `DataColumns`."""
_IMAGES: Final = ("data", "beforeData")
_MIN_COLUMNAR: Final = 32
_TEXT_PER_BYTE: Final = 2
"""Bytes of a value's text for each byte in Avro, or fewer: binary values are hexadecimal digits."""
_VALUE_BYTES: Final = 16


@lru_cache(_MAX_CACHED)
def _flat_reader(schema: str, names: tuple[str, ...]) -> FlatReader | None:
    """Return the reader of messages whose images have exactly these columns, None if their schema has another form.

    Raises RejectedInput `malformed_avro`.
    """
    root = read_schema(schema)
    types = {field.name: field.type for field in root.fields}
    if not is_flat(root) or not {"data", "headers"} <= types.keys() <= {*_IMAGES, "headers", "schema", "table"}:
        return None
    headers = [field.name for field in types["headers"].fields]
    if types["headers"].kind != "record" or "operation" not in headers or not {*headers} <= {*_HEADERS}:
        return None
    for name in _IMAGES:
        for record in types[name].not_null if name in types else ():
            kinds = {branch.kind for field in record.fields for branch in field.type.not_null}
            if record.kind != "record" or {field.name for field in record.fields} != {*names} or "record" in kinds:
                return None
    return FlatReader(root)


def _images(found: FieldValues | None, image: type[msgspec.Struct], count: int) -> list[Any]:
    if not isinstance(found, RecordColumns):
        return [UNSET] * count
    columns: list[Any] = [found.columns[name] for name in image.__struct_encode_fields__]
    made = [*map(image, *columns)]
    if found.present is None:
        return made
    images: list[Any] = [None] * count
    for place, one in zip(found.present, made, strict=True):
        images[place] = one
    return images


def _has_only_texts(found: FieldValues) -> bool:
    return isinstance(found, list) and {*map(type, found)} <= {str, NoneType, UnsetType}


def _lacks_one(found: FieldValues) -> bool:
    return not isinstance(found, list) or None in found


class AvroBody:
    """The data messages of a body, for the columnar path."""

    def __init__(self, schema_ids: Sequence[str], records: Sequence[bytes]) -> None:
        self._ids = schema_ids
        self._records = records
        self.schema_ids: Final = frozenset(schema_ids)

    @classmethod
    def of_json(cls, body: bytes) -> "AvroBody | None":
        """Read a body in JSON, None if a message is not a record in an envelope as Replicate writes it."""
        found = _ENVELOPES.decode_well_formed(body)
        if not found or not is_all_decoded(body, _ENCODER.encode_lines(found)):
            return None
        return cls([one.messageSchemaId for one in found], [one.message for one in found])

    @classmethod
    def of_envelopes(cls, envelopes: Sequence[AvroEnvelope]) -> "AvroBody | None":
        """Return the records of envelopes, None if one of them is not a data message."""
        ids = [one.schema_id for one in envelopes if one.schema_id and one.schema is None and one.type == "DT"]
        return cls(ids, [one.message for one in envelopes]) if len(ids) == len(envelopes) else None

    def __len__(self) -> int:
        return len(self._records)

    @property
    def is_for_columns(self) -> bool:
        """True if the messages are of one schema, and so many that reading them by column is faster."""
        return len(self.schema_ids) == 1 and len(self) >= _MIN_COLUMNAR

    def as_columns(self, schema: str, image: type[msgspec.Struct], limits: InputLimits) -> DataBody | None:
        """Return the messages as `decode_data_messages` does, with images of this type; None if that has to do it.

        Raises what `limits.reserve` raises.
        """
        reader = _flat_reader(schema, image.__struct_encode_fields__)
        if reader is None or sum(map(len, self._records)) > limits.value_bytes // _TEXT_PER_BYTE:
            return None
        limits.reserve(len(self) * (2 * len(image.__struct_fields__) + len(_HEADERS)) * _VALUE_BYTES)
        found = reader.read(self._records)
        headers = found.columns["headers"] if found else None
        if found is None or not isinstance(headers, RecordColumns) or headers.present is not None:
            return None
        nothing: FieldValues = [UNSET] * len(self)
        parts = [headers.columns.get(name, nothing) for name in _READ_HEADERS]
        address = [found.columns.get(name, nothing) for name in ("schema", "table")]
        if not all(map(_has_only_texts, (*parts[:3], parts[4], *address))) or _lacks_one(parts[0]):
            return None
        images = [_images(found.columns.get(name), image, len(self)) for name in _IMAGES]
        columns: list[Any] = [*parts, *images]
        texts: list[Any] = [self._ids, *address]
        return DataBody(DataColumns._make(columns), by_address(texts))

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
