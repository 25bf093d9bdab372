"""Columnar reading of Replicate data messages: the parts of all messages of a body, then the images of each table.

Reading a message on its own costs more than its bytes do. Here the messages of a body are decoded together except for
their images, which `columnar_images` decodes table by table. If the table of all messages is known before, they are
decoded with their images. A body that is unusual in any way is not read; the exact path (`messages`) reads it or
explains what is wrong (docs/contribute/decisions/0026).

Invariant: what is read is what the exact path reads. Every quote outside the images belongs to a decoded key or text,
so no key is written twice; keys that are not declared here, and values that are not of the declared type, end it.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain, product
from types import GenericAlias
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from app.domain.model.written_values import keep_minus_zeros
from app.formats.columnar import is_uniform
from app.formats.json.decoder import MessageDecoder
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.replicate.standard_form import Id, Text

_Scalar: TypeAlias = str | int | bool | UnsetType | None
"""Of a key whose value is not needed."""

_IS_KEYED: Final = re.compile(rb'[\[ \t\r\n]*+\{[ \t\r\n]*+"key"')
"""The start of a body whose first element begins with a key; no other message does."""

Message = TypeVar("Message")
Image = TypeVar("Image")
"""The type of images: bytes as they are written, or a struct of a table's columns or null."""

_MAX_CACHED: Final = 1_024


class _Headers(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    operation: str
    changeSequence: Text = UNSET
    timestamp: _Scalar = UNSET
    streamPosition: _Scalar = UNSET
    transactionId: _Scalar = UNSET
    changeMask: Text = UNSET
    columnMask: Text = UNSET
    externalSchemaId: Id = UNSET
    transactionEventCounter: _Scalar = UNSET
    transactionLastEvent: _Scalar = UNSET


class _Bare(msgspec.Struct, Generic[Image], gc=False, forbid_unknown_fields=True, kw_only=True):
    data: Image | UnsetType = UNSET
    beforeData: Image | UnsetType = UNSET
    headers: _Headers
    schema: Text = UNSET
    table: Text = UNSET


class _Wrapped(msgspec.Struct, Generic[Image], gc=False, forbid_unknown_fields=True, kw_only=True):
    messageSchemaId: Text = UNSET
    message: _Bare[Image]


class _Enveloped(msgspec.Struct, Generic[Image], gc=False, forbid_unknown_fields=True, kw_only=True):
    magic: Literal["atMSG"]
    type: Literal["DT"]
    headers: UnsetType | None = UNSET
    messageSchemaId: Text = UNSET
    messageSchema: UnsetType | None = UNSET
    message: _Bare[Image]


class _Keyed(msgspec.Struct, Generic[Message], gc=False, forbid_unknown_fields=True, kw_only=True):
    key: _Scalar | dict[str, _Scalar]
    value: Message


_IN_ENVELOPES: Final = (_Enveloped, _Wrapped)
_ENCODER: Final = msgspec.json.Encoder()


class Address(NamedTuple):
    """A message's reference to its table."""

    schema_id: str | None
    schema: str | None
    table: str | None


class DataColumns(NamedTuple):
    """Data messages in order, by part as they are written; UNSET where a message does not have it."""

    operations: Sequence[str]
    column_masks: Sequence[Text]
    change_masks: Sequence[Text]
    external_ids: Sequence[Id]
    sequences: Sequence[Text]
    timestamps: Sequence[_Scalar]
    last_events: Sequence[_Scalar]
    transactions: Sequence[_Scalar]
    event_counters: Sequence[_Scalar]
    data: Sequence[Any]
    """Images: as bytes, or as a struct or None where they were decoded with their message."""
    before_data: Sequence[Any]

    def at(self, indexes: Sequence[int]) -> "DataColumns":
        """Return the messages with these indexes."""
        return DataColumns._make([column[index] for index in indexes] for column in self)


class DataBody(NamedTuple):
    """The data messages of a body, and the indexes of those with each address."""

    columns: DataColumns
    addresses: Mapping[Address, Sequence[int]]


class _Decoded(NamedTuple):
    """The messages of a body as they were decoded, and what is in their envelopes."""

    messages: Sequence[msgspec.Struct]
    bare: Sequence[_Bare[Any]]
    schema_ids: Sequence[Text]


def decode_data_messages(bodies: Sequence[bytes], image_types: Sequence[Any] = ()) -> list[DataBody | None]:
    """Return the data messages of each body, None for a body with an unusual message.

    Metadata messages, null messages and flattened headers are unusual. `image_types` are the types that the images of
    each body probably have, None if that is not known; one that is wrong costs time.
    """
    expected = image_types or [None] * len(bodies)
    decoded = [*map(_decoded, bodies, expected)]
    read = [body for body in decoded if body is not None]
    if not read:
        return [None] * len(bodies)
    document = b"".join(body for body, found in zip(bodies, decoded, strict=True) if found)
    written = _written_again(read)
    if any(image_types) and document != written and keep_minus_zeros(document) is not document:
        return decode_data_messages(bodies)  # images alone, because a decoder reads -0 as 0
    if not is_all_decoded(document, written):
        if len(bodies) > 1:  # each alone, because one may be at fault
            alone = zip(bodies, expected, strict=True)
            return [found for body, image_type in alone for found in decode_data_messages([body], [image_type])]
        return [None]
    data, before_data, headers, schemas, tables = _transposed([message for body in read for message in body.bare])
    operations, sequences, times, _, transactions, *masks, external_ids, counters, last_events = _transposed(headers)
    change_masks, column_masks = masks
    facts = (external_ids, sequences, times, last_events, transactions, counters)
    whole = (operations, column_masks, change_masks, *facts, data, before_data)
    found: list[DataBody | None] = []
    start = 0
    for body in decoded:
        if body is None:
            found.append(None)
            continue
        own = slice(start, start := start + len(body.bare))
        addresses = by_address([body.schema_ids, schemas[own], tables[own]])
        found.append(DataBody(DataColumns._make(column[own] for column in whole), addresses))
    return found


def is_keyed(body: bytes) -> bool:
    """Return True if the messages of a body are probably sent with their keys."""
    return _IS_KEYED.match(body) is not None


def _decoded(body: bytes, image_type: Any) -> _Decoded | None:
    """Decode a body whose messages have one form."""
    keyed = is_keyed(body)
    for images, envelope in (*product(filter(None, (image_type, Raw)), _IN_ENVELOPES), (Raw, _Bare)):
        written = _decoder(envelope, images, keyed=keyed).decode_well_formed(body)
        if written:
            messages = [record.value for record in written] if keyed else written
            if envelope is _Bare:
                return _Decoded(written, messages, [None] * len(messages))
            return _Decoded(written, [one.message for one in messages], [one.messageSchemaId for one in messages])
    return None


@lru_cache(_MAX_CACHED)
def _decoder(envelope: Any, image_type: Any, *, keyed: bool) -> MessageDecoder[Any]:
    """Return the decoder of messages in this envelope whose images have this type."""
    message: Any = GenericAlias(envelope, (image_type,))
    record: Any = GenericAlias(_Keyed, (message,))
    return MessageDecoder(record if keyed else message)


def _written_again(read: Sequence[_Decoded]) -> bytes:
    if len(read) == 1:
        return _ENCODER.encode(read[0].messages)
    return _ENCODER.encode_lines([*chain.from_iterable(body.messages for body in read)])


def _transposed(structs: Sequence[msgspec.Struct]) -> list[tuple[Any, ...]]:
    return [*zip(*map(astuple, structs), strict=True)]


def by_address(columns: Sequence[Sequence[Text]]) -> Mapping[Address, Sequence[int]]:
    """Return the indexes of the messages with each address, from their schema ids, schemas and tables."""
    if is_uniform(columns):
        return {_address(*(column[0] for column in columns)): range(len(columns[0]))}
    indexes: dict[Address, list[int]] = {}
    for index, written in enumerate(zip(*columns, strict=True)):
        indexes.setdefault(_address(*written), []).append(index)
    return indexes


def _address(*written: Text) -> Address:
    return Address._make(text or None for text in written)
