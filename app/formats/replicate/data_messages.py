"""Replicate's data (DT) messages: the parts of a message -> a change as it is written.

What a message says about its table and its columns remains beside the change, for `versions` to resolve. Source:
docs/reference/replicate.md, "Operations".
"""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from app.domain.model.change import Change, Image, Operation, SourceTime
from app.domain.model.log_position import LogPosition
from app.domain.model.names import SourceName, is_bounded
from app.formats.replicate.forms.standard_form import KEY_AT, DataParts, HeaderPointers, Text, rejection, text
from app.formats.replicate.masks import read_mask
from mirrorgate.errors import Code, Problem

OPERATIONS: Final = {
    "REFRESH": Operation.SNAPSHOT,
    "READ": Operation.SNAPSHOT,
    "INSERT": Operation.INSERT,
    "UPDATE": Operation.UPDATE,
    "DELETE": Operation.DELETE,
}
"""By what messages call them, in any letter case."""

_CHANGE_SEQUENCE: Final = re.compile(r"\d{35}", re.ASCII)


class DataMessage(Protocol):
    """Identity of the table and the source version of a DT message."""

    @property
    def index(self) -> int:
        """The position of the message in the request."""

    @property
    def source(self) -> SourceName | None:
        """The table that the message's own address names."""

    @property
    def schema_id(self) -> str | None:
        """The schema id of its envelope."""

    @property
    def external_schema_id(self) -> str | None:
        """The external schema id of its headers."""

    @property
    def headers_at(self) -> HeaderPointers:
        """JSON Pointers of its headers."""


class RejectedData(msgspec.Struct, frozen=True):
    """A wrong DT message that is set aside."""

    index: int
    source: SourceName | None
    schema_id: str | None
    problems: tuple[Problem, ...]
    external_schema_id: str | None = None
    headers_at: HeaderPointers = HeaderPointers("")


class DataChange(msgspec.Struct, frozen=True, gc=False):
    """A DT message: the change as it is written, and what the message says about its table and columns."""

    change: Change
    source: SourceName | None
    schema_id: str | None
    column_mask: int | None = None
    """Bit i is set if the column with ordinal i + 1 was captured. None: all columns of the image were."""
    change_mask: int | None = None
    external_schema_id: str | None = None
    headers_at: HeaderPointers = HeaderPointers("")
    key: Any = UNSET
    """The key that the message was sent with: that of a delete without an image, or of a row without key columns."""
    key_at: str = KEY_AT

    @property
    def index(self) -> int:
        """The position of the message in the request."""
        return self.change.index


class MessageAddress(NamedTuple):
    """A message's reference to its table: a name, a schema id, or both."""

    source: SourceName | None
    schema_id: str | None


class Images(NamedTuple):
    """The images of a data message."""

    data: Image | None
    before_data: Image | None
    data_at: str
    before_at: str

    @classmethod
    def of(cls, index: int, parts: DataParts) -> "Images":
        """Raise RejectedInput `legacy_format` for an image that is a list."""
        return cls(
            _image(parts.data, index, parts.data_at),
            _image(parts.before_data, index, parts.before_at),
            parts.data_at,
            parts.before_at,
        )

    def row(self, parts: DataParts) -> tuple[Mapping[str, Any], str]:
        """Return the row that names the table, and its JSON Pointer."""
        if self.data is not None:
            return self.data, self.data_at
        if self.before_data is not None:
            return self.before_data, self.before_at
        return (parts.key, parts.key_at) if isinstance(parts.key, dict) else ({}, self.data_at)


def data_change(index: int, parts: DataParts, images: Images, address: MessageAddress) -> DataChange:
    """Return the change of a data message.

    Raises RejectedInput `bad_op`, `bad_mask`, or `malformed_message` if an image is missing.
    """
    headers, headers_at = parts.headers, parts.headers_at
    data, before_data, data_at, before_at = images
    operation = OPERATIONS.get(headers.operation.upper())
    if operation is None:
        detail = "the operation must be REFRESH, READ, INSERT, UPDATE or DELETE"
        raise rejection(Code.BAD_OP, detail, index, headers_at.of("operation"))
    before, after, after_at = before_data, data, data_at
    column_mask = read_mask(text(headers.columnMask), index, headers_at.of("columnMask"))
    change_mask = read_mask(text(headers.changeMask), index, headers_at.of("changeMask"))
    if operation is Operation.DELETE:
        # Replicate writes the deleted row into data; beforeData is accepted too. Landing compares the keys of both.
        if data is not None:
            before, after = data, None if before_data == data else before_data
            before_at, after_at = data_at, before_at
    elif data is None:
        raise rejection(Code.MALFORMED_MESSAGE, f"{operation} needs data", index, data_at)
    is_without_image = before is None and after is None
    if is_without_image:
        if parts.key is UNSET or parts.key is None:
            detail = 'a DELETE without data needs its key beside it: {"key": …, "value": …}'
            raise rejection(Code.MALFORMED_MESSAGE, detail, index, data_at)
        column_mask = change_mask = None  # of the row that the message does not have
    change = Change(
        index=index,
        operation=operation,
        before=before,
        after=after,
        before_at=before_at,
        after_at=after_at,
        source_position=headers.changeSequence or None,
        position_at=headers_at.of("changeSequence"),
        log_position=log_position_of(headers.changeSequence),
        source_time=source_time(headers.timestamp),
        transaction_id=transaction_id(headers.transactionId),
        transaction_order=transaction_order(headers.transactionEventCounter),
        ends_transaction=headers.transactionLastEvent is True or not is_false(headers.transactionLastEvent),
    )
    return DataChange(
        change,
        address.source,
        address.schema_id,
        column_mask,
        change_mask,
        str(headers.externalSchemaId) if headers.externalSchemaId else None,
        headers_at,
        parts.key,
        parts.key_at,
    )


def log_position_of(sequence: Text) -> LogPosition | None:
    """Return the position that a change sequence is: 35 digits, monotone per task; empty in a full load."""
    return LogPosition("", sequence) if isinstance(sequence, str) and _CHANGE_SEQUENCE.fullmatch(sequence) else None


def _image(image: dict[str, Any] | list[Any] | None, index: int, pointer: str) -> Image | None:
    if isinstance(image, list):
        raise rejection(Code.LEGACY_FORMAT, "an image must be an object, not a list", index, pointer)
    return image


def source_time(written: Any) -> SourceTime:
    """Return the `timestamp` of headers; None for one that is empty, or neither a string nor a whole number."""
    return written or None if isinstance(written, str | int) and not isinstance(written, bool) else None


def transaction_id(written: Any) -> str | None:
    """Return the `transactionId` of headers; None if it is empty, too long, or neither a string nor a number."""
    text = str(written) if isinstance(written, str | int) and not isinstance(written, bool) else ""
    return text if text and is_bounded(text) else None


def transaction_order(written: Any) -> int | None:
    """Return the `transactionEventCounter` of headers; None for anything but a whole number."""
    number = int(written) if isinstance(written, str) and written.isascii() and written.isdecimal() else written
    return number if type(number) is int and 0 <= number < _MAX_ORDER else None


_MAX_ORDER: Final = 2**63


def is_false(written: Any) -> bool:
    """Return True if a flag is false, also in quotes as in Qlik's documentation."""
    return written is False or (isinstance(written, str) and written.casefold() == "false")
