"""Qlik Replicate's messages as they are written, and how many JSON keys they were written with.

Names are the tool's. UNSET means absent, for the count of keys. Keys of type Any are opaque or not needed; they are
declared because a key that no type knows costs an exact check for duplicates.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from app.formats.json.duplicate_key_prefilter import count_written_keys
from app.formats.replicate.metadata import Lineage, TableStructure

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
    """A metadata or a data message; its keys tell which one."""

    schemaId: Text = UNSET
    lineage: Lineage | UnsetType | None = UNSET
    tableStructure: TableStructure | UnsetType | None = UNSET
    dataSchema: Any = UNSET
    data: WrittenImage = UNSET
    beforeData: WrittenImage = UNSET
    headers: Headers | UnsetType | None = UNSET
    schema: Text = UNSET
    table: Text = UNSET
    headers_operation: Text = UNSET
    headers_changeSequence: Text = UNSET
    headers_timestamp: Any = UNSET
    headers_streamPosition: Any = UNSET
    headers_transactionId: Any = UNSET
    headers_changeMask: Text = UNSET
    headers_columnMask: Text = UNSET
    headers_externalSchemaId: Id = UNSET
    headers_transactionEventCounter: Any = UNSET
    headers_transactionLastEvent: Any = UNSET


class ReplicateMessage(Body, gc=False):
    """An envelope around a body, or the bare body itself."""

    magic: Text = UNSET
    type: Text = UNSET
    messageSchemaId: Text = UNSET
    messageSchema: Any = UNSET
    message: Body | UnsetType | None = UNSET


def count_keys(messages: Sequence[ReplicateMessage | None]) -> int:
    """Return how many keys the messages were written with, or fewer, for the check of duplicate keys."""
    keys = 0
    for message in messages:
        if message is None:
            continue
        body = message.message
        if body:
            keys += _count_envelope_keys(message)
            keys += _count_data_keys(body, body.headers) if body.headers else _count_any_keys(body)
        else:
            keys += _count_any_keys(message)
    return keys


def _count_envelope_keys(message: ReplicateMessage) -> int:
    """Count the keys of an envelope with a body; keys of a second body beside it are not counted."""
    keys = 6
    if message.magic is UNSET:
        keys -= 1
    if message.type is UNSET:
        keys -= 1
    if message.headers is UNSET:
        keys -= 1
    if message.messageSchemaId is UNSET:
        keys -= 1
    if message.messageSchema is UNSET:
        keys -= 1
    return keys


def _count_data_keys(body: Body, headers: Headers) -> int:
    """Count the keys of the usual data message, faster than of any other; keys of metadata are left out."""
    data, before_data = body.data, body.beforeData
    keys = 3 + _count_headers_keys(headers) + (body.schema is not UNSET) + (body.table is not UNSET)
    keys += len(data) if isinstance(data, dict) else -(data is UNSET)
    keys += len(before_data) if isinstance(before_data, dict) else -(before_data is UNSET)
    return keys


def _count_headers_keys(headers: Headers) -> int:
    """Count the keys of headers like `count_written_keys`, but faster: nearly every message has them."""
    keys = 10
    if headers.changeSequence is UNSET:
        keys -= 1
    if headers.timestamp is UNSET:
        keys -= 1
    if headers.streamPosition is UNSET:
        keys -= 1
    if headers.transactionId is UNSET:
        keys -= 1
    if headers.changeMask is UNSET:
        keys -= 1
    if headers.columnMask is UNSET:
        keys -= 1
    if headers.externalSchemaId is UNSET:
        keys -= 1
    if headers.transactionEventCounter is UNSET:
        keys -= 1
    if headers.transactionLastEvent is UNSET:
        keys -= 1
    return keys


def _count_any_keys(body: Body) -> int:
    keys = count_written_keys(body)
    keys += sum(len(image) for image in (body.data, body.beforeData) if isinstance(image, dict))
    keys += sum(count_written_keys(inner) for inner in (body.headers, body.lineage, body.tableStructure) if inner)
    if body.tableStructure:
        columns = body.tableStructure.tableColumns
        keys += len(columns) + sum(map(count_written_keys, columns.values()))
    return keys
