"""Arcion JSON, the plain case, which is nearly every large body: changes of one table that give all of its columns,
or updates whose other columns a row image is to give.

Only the images are decoded. The rest of a message is compared as it is written with that of the message
before, and what was found for one holds for all. Whatever differs, or might be wrong, is left to `decode_arcion`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, Raw, UnsetType

from app.domain.change import Operation
from app.domain.column_conversion import hold_any
from app.domain.plain_rows import PlainRows
from app.domain.row_image import Gap
from app.domain.source_name import SourceName
from app.domain.typed_columns import chosen_rows
from app.errors import RejectedInput
from app.formats.arcion import OPERATIONS, position_of
from app.formats.arcion_address import AddressBook, TableAddress, members_of_address
from app.formats.arcion_shapes import WHOLE, NotPlain, Shape, ShapeBook
from app.formats.member_screen import is_suspicious
from app.formats.strict_json import MessageDecoder
from app.formats.text_images import text_columns
from app.formats.written_members import are_texts, holds_nothing_else, names_stand_once

_ADDRESS: Final = msgspec.json.Decoder(TableAddress)
_BESIDE: Final = msgspec.json.Decoder(dict[str, str] | None)
_OPAQUE: Final = msgspec.json.Decoder()
_NO_ROW: Final = (Raw(b"null"), Raw(b"{}"))
_OWN_MEMBERS: Final = 7
"""Those of a message, when all of them are written."""
_MOST_COMPARED: Final = 64


class _Message(msgspec.Struct, gc=False):
    tableName: Raw
    opType: str
    exists: Raw
    before: Raw | UnsetType = UNSET
    after: Raw | UnsetType = UNSET
    cursor: Raw | UnsetType = UNSET
    operationcount: Raw | UnsetType = UNSET


_DECODER: Final = MessageDecoder(_Message)


@dataclass(slots=True)
class _Kind:
    """What messages of one operation share as long as they are written alike."""

    operation: Operation
    exists: Raw | None = None
    shape: Shape = WHOLE
    before: Raw | UnsetType | None = None
    before_members: int = 0


@dataclass(frozen=True, slots=True)
class PlainBody:
    """A body whose messages all have one address."""

    source: SourceName
    wrong_hashes: int
    _body: bytes
    _messages: Sequence[_Message]

    @property
    def messages(self) -> int:
        """How many there are."""
        return len(self._messages)

    def rows(
        self, columns: Sequence[str], key_columns: Sequence[str], fillable: Collection[str] = ()
    ) -> PlainRows | None:
        """The rows for a table of these columns, or None where this body is not plain for it.

        An update need not give the `fillable` ones.
        """
        reading = _Reading(columns, key_columns, frozenset(fillable))
        try:
            for message in self._messages:
                reading.add(message)
            texts = reading.columns()
            position = next(filter(None, map(_position, reversed(self._messages))), None)
            address_members = members_of_address(_ADDRESS.decode(self._messages[0].tableName))
        except (NotPlain, KeyError, ValueError, RecursionError):
            return None
        members = reading.members + len(self._messages) * address_members
        if not self._is_all_read(reading.compared) and is_suspicious(self._body, members, surrogates=True):
            return None
        return PlainRows(texts, reading.operations, position, reading.gaps)

    def _is_all_read(self, compared: Sequence[Raw]) -> bool:
        """Whether nothing stands in this body that nobody has looked at. False may be wrong."""
        if len(compared) > _MOST_COMPARED:
            return False
        skipped = [raw for message in self._messages for raw in (message.cursor, message.operationcount) if raw]
        return (
            names_stand_once(map(bytes, (self._messages[0].tableName, *compared)))
            and are_texts(skipped)
            and holds_nothing_else(self._body, self._messages)
        )


def decode_plain(body: bytes) -> PlainBody | None:
    """A body that may be plain, None for any other."""
    messages = _DECODER.decode_well_formed(body)
    if not messages:
        return None
    first = messages[0].tableName
    if any(message.tableName != first for message in messages):
        return None
    addresses = AddressBook()
    try:
        source = addresses.look_up(_ADDRESS.decode(first))
    except (RejectedInput, msgspec.DecodeError):
        return None
    return PlainBody(source, addresses.wrong_hashes * len(messages), body, messages)


class _Reading:
    """Collects the images of messages, their operations, and how many members were written, or fewer.

    Its methods raise NotPlain, KeyError for a wrong flag, or ValueError for an image that is not whole.
    """

    def __init__(self, columns: Sequence[str], key_columns: Sequence[str], fillable: frozenset[str]) -> None:
        self.operations: list[Operation] = []
        self.gaps: dict[int, Gap] = {}
        self.members = 0
        self.compared: list[Raw] = []
        """What is no image: found to be good once, for all messages in which it is written alike."""
        self._columns, self._key_columns = columns, key_columns
        self._landing: list[Raw] = []
        self._beside: list[Raw] = []
        """Other images that must be whole: what was before an update, and what a delete gives as the row after it."""
        self._updated: list[tuple[int, int]] = []
        """Of each update, where its images are in `_landing` and `_beside`."""
        self._kept: dict[Shape, list[tuple[int, int]]] = {}
        """The same of updates that keep columns."""
        self._kinds = {text: _Kind(operation) for text, operation in OPERATIONS.items()}
        self._shapes = ShapeBook(columns, key_columns, fillable, {})

    def add(self, message: _Message) -> None:
        kind = self._kinds.get(message.opType)
        if kind is None:
            raise NotPlain
        if message.exists != kind.exists:
            kind.exists, kind.shape = message.exists, self._shapes.look_up(kind.operation, message.exists)
            self.compared.append(message.exists)
        if kind.operation is Operation.DELETE:
            self._add_delete(message)
        elif message.after is UNSET:
            raise NotPlain
        else:
            if kind.operation is Operation.UPDATE:
                self._add_places(kind.shape)
                self._beside.append(_given(message.before))
            elif message.before != kind.before:
                self._look_at_before(kind, message.before)
            self.members += kind.before_members
            self._landing.append(message.after)
        self.operations.append(kind.operation)
        absent = (message.cursor is UNSET) + (message.operationcount is UNSET)
        self.members += _OWN_MEMBERS + len(self._columns) - absent

    def columns(self) -> list[pa.StringArray]:
        """What lands of the messages, by column."""
        self.members += (len(self._landing) + len(self._beside)) * len(self._columns)
        landing = text_columns(self._landing, self._columns)
        if self._beside:
            beside = text_columns(self._beside, self._columns)
            self._keep(landing, beside)
            self._compare_keys(landing, beside)
        return self._without_deleted([_with_nulls(texts) for texts in landing])

    def _add_delete(self, message: _Message) -> None:
        if not self._key_columns:
            raise NotPlain
        self._landing.append(_given(message.before))
        if message.after is UNSET:
            self.members -= 1
        elif message.after not in _NO_ROW:
            self._beside.append(message.after)

    def _add_places(self, shape: Shape) -> None:
        places = len(self._landing), len(self._beside)
        self._updated.append(places)
        if shape.kept:
            self._kept.setdefault(shape, []).append(places)
        if shape.gap is not None:
            self.gaps[places[0]] = shape.gap

    def _keep(self, landing: list[pa.StringArray], beside: Sequence[pa.StringArray]) -> None:
        for shape, places in self._kept.items():
            after, before = zip(*places, strict=True)
            chosen, taken = chosen_rows(len(self._landing), after), pa.array(before)
            for at in shape.kept:
                landing[at] = pc.replace_with_mask(landing[at], chosen, beside[at].take(taken))

    def _compare_keys(self, landing: Sequence[pa.StringArray], beside: Sequence[pa.StringArray]) -> None:
        if not self._updated:
            return
        if not self._key_columns:
            raise NotPlain
        after, before = (pa.array(places) for places in zip(*self._updated, strict=True))
        for key_column in self._key_columns:
            at = self._columns.index(key_column)
            if not landing[at].take(after).equals(beside[at].take(before)):
                raise NotPlain

    def _without_deleted(self, landing: list[pa.StringArray]) -> list[pa.StringArray]:
        """Of a deleted row only the key."""
        deleted = [operation is Operation.DELETE for operation in self.operations]
        if not any(deleted):
            return landing
        is_deleted = pa.array(deleted)
        return [
            texts if column in self._key_columns else pc.if_else(is_deleted, None, texts)
            for column, texts in zip(self._columns, landing, strict=True)
        ]

    def _look_at_before(self, kind: _Kind, before: Raw | UnsetType) -> None:
        """Nothing is read of the image that an insert or a replace has beside the one that lands: its members count."""
        image = None if before is UNSET else _BESIDE.decode(before)
        if kind.operation is Operation.UPSERT and image and not image.keys() <= {*self._columns}:
            raise NotPlain
        kind.before, kind.before_members = before, len(image or ()) - (before is UNSET)
        if image:
            self.compared.append(_given(before))


def _given(image: Raw | UnsetType) -> Raw:
    if image is UNSET:
        raise NotPlain
    return image


def _with_nulls(texts: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.equal(texts, "null"), None, texts) if hold_any(texts, [b"null"]) else texts


def _position(message: _Message) -> str | None:
    return None if message.cursor is UNSET else position_of(_OPAQUE.decode(message.cursor))
