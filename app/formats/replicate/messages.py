"""Qlik Replicate JSON: metadata (MD) and data (DT) messages -> metadata and changes.

A message has an envelope, is `{message:{…}}` or bare, with its headers as an object or flattened beside the images.
By default a data message does not name its table: its envelope gives the schema id of the metadata message that
describes it, and its masks count columns in that message's order. `versions` resolves both. Source: docs/formats.md,
"Replicate".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec import UNSET

from app.domain.model.change import Change, Image, Operation
from app.domain.model.dead_letter import is_kept
from app.domain.model.input_limits import UNLIMITED, InputLimits
from app.domain.model.source_name import SourceName
from app.errors import Code, Problem, RejectedInput
from app.formats.json.decoder import MessageDecoder
from app.formats.replicate.envelope import Body, Headers, ReplicateMessage, Text, WrittenImage
from app.formats.replicate.masks import read_mask
from app.formats.replicate.metadata import TableMetadata, read_metadata

OPERATIONS: Final = {
    "REFRESH": Operation.SNAPSHOT,
    "READ": Operation.SNAPSHOT,
    "INSERT": Operation.INSERT,
    "UPDATE": Operation.UPDATE,
    "DELETE": Operation.DELETE,
}
"""By what messages call them, in any letter case."""


class _Pointers(NamedTuple):
    """JSON Pointers into a data message; `headers` is that of a header up to its name."""

    data: str
    before_data: str
    headers: str
    sequence: str


_POINTERS: Final = {
    (prefix, sign): _Pointers(
        f"{prefix}/data", f"{prefix}/beforeData", f"{prefix}/headers{sign}", f"{prefix}/headers{sign}changeSequence"
    )
    for prefix in ("", "/message")
    for sign in "/_"
}


class DataMessage(Protocol):
    """What identifies the table and the source version of a DT message."""

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
    def headers_at(self) -> str:
        """JSON Pointer of a header up to its name."""


class RejectedData(msgspec.Struct, frozen=True):
    """A wrong DT message that is set aside."""

    index: int
    source: SourceName | None
    schema_id: str | None
    problems: tuple[Problem, ...]
    external_schema_id: str | None = None
    headers_at: str = ""


class DataChange(msgspec.Struct, frozen=True, gc=False):
    """A DT message: the change as it is written, and what the message says about its table and columns."""

    change: Change
    source: SourceName | None
    schema_id: str | None
    column_mask: int | None = None
    """Bit i is set if the column with ordinal i + 1 was captured. None: all columns of the image were."""
    change_mask: int | None = None
    external_schema_id: str | None = None
    headers_at: str = ""
    """JSON Pointer of a header up to its name."""

    @property
    def index(self) -> int:
        """The position of the message in the request."""
        return self.change.index


@dataclass(frozen=True, slots=True)
class ReplicateRequest:
    """The messages of a body, each kind in order; `ignored` counts messages without a body."""

    metadata: list[TableMetadata]
    changes: list[DataChange]
    ignored: int
    rejected: list[RejectedData] = field(default_factory=list)
    """Data messages that are set aside."""


_DECODER: Final[MessageDecoder[ReplicateMessage | None]] = MessageDecoder(ReplicateMessage | None)  # type: ignore[arg-type]  # msgspec reads a union where typing wants a class


def decode_replicate(body: bytes, limits: InputLimits = UNLIMITED, *, keep_rejected: bool = False) -> ReplicateRequest:
    """Read a JSON body. Raises RejectedInput naming every wrong message.

    With `keep_rejected`, wrong data messages are set aside instead.
    """
    request = ReplicateRequest([], [], 0)
    problems: list[Problem] = []
    ignored = 0
    for index, message in enumerate(_DECODER.decode(body, limits)):
        try:
            inner, prefix = _unwrap(message)
            if inner is None:
                ignored += 1
            elif inner.tableStructure:
                request.metadata.append(
                    read_metadata(index, _text(inner.schemaId), inner.lineage or None, inner.tableStructure, prefix)
                )
            else:
                schema_id = message.messageSchemaId if message is not None else None
                request.changes.append(_data_change(index, inner, prefix, schema_id or None))
        except RejectedInput as error:
            found = error.problems or (Problem(error.code, error.detail, index),)
            if keep_rejected and is_kept(found):
                request.rejected.append(_rejected_data(index, message, found))
            else:
                problems.extend(found)
    if problems:
        raise RejectedInput.of(tuple(problems))
    return replace(request, ignored=ignored)


def _unwrap(message: ReplicateMessage | None) -> tuple[Body | None, str]:
    """Return the body of a message and its JSON Pointer; None for a null in place of a message or a body."""
    if message is None:
        return None, ""
    inner = message.message
    if _text(message.magic) is None and _text(message.type) is None:
        return (message, "") if inner is UNSET else (inner, "/message")
    if message.magic != "atMSG" or message.type not in {"MD", "DT"}:
        raise RejectedInput(Code.BAD_ENVELOPE, "the envelope must have magic atMSG and type MD or DT")
    if inner is None:
        return None, "/message"
    if inner is UNSET:
        raise RejectedInput(Code.BAD_ENVELOPE, "the envelope has no message")
    if (message.type == "MD") != bool(inner.tableStructure):
        raise RejectedInput(
            Code.BAD_ENVELOPE, f"the envelope has type {message.type}, and its message is of the other type"
        )
    return inner, "/message"


def _rejected_data(index: int, message: ReplicateMessage | None, problems: tuple[Problem, ...]) -> RejectedData:
    """Set a message aside. Raises RejectedInput `bad_name` if it names a table that cannot exist."""
    inner, _ = _unwrap(message)
    assert message is not None
    assert inner is not None
    return RejectedData(index, _address(inner), _text(message.messageSchemaId) or None, problems)


def _address(body: Body) -> SourceName | None:
    return SourceName.of(None, body.schema or None, body.table) if body.table else None


def _data_change(index: int, body: Body, prefix: str, schema_id: str | None) -> DataChange:
    headers, pointers = _headers(body, index, prefix)
    data_at, before_at, headers_at, sequence_at = pointers
    data, before_data = _image(body.data, index, data_at), _image(body.beforeData, index, before_at)
    operation = OPERATIONS.get(headers.operation.upper())
    if operation is None:
        raise _rejection(
            Code.BAD_OP,
            "the operation must be REFRESH, READ, INSERT, UPDATE or DELETE",
            index,
            f"{headers_at}operation",
        )
    before, after, after_at = before_data, data, data_at
    if operation is Operation.DELETE:
        # Replicate writes the deleted row into data; beforeData is accepted too. Landing compares the keys of both.
        if data is not None:
            before, after = data, None if before_data == data else before_data
            before_at, after_at = data_at, before_at
    elif data is None:
        raise _rejection(Code.MALFORMED_MESSAGE, f"{operation} needs data", index, data_at)
    if before is None and after is None:
        raise _rejection(Code.MALFORMED_MESSAGE, "a data message needs data", index, data_at)
    change = Change(
        index=index,
        operation=operation,
        before=before,
        after=after,
        before_at=before_at,
        after_at=after_at,
        source_position=headers.changeSequence or None,
        position_at=sequence_at,
        ends_transaction=headers.transactionLastEvent is True or not is_false(headers.transactionLastEvent),
    )
    return DataChange(
        change,
        _address(body),
        schema_id,
        read_mask(_text(headers.columnMask), index, headers_at, "columnMask"),
        read_mask(_text(headers.changeMask), index, headers_at, "changeMask"),
        str(headers.externalSchemaId) if headers.externalSchemaId else None,
        headers_at,
    )


def _image(image: WrittenImage, index: int, pointer: str) -> Image | None:
    if isinstance(image, list):
        raise _rejection(Code.LEGACY_FORMAT, "an image must be an object, not a list", index, pointer)
    return image if isinstance(image, dict) else None


def is_false(written: Any) -> bool:
    """Tell whether a flag is false, also in quotes as in Qlik's documentation."""
    return written is False or (isinstance(written, str) and written.casefold() == "false")


def _text(written: Text) -> str | None:
    return written if isinstance(written, str) else None


def _headers(body: Body, index: int, prefix: str) -> tuple[Headers, _Pointers]:
    """Return the headers, given as an object or flattened, and the pointers to the parts of the message."""
    flattened_operation = _text(body.headers_operation)
    if body.headers:
        if flattened_operation is not None:
            detail = "headers are given both as an object and flattened"
            raise _rejection(Code.MALFORMED_MESSAGE, detail, index, f"{prefix}/headers_operation")
        return body.headers, _POINTERS[prefix, "/"]
    if flattened_operation is None:
        raise _rejection(Code.MALFORMED_MESSAGE, "a data message needs headers", index, f"{prefix}/headers")
    flattened: Mapping[str, Any] = {name: getattr(body, f"headers_{name}") for name in Headers.__struct_fields__}
    return Headers(**flattened), _POINTERS[prefix, "_"]


def _rejection(code: Code, detail: str, index: int, pointer: str) -> RejectedInput:
    return RejectedInput.of((Problem(code, detail, index, pointer),))
