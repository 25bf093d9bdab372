"""Arcion JSON, the plain case, which is nearly every large body: changes of one table that give all of its columns,
or updates whose other columns a row image is to give.

Only the images are decoded. The rest of a message is compared as it is written with that of the message
before, and what was found for one holds for all. Whatever differs, or might be wrong, is left to `decode_arcion`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from app.domain.model.input_limits import MAX_CELLS
from app.domain.model.source_name import SourceName
from app.domain.rows.columnar_rows import ColumnarRows
from app.errors import RejectedInput
from app.formats.arcion.address import AddressResolver, TableAddress, count_address_keys
from app.formats.arcion.columnar_images import ColumnarImages
from app.formats.arcion.image_layout import NotColumnar
from app.formats.arcion.messages import position_of
from app.formats.json.byte_accounting import are_texts, holds_nothing_else, names_stand_once
from app.formats.json.decoder import MessageDecoder
from app.formats.json.duplicate_key_prefilter import is_suspicious

_ADDRESS: Final = msgspec.json.Decoder(TableAddress)
_OPAQUE: Final = msgspec.json.Decoder()
_MAX_CURSOR_BYTES: Final = 2**16
_MAX_COMPARED: Final = 64
"""Beyond it, one look at the whole body costs less."""


class _Message(msgspec.Struct, gc=False):
    tableName: Raw
    opType: str
    exists: Raw
    before: Raw | UnsetType = UNSET
    after: Raw | UnsetType = UNSET
    cursor: Raw | UnsetType = UNSET
    operationcount: Raw | UnsetType = UNSET


class _Keys(NamedTuple):
    """The keys of all messages, in the order of `_Message`."""

    addresses: Sequence[Raw]
    operations: Sequence[str]
    exists: Sequence[Raw]
    before: Sequence[Raw | UnsetType]
    after: Sequence[Raw | UnsetType]
    cursors: Sequence[Raw | UnsetType]
    counts: Sequence[Raw | UnsetType]


_DECODER: Final = MessageDecoder(_Message)


@dataclass(frozen=True, slots=True)
class ColumnarBody:
    """A body whose messages all have one address."""

    source: SourceName
    wrong_hashes: int
    messages: int
    """How many there are."""
    position: str | None
    """That of the last change which has one."""
    _body: bytes
    _keys: _Keys

    def give_images(self, images: ColumnarImages) -> None:
        """Raises NotColumnar, KeyError or ValueError, as `images` does."""
        written = self._keys
        images.add(written.operations, written.exists, written.before, written.after)

    def is_all_read(self) -> bool:
        """Whether nothing stands in this body that nobody looks at, if its images are looked at. False may be wrong."""
        written = self._keys
        return (
            names_stand_once([bytes(written.addresses[0])])
            and are_texts([raw for raw in (*written.cursors, *written.counts) if raw is not UNSET])
            and holds_nothing_else(self._body, _Message.__struct_encode_fields__, written)
        )

    def is_suspicious(self, image_keys: int) -> bool:
        """The same by counting keys, which takes longer and tells more bodies apart."""
        own = sum(value is not UNSET for keys in self._keys for value in keys)
        of_addresses = self.messages * count_address_keys(_ADDRESS.decode(self._keys.addresses[0]))
        return is_suspicious(self._body, own + of_addresses + image_keys, surrogates=True)


def decode_columnar(body: bytes) -> ColumnarBody | None:
    """A body that may be plain, None for any other."""
    messages = _DECODER.decode_well_formed(body)
    if not messages:
        return None
    keys = _Keys(*zip(*map(msgspec.structs.astuple, messages), strict=True))
    first = keys.addresses[0]
    if keys.addresses.count(first) != len(messages):
        return None
    addresses = AddressResolver()
    try:
        source = addresses.look_up(_ADDRESS.decode(first))
        position = next(filter(None, map(_position, reversed(keys.cursors))), None)
    except (RejectedInput, ValueError, RecursionError):
        return None
    return ColumnarBody(source, addresses.wrong_hashes * len(messages), len(messages), position, body, keys)


def columnar_rows_of(
    bodies: Sequence[ColumnarBody], columns: Sequence[str], key_columns: Sequence[str], fillable: Collection[str] = ()
) -> ColumnarRows | None:
    """The rows of these bodies, one after the other, for a table of these columns.

    None where a body is not plain for it, or, among several, is to be looked at alone. An update need not give the
    `fillable` columns.
    """
    if sum(body.messages for body in bodies) * len(columns) > MAX_CELLS:
        return None
    images = ColumnarImages(columns, key_columns, frozenset(fillable))
    try:
        for body in bodies:
            body.give_images(images)
        texts = images.columns()
    except (NotColumnar, KeyError, ValueError, RecursionError):
        return None
    if not _are_all_read(bodies, images.compared) and (len(bodies) > 1 or bodies[0].is_suspicious(images.keys)):
        return None
    return ColumnarRows(texts, images.operations, bodies[-1].position, images.missing)


def _are_all_read(bodies: Sequence[ColumnarBody], compared: Sequence[Raw]) -> bool:
    return (
        len(compared) <= _MAX_COMPARED
        and names_stand_once(map(bytes, compared))
        and all(body.is_all_read() for body in bodies)
    )


def _position(cursor: Raw | UnsetType) -> str | None:
    """Raises ValueError for one that is no text and has more parts than a cursor needs."""
    if cursor is UNSET:
        return None
    if not are_texts([cursor]) and len(bytes(cursor)) > _MAX_CURSOR_BYTES:
        raise ValueError
    return position_of(_OPAQUE.decode(cursor))
