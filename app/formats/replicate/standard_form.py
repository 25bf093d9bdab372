"""The forms of Replicate's messages that need no layout: -> metadata bodies, or the parts of a data message.

A body has an envelope, is `{message:{…}}` or bare. Its headers are an object, or flattened beside the images with or
without the prefix `headers_`, as mongo-kafka's `OperationHelper` finds them. Source: docs/reference/replicate.md.

`ReplicateMessage`, `Body` and `Headers` are Qlik Replicate's messages as they are written, with the tool's names. UNSET
means absent. Keys that are not declared are not needed; the bodies are decoded as plain objects first, so a repeated
key is found in them too.

`with_key` and `with_missing_keys` use the keys of Kafka records, for data messages that leave the key of their row to
them. A DELETE can have no image at all: its key is in the record's key only (FromReplicateTest of jcustenborder's
kafka-connect-transform-cdc, DeleteTest of mongo-kafka). The image of another message can lack the key columns
(ReplaceTest of mongo-kafka). Keys are an object of the key columns, that object inside `key`, `data`, `message` or
`payload`, as envelopes and Connect's converter write it, or the value of a single key column. An object can also be a
string that has it as JSON.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from app.domain.model.change import Change, Image, Operation
from app.domain.model.names import SourceName
from app.formats.json.decoder import MessageDecoder, convert
from app.formats.replicate.metadata import Lineage, TableStructure
from mirrorgate.errors import Code, RejectedInput

Text: TypeAlias = str | UnsetType | None
Id: TypeAlias = str | int | UnsetType | None
WrittenImage: TypeAlias = dict[str, Any] | list[Any] | UnsetType | None


class Headers(msgspec.Struct, gc=False):
    """The headers of a data message."""

    operation: str
    changeSequence: Text = UNSET
    timestamp: Any = UNSET
    streamPosition: Any = UNSET
    transactionId: Any = UNSET
    changeMask: Text = UNSET
    columnMask: Text = UNSET
    externalSchemaId: Id = UNSET
    transactionEventCounter: Any = UNSET
    transactionLastEvent: Any = UNSET


class Body(msgspec.Struct, gc=False):
    """A metadata or a data message; its keys tell which one. Flattened headers are read from the object itself."""

    schemaId: Text = UNSET
    lineage: Lineage | UnsetType | None = UNSET
    tableStructure: TableStructure | UnsetType | None = UNSET
    dataSchema: Any = UNSET
    data: WrittenImage = UNSET
    beforeData: WrittenImage = UNSET
    headers: Headers | UnsetType | None = UNSET
    schema: Text = UNSET
    table: Text = UNSET


class ReplicateMessage(Body, gc=False):
    """An envelope around a body, or the bare body itself."""

    magic: Text = UNSET
    type: Text = UNSET
    messageSchemaId: Text = UNSET
    message: Body | UnsetType | None = UNSET


for _type in (Headers, ReplicateMessage):
    msgspec.json.Decoder(_type)  # read before threads need it, see app.domain.model.table_options


KEY_AT: Final = "/key"
"""JSON Pointer of the key of a Kafka record."""


class HeaderPointers(NamedTuple):
    """JSON Pointers of the headers of a message: `prefix` up to a header's name, but for those in `renamed`."""

    prefix: str
    renamed: Mapping[str, str] | None = None

    def of(self, name: str) -> str:
        """Return the pointer of the header that Replicate calls `name`."""
        pointer = self.renamed.get(name) if self.renamed else None
        return self.prefix + name if pointer is None else pointer


class DataParts(NamedTuple):
    """The parts of a data message, wherever it has them, with their JSON Pointers."""

    data: dict[str, Any] | list[Any] | None
    before_data: dict[str, Any] | list[Any] | None
    headers: Headers
    data_at: str
    before_at: str
    headers_at: HeaderPointers
    key: Any
    """The key that the message was sent with, UNSET if none."""
    key_at: str


_HEADER_PREFIXES: Final = ("headers_", "")
"""Of flattened headers. Without one, the section was deleted in the task's message format."""


class StandardBody(NamedTuple):
    """The body of a message: typed, as it was decoded, and its JSON Pointer."""

    typed: Body
    decoded: Mapping[str, Any]
    at: str
    schema_id: str | None
    """The schema id of the envelope."""

    @property
    def source(self) -> SourceName | None:
        """The table that a data message names. Raises RejectedInput `bad_name`."""
        return SourceName.of(None, self.typed.schema or None, self.typed.table) if self.typed.table else None


def unwrap(index: int, message: Mapping[str, Any], at: str) -> StandardBody | None:
    """Return the body of a message whose JSON Pointer is `at`, None for an envelope around null.

    Raises RejectedInput `malformed_message` or `bad_envelope`.
    """
    typed = convert(message, ReplicateMessage, index, at)
    inner = typed.message
    schema_id = typed.messageSchemaId or None
    if text(typed.magic) is None and text(typed.type) is None:
        if inner is UNSET:
            return StandardBody(typed, message, at, schema_id)
        return None if inner is None else StandardBody(inner, message["message"], f"{at}/message", schema_id)
    if typed.magic != "atMSG" or typed.type not in {"MD", "DT"}:
        raise RejectedInput(Code.BAD_ENVELOPE, "the envelope must have magic atMSG and type MD or DT")
    if inner is None:
        return None
    if inner is UNSET:
        raise RejectedInput(Code.BAD_ENVELOPE, "the envelope has no message")
    if (typed.type == "MD") != bool(inner.tableStructure):
        raise RejectedInput(
            Code.BAD_ENVELOPE, f"the envelope has type {typed.type}, and its message is of the other type"
        )
    return StandardBody(inner, message["message"], f"{at}/message", schema_id)


def is_metadata(message: Mapping[str, Any]) -> bool:
    """Return True if a message with or without an envelope is a metadata message."""
    inner = message.get("message", message)
    return isinstance(inner, dict) and bool(inner.get("tableStructure"))


def data_parts(index: int, body: StandardBody, key: Any) -> DataParts:
    """Return the parts of a data message. Raises RejectedInput `malformed_message`."""
    at, typed = body.at, body.typed
    headers, pointers = _headers(index, body)
    return DataParts(
        None if typed.data is UNSET else typed.data,
        None if typed.beforeData is UNSET else typed.beforeData,
        headers,
        f"{at}/data",
        f"{at}/beforeData",
        pointers,
        key,
        KEY_AT,
    )


def _headers(index: int, body: StandardBody) -> tuple[Headers, HeaderPointers]:
    """Return the headers, given as an object or flattened, and their pointers."""
    flattened = [prefix for prefix in _HEADER_PREFIXES if body.decoded.get(f"{prefix}operation") is not None]
    given = body.typed.headers
    if len(flattened) + bool(given) > 1:
        detail = "headers are given both as an object and flattened" if given else "headers are given twice"
        raise RejectedInput.at(Code.MALFORMED_MESSAGE, detail, index, f"{body.at}/{flattened[0]}operation")
    if given:
        return given, _pointers(f"{body.at}/headers/")
    if not flattened:
        raise RejectedInput.at(Code.MALFORMED_MESSAGE, "a data message needs headers", index, f"{body.at}/headers")
    prefix = flattened[0]
    found = {name: body.decoded[prefix + name] for name in Headers.__struct_fields__ if prefix + name in body.decoded}
    pointers = _pointers(f"{body.at}/{prefix}")
    return as_headers(index, found, pointers), pointers


def as_headers(index: int, found: Mapping[str, Any], pointers: HeaderPointers) -> Headers:
    """Return headers that were found one by one. Raises RejectedInput `malformed_message` with the header's pointer."""
    try:
        return convert(found, Headers, index, "")
    except RejectedInput as error:
        [problem] = error.problems
        name = (problem.pointer or "").strip("/") or "operation"
        raise RejectedInput.at(problem.code, problem.detail, index, pointers.of(name)) from None


@lru_cache(maxsize=64)
def _pointers(prefix: str) -> HeaderPointers:
    """Return the pointers with this prefix, of which there are few."""
    return HeaderPointers(prefix)


def text(written: Text) -> str | None:
    """Return a string, None for null or nothing."""
    return written if isinstance(written, str) else None


_DECODER: Final = MessageDecoder(dict[str, Any])
_WRAPPERS: Final = ("message", "payload", "key", "keyData", "data")
"""Keys of an object around the key columns, from the outside inwards."""

_BESIDE: Final = frozenset({"magic", "type", "headers", "messageSchemaId", "messageSchema", "schema", "schemaId"})
"""Keys that can be beside the key columns in a wrapper."""


def with_key(change: Change, key: Any, key_at: str, key_columns: Sequence[str]) -> Change:
    """Return a delete without an image as one whose image is its key.

    Raises RejectedInput `missing_key` if the key lacks a column of the table's key.
    """
    image = key_image(key, key_columns)
    if image is None:
        detail = f"the key must have the table's key columns: {', '.join(key_columns)}"
        raise RejectedInput.at(Code.MISSING_KEY, detail, change.index, key_at)
    return msgspec.structs.replace(change, before=image, before_at=key_at)


def with_missing_keys(change: Change, key: Any, key_columns: Sequence[str]) -> Change:
    """Return a change whose row lacks key columns with those of the key that it was sent with, if that has them."""
    is_delete = change.operation is Operation.DELETE
    row = change.before if is_delete else change.after
    if row is None or all(column in row for column in key_columns):
        return change
    image = key_image(key, key_columns)
    if image is None:
        return change
    row = image | row
    return msgspec.structs.replace(change, before=row) if is_delete else msgspec.structs.replace(change, after=row)


def key_image(key: Any, key_columns: Sequence[str]) -> Image | None:
    """Return the key columns that a record's key has, None if it lacks one."""
    if not key_columns or key is UNSET or key is None:
        return None
    if isinstance(key, str) and key.startswith("{"):
        inner = _from_text(key)
        if isinstance(inner, dict) and (image := key_image(inner, key_columns)) is not None:
            return image
    if not isinstance(key, dict):
        return {key_columns[0]: key} if len(key_columns) == 1 and not isinstance(key, list) else None
    if all(column in key for column in key_columns):
        return {column: key[column] for column in key_columns}
    inner = _unwrapped(key)
    return None if inner is UNSET else key_image(inner, key_columns)


def _from_text(key: str) -> Any:
    """Return the JSON that a key has as its text, None for a string that is not JSON."""
    try:
        objects = _DECODER.decode(key.encode())
    except RejectedInput:
        return None
    return objects[0] if len(objects) == 1 else None


def _unwrapped(key: Mapping[str, Any]) -> Any:
    """Return what is inside a wrapper, UNSET if the object is none."""
    for name in _WRAPPERS:
        if name in key and key.keys() <= {name} | _BESIDE:
            return key[name]
    return UNSET
