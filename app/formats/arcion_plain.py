"""Arcion JSON, the plain case, which is nearly every large body: changes of one table that give all of its columns.

Only the image that lands is decoded. The rest of a message is compared as it is written with that of the message
before, and what was found for one holds for all. Whatever differs, or might be wrong, is left to `decode_arcion`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from app.domain.change import Operation
from app.domain.plain_rows import PlainRow, PlainRows
from app.domain.row_builder import row_getter
from app.domain.source_name import SourceName
from app.errors import RejectedInput
from app.formats.arcion import OPERATIONS, position_of
from app.formats.arcion_address import AddressBook, TableAddress, members_of_address
from app.formats.member_screen import is_suspicious
from app.formats.strict_json import MessageDecoder

_Image = dict[str, str]
_IMAGE: Final = msgspec.json.Decoder(_Image)
_FLAGS: Final = msgspec.json.Decoder(dict[str, str | int])
_ADDRESS: Final = msgspec.json.Decoder(TableAddress)
_BESIDE: Final = msgspec.json.Decoder(dict[str, str] | None)
_OPAQUE: Final = msgspec.json.Decoder()
_PLAIN_FLAGS: Final[Mapping[Operation, Sequence[set[str | int]]]] = {
    Operation.INSERT: [{"1"}, {1}],
    Operation.UPSERT: [{"1"}, {1}],
    Operation.UPDATE: [{"3"}, {3}],
    Operation.DELETE: [{"2"}, {2}],
}
_OWN_MEMBERS: Final = 7
"""Those of a message, when all of them are written."""


class _Message(msgspec.Struct, gc=False):
    tableName: Raw
    opType: str
    exists: Raw
    before: Raw | UnsetType = UNSET
    after: _Image | UnsetType | None = UNSET
    cursor: Raw | UnsetType = UNSET
    operationcount: Raw | UnsetType = UNSET


_DECODER: Final = MessageDecoder(_Message)


class _NotPlain(Exception):
    """`decode_arcion` must read this body."""


@dataclass(slots=True)
class _Kind:
    """What messages of one operation share as long as they are written alike."""

    operation: Operation
    exists: Raw | None = None
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

    def rows(self, columns: Sequence[str], key_columns: Sequence[str]) -> PlainRows | None:
        """The rows for a table of these columns, or None where this body is not plain for it."""
        reading = _Reading(columns, key_columns)
        try:
            for message in self._messages:
                reading.add(message)
            position = next(filter(None, map(_position, reversed(self._messages))), None)
            address_members = members_of_address(_ADDRESS.decode(self._messages[0].tableName))
        except (_NotPlain, KeyError, msgspec.DecodeError, ValueError, RecursionError):
            return None
        members = reading.members + len(self._messages) * address_members
        if is_suspicious(self._body, members, surrogates=True):
            return None
        return PlainRows(reading.rows, reading.operations, position)


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
    """Collects the rows of messages, their operations, and how many members were written, or fewer.

    Its methods raise _NotPlain, KeyError for a column that is not given, or msgspec.DecodeError.
    """

    def __init__(self, columns: Sequence[str], key_columns: Sequence[str]) -> None:
        self.rows: list[PlainRow] = []
        self.operations: list[Operation] = []
        self.members = 0
        self._columns, self._key_columns = columns, key_columns
        self._width = len(columns)
        self._row_of, self._key_of = row_getter(columns), row_getter(key_columns)
        self._kinds = {text: _Kind(operation) for text, operation in OPERATIONS.items()}

    def add(self, message: _Message) -> None:
        kind = self._kinds.get(message.opType)
        if kind is None:
            raise _NotPlain
        if message.exists != kind.exists:
            self._look_at_exists(kind, message.exists)
        if kind.operation is Operation.DELETE:
            row = self._deleted(message)
        elif kind.operation is Operation.UPDATE:
            row = self._updated(message)
        else:
            if message.before != kind.before:
                self._look_at_before(kind, message.before)
            self.members += kind.before_members
            row = self._whole(message.after)
        self.rows.append(tuple([None if value == "null" else value for value in row]) if "null" in row else row)
        self.operations.append(kind.operation)
        self.members += _OWN_MEMBERS + 2 * self._width - (message.cursor is UNSET) - (message.operationcount is UNSET)

    def _whole(self, image: _Image | UnsetType | None) -> PlainRow:
        """The row of an image with every column and no other."""
        if not image or len(image) != self._width:
            raise _NotPlain
        return self._row_of(image)

    def _updated(self, message: _Message) -> PlainRow:
        before, after = self._before(message), message.after
        row = self._whole(after)
        if not after or not self._key_columns or self._key_of(before) != self._key_of(after):
            raise _NotPlain
        return row

    def _deleted(self, message: _Message) -> PlainRow:
        before, after = self._before(message), message.after
        if not self._key_columns:
            raise _NotPlain
        if after:
            self._whole(after)
        else:
            self.members -= self._width + (after is UNSET)
        key = dict(zip(self._key_columns, self._key_of(before), strict=True))
        return tuple([key.get(column) for column in self._columns])

    def _before(self, message: _Message) -> _Image:
        if message.before is UNSET:
            raise _NotPlain
        before = _IMAGE.decode(message.before)
        self._whole(before)
        self.members += self._width
        return before

    def _look_at_exists(self, kind: _Kind, exists: Raw) -> None:
        """Whether every column stands where it plainly does for this operation, and no other column anywhere."""
        flags = _FLAGS.decode(exists)
        if set(flags.values()) not in _PLAIN_FLAGS[kind.operation] or flags.keys() != {*self._columns}:
            raise _NotPlain
        kind.exists = exists

    def _look_at_before(self, kind: _Kind, before: Raw | UnsetType) -> None:
        """Nothing is read of the image that an insert or a replace has beside the one that lands: its members count."""
        image = None if before is UNSET else _BESIDE.decode(before)
        if kind.operation is Operation.UPSERT and image and not image.keys() <= {*self._columns}:
            raise _NotPlain
        kind.before, kind.before_members = before, len(image or ()) - (before is UNSET)


def _position(message: _Message) -> str | None:
    return None if message.cursor is UNSET else position_of(_OPAQUE.decode(message.cursor))
