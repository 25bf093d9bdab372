"""Columnar reading of Replicate data messages: the parts of all messages of a body, then the images of each table.

Reading a message on its own costs more than its bytes do. Here the messages of a body are decoded together except for
their images, which `columnar_images` decodes table by table. A body that is unusual in any way is not read; the exact
path (`messages`) reads it or explains what is wrong (docs/decisions/0030).

Invariant: what is read is what the exact path reads. Every quote outside the images belongs to a decoded key or text,
so no key is written twice; keys that are not declared here, and values that are not of the declared type, end it.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from app.formats.json.decoder import MessageDecoder
from app.formats.json.quote_accounting import is_all_decoded
from app.formats.replicate.envelope import Id, Text

_Scalar: TypeAlias = str | int | bool | UnsetType | None
"""Of a key whose value is not needed."""

_NULL: Final = Raw(b"null")


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


class _Bare(msgspec.Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    data: Raw | UnsetType = UNSET
    beforeData: Raw | UnsetType = UNSET
    headers: _Headers
    schema: Text = UNSET
    table: Text = UNSET


class _Wrapped(msgspec.Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    messageSchemaId: Text = UNSET
    message: _Bare


class _Enveloped(msgspec.Struct, gc=False, forbid_unknown_fields=True, kw_only=True):
    magic: Literal["atMSG"]
    type: Literal["DT"]
    headers: UnsetType | None = UNSET
    messageSchemaId: Text = UNSET
    messageSchema: UnsetType | None = UNSET
    message: _Bare


_ENVELOPED: Final = MessageDecoder(_Enveloped)
_BARE: Final = MessageDecoder(_Bare)
_WRAPPED: Final = MessageDecoder(_Wrapped)
_ENCODER: Final = msgspec.json.Encoder()


class Address(NamedTuple):
    """What a message says about its table."""

    schema_id: str | None
    schema: str | None
    table: str | None


class DataColumns(NamedTuple):
    """Data messages in order, by part as they are written.

    UNSET where a message does not have a header; an image that it does not have is null.
    """

    operations: Sequence[str]
    column_masks: Sequence[Text]
    change_masks: Sequence[Text]
    external_ids: Sequence[Id]
    sequences: Sequence[Text]
    last_events: Sequence[_Scalar]
    data: Sequence[Raw]
    before_data: Sequence[Raw]

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
    bare: Sequence[_Bare]
    schema_ids: Sequence[Text]


def decode_data_messages(bodies: Sequence[bytes]) -> list[DataBody | None]:
    """Return the data messages of each body, None for a body with an unusual message.

    Metadata messages, null messages and flattened headers are unusual.
    """
    decoded = [*map(_decoded, bodies)]
    read = [body for body in decoded if body is not None]
    if not read:
        return [None] * len(bodies)
    document = b"".join(body for body, found in zip(bodies, decoded, strict=True) if found)
    if not is_all_decoded(document, _written_again(read)):
        if len(bodies) > 1:  # each alone, because one may be at fault
            return [found for body in bodies for found in decode_data_messages([body])]
        return [None]
    data, before_data, headers, schemas, tables = _transposed([message for body in read for message in body.bare])
    operations, sequences, _, _, _, change_masks, column_masks, external_ids, _, last_events = _transposed(headers)
    images = [[_NULL if image is UNSET else image for image in column] for column in (data, before_data)]
    whole = (operations, column_masks, change_masks, external_ids, sequences, last_events, *images)
    found: list[DataBody | None] = []
    start = 0
    for body in decoded:
        if body is None:
            found.append(None)
            continue
        own = slice(start, start := start + len(body.bare))
        addresses = _by_address([body.schema_ids, schemas[own], tables[own]])
        found.append(DataBody(DataColumns._make(column[own] for column in whole), addresses))
    return found


def _decoded(body: bytes) -> _Decoded | None:
    """Decode a body whose messages have one form."""
    for decoder in (_ENVELOPED, _WRAPPED):
        messages = decoder.decode_well_formed(body)
        if messages:
            bare, schema_ids = [message.message for message in messages], [one.messageSchemaId for one in messages]
            return _Decoded(messages, bare, schema_ids)
    alone = _BARE.decode_well_formed(body)
    return _Decoded(alone, alone, [None] * len(alone)) if alone else None


def _written_again(read: Sequence[_Decoded]) -> bytes:
    if len(read) == 1:
        return _ENCODER.encode(read[0].messages)
    return _ENCODER.encode_lines([*chain.from_iterable(body.messages for body in read)])


def _transposed(structs: Sequence[msgspec.Struct]) -> list[tuple[Any, ...]]:
    return [*zip(*map(astuple, structs), strict=True)]


def _by_address(columns: Sequence[Sequence[Text]]) -> Mapping[Address, Sequence[int]]:
    if is_uniform(columns):
        return {_address(*(column[0] for column in columns)): range(len(columns[0]))}
    indexes: dict[Address, list[int]] = {}
    for index, written in enumerate(zip(*columns, strict=True)):
        indexes.setdefault(_address(*written), []).append(index)
    return indexes


def _address(*written: Text) -> Address:
    return Address._make(text or None for text in written)


def is_uniform(columns: Iterable[Sequence[Any]]) -> bool:
    """Tell whether all messages have the same values; this is usual, and faster to find out than distinct values."""
    return all(column.count(column[0]) == len(column) for column in columns)
