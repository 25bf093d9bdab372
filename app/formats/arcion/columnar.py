"""Columnar reading of Arcion JSON: the fast path for large bodies of one table (docs/decisions/0020).

It takes changes that give all columns of the table, and updates that leave columns to row images. Only images are
decoded; the other parts of a message are compared, as bytes, with those of the message before it.

Invariant: it returns the rows that `decode_arcion` would lead to, or None. It declines whatever differs or could be
wrong, and never rejects.
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
"""Compared parts beyond which a check of the whole body costs less."""


class _Message(msgspec.Struct, gc=False):
    tableName: Raw
    opType: str
    exists: Raw
    before: Raw | UnsetType = UNSET
    after: Raw | UnsetType = UNSET
    cursor: Raw | UnsetType = UNSET
    operationcount: Raw | UnsetType = UNSET


class _Keys(NamedTuple):
    """The values of all messages by key, in the order of `_Message`."""

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
    """A decoded body whose messages all have one address."""

    source: SourceName
    wrong_hashes: int
    messages: int
    """The number of messages."""
    position: str | None
    """The source position of the last change that has one."""
    _body: bytes
    _keys: _Keys

    def give_images(self, images: ColumnarImages) -> None:
        """Add the images of all messages to `images`. Raises NotColumnar, KeyError or ValueError."""
        written = self._keys
        images.add(written.operations, written.exists, written.before, written.after)

    def is_all_read(self) -> bool:
        """Return True if every byte is accounted for by decoded values; False can be wrong, True cannot."""
        written = self._keys
        return (
            names_stand_once([bytes(written.addresses[0])])
            and are_texts([raw for raw in (*written.cursors, *written.counts) if raw is not UNSET])
            and holds_nothing_else(self._body, _Message.__struct_encode_fields__, written)
        )

    def is_suspicious(self, image_keys: int) -> bool:
        """Tell whether the body may have duplicate or unknown keys, by counting keys; slower and more exact."""
        own = sum(value is not UNSET for keys in self._keys for value in keys)
        of_addresses = self.messages * count_address_keys(_ADDRESS.decode(self._keys.addresses[0]))
        return is_suspicious(self._body, own + of_addresses + image_keys, surrogates=True)


def decode_columnar(body: bytes) -> ColumnarBody | None:
    """Return the decoded body if it can be columnar, else None."""
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
    """Return the rows of these bodies in order, for a table of these columns.

    None if a body does not qualify, or is one of several and has to be read alone. Updates can omit the `fillable`
    columns.
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
    """Return the position that a cursor gives. Raises ValueError for one that is neither a text nor short."""
    if cursor is UNSET:
        return None
    if not are_texts([cursor]) and len(bytes(cursor)) > _MAX_CURSOR_BYTES:
        raise ValueError
    return position_of(_OPAQUE.decode(cursor))
