"""Qlik Replicate JSON: metadata (MD) and data (DT) messages -> metadata and changes.

By default a data message does not name its table: its envelope gives the schema id of the metadata message that
describes it, and its masks count columns in that message's order. What a message says about its table and its columns
remains beside the change, for `history` to resolve. `standard_form` and `layouts` find the parts of a message. Source:
docs/reference/replicate.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET

from app.domain.model.change import UNLIMITED, Change, Image, InputLimits, LogPosition, Operation, SourceTime
from app.domain.model.dead_letter import is_kept
from app.domain.model.names import SourceName, is_bounded
from app.formats.json.decoder import MessageDecoder
from app.formats.json.texts import split
from app.formats.replicate.avro_records import AvroMessages, SchemaLookup, is_avro, kept_schema
from app.formats.replicate.layouts import STANDARD, CustomForm, MessageForm
from app.formats.replicate.masks import read_mask
from app.formats.replicate.metadata import MetadataMessage, read_metadata
from app.formats.replicate.standard_form import (
    KEY_AT,
    DataParts,
    HeaderPointers,
    StandardBody,
    Text,
    data_parts,
    is_metadata,
    text,
    unwrap,
)
from mirrorgate.errors import Code, Problem, RejectedInput

OPERATIONS: Final = {
    "REFRESH": Operation.SNAPSHOT,
    "READ": Operation.SNAPSHOT,
    "INSERT": Operation.INSERT,
    "UPDATE": Operation.UPDATE,
    "DELETE": Operation.DELETE,
}
"""By what messages call them, in any letter case."""

_CHANGE_SEQUENCE: Final = re.compile(r"\d{35}", re.ASCII)


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


DataMessage: TypeAlias = DataChange | RejectedData


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
        raise RejectedInput.at(Code.BAD_OP, detail, index, headers_at.of("operation"))
    before, after, after_at = before_data, data, data_at
    column_mask = read_mask(text(headers.columnMask), index, headers_at.of("columnMask"))
    change_mask = read_mask(text(headers.changeMask), index, headers_at.of("changeMask"))
    if operation is Operation.DELETE:
        # Replicate writes the deleted row into data; beforeData is accepted too. Landing compares the keys of both.
        if data is not None:
            before, after = data, None if before_data == data else before_data
            before_at, after_at = data_at, before_at
    elif data is None:
        raise RejectedInput.at(Code.MALFORMED_MESSAGE, f"{operation} needs data", index, data_at)
    is_without_image = before is None and after is None
    if is_without_image:
        if parts.key is UNSET or parts.key is None:
            detail = 'a DELETE without data needs its key beside it: {"key": …, "value": …}'
            raise RejectedInput.at(Code.MALFORMED_MESSAGE, detail, index, data_at)
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
        raise RejectedInput.at(Code.LEGACY_FORMAT, "an image must be an object, not a list", index, pointer)
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
    number = int(written) if isinstance(written, str) and _ORDER.fullmatch(written) else written
    return number if type(number) is int and 0 <= number < _MAX_ORDER else None


_MAX_ORDER: Final = 2**63
_ORDER: Final = re.compile("[0-9]{1,1000}")
"""A number with zeros before it; int() raises ValueError for 4,301 digits."""


def is_false(written: Any) -> bool:
    """Return True if a flag is false, also in quotes as in Qlik's documentation."""
    return written is False or (isinstance(written, str) and written.casefold() == "false")


@dataclass(frozen=True, slots=True)
class ReplicateRequest:
    """The messages of a body, each kind in order; `ignored` counts messages without a body."""

    metadata: list[MetadataMessage]
    changes: list[DataChange]
    ignored: int
    rejected: list[RejectedData] = field(default_factory=list)
    """Data messages that are set aside."""
    routing_columns: frozenset[str] = frozenset()
    """Columns that name the table, and that are data only if the table has them."""


_DECODER: Final[MessageDecoder[dict[str, Any] | None]] = MessageDecoder(
    dict[str, Any] | None,  # type: ignore[arg-type]  # msgspec reads a union where typing wants a class
    images=["/data", "/beforeData", "/message/data", "/message/beforeData"],
)


def decode_replicate(
    body: bytes,
    limits: InputLimits = UNLIMITED,
    form: MessageForm = STANDARD,
    *,
    schemas: SchemaLookup = lambda _: None,
    keep_rejected: bool = False,
) -> ReplicateRequest:
    """Read a JSON body. Raises RejectedInput naming every wrong message.

    `schemas` finds the schemas of messages in Avro that earlier requests declared. With `keep_rejected`, wrong data
    messages are set aside instead.
    """
    columns = form.table_from.columns if form.table_from else frozenset()
    request = ReplicateRequest([], [], 0, routing_columns=columns)
    reader = _Reader(request, form, AvroMessages(schemas, limits), keep_rejected=keep_rejected)
    for index, element in enumerate(_DECODER.decode(body, limits)):
        reader.add(index, element)
    if reader.problems:
        raise RejectedInput.of(tuple(reader.problems))
    return replace(request, ignored=reader.ignored)


class _Reader:
    """Reader of the elements of one body into a request."""

    def __init__(
        self, request: ReplicateRequest, form: MessageForm, avro: AvroMessages, *, keep_rejected: bool
    ) -> None:
        self.problems: list[Problem] = []
        self.ignored = 0
        self._avro = avro
        self._request, self._form, self._keep_rejected = request, form, keep_rejected
        self._custom = CustomForm(form.layout) if form.layout else None
        self._address: MessageAddress | None = None
        """Address in the present message, once it is known."""

    def add(self, index: int, element: Mapping[str, Any] | None) -> None:
        """Read one element, or note what is wrong with it."""
        try:
            self._read(index, element)
        except RejectedInput as error:
            if error.code is Code.BODY_TOO_LARGE:
                raise  # the memory of the request, not a message
            found = error.problems or (Problem(error.code, error.detail, index),)
            if self._address is not None and self._keep_rejected and is_kept(found):
                self._request.rejected.append(RejectedData(index, *self._address, found))
            else:
                self.problems.extend(found)

    def _read(self, index: int, element: Mapping[str, Any] | None) -> None:
        self._address = None
        key, message, at = split(index, element, self._form.keyed)
        if is_avro(message):
            message = self._decoded(index, message, at)
        if message is None:
            self.ignored += 1
        elif self._custom is not None and not is_metadata(message):
            self._read_custom(self._custom, index, message, at, key)
        elif (body := unwrap(index, message, at)) is None:
            self.ignored += 1
        elif body.typed.tableStructure:
            structure, lineage = body.typed.tableStructure, body.typed.lineage or None
            entry = read_metadata(index, text(body.typed.schemaId), lineage, structure, body.at)
            data_schema = kept_schema(body.typed.dataSchema)
            self._avro.declare(entry.schema_id, data_schema)
            self._request.metadata.append(replace(entry, data_schema=data_schema))
        else:
            self._read_standard(index, body, message, at, key)

    def _decoded(self, index: int, message: Mapping[str, Any], at: str) -> Mapping[str, Any]:
        """Return a message in Avro as it is in JSON. If its bytes are wrong, its schema id still names its table."""
        schema_id = message.get("messageSchemaId")
        if isinstance(schema_id, str) and message.get("type") == "DT" and self._form.table_from is None:
            self._address = MessageAddress(None, schema_id)
        return self._avro.decoded(index, message, at)

    def _read_standard(self, index: int, body: StandardBody, message: Mapping[str, Any], at: str, key: Any) -> None:
        if self._form.table_from is None:
            self._address = MessageAddress(body.source, body.schema_id)
        self._add_change(index, data_parts(index, body, key), message, at, body.schema_id)

    def _read_custom(self, custom: CustomForm, index: int, message: Mapping[str, Any], at: str, key: Any) -> None:
        schema_id = custom.schema_id(message, index, at)
        if self._form.table_from is None:
            self._address = MessageAddress(custom.source(message, index, at), schema_id)
        self._add_change(index, custom.parts(message, index, at, key), message, at, schema_id)

    def _add_change(
        self, index: int, parts: DataParts, message: Mapping[str, Any], at: str, schema_id: str | None
    ) -> None:
        images = Images.of(index, parts)
        if self._form.table_from is not None:
            row, row_at = images.row(parts)
            self._address = MessageAddress(self._form.table_from.source(message, row, row_at, index, at), schema_id)
        assert self._address is not None
        self._request.changes.append(data_change(index, parts, images, self._address))
