"""Qlik Replicate's messages as they are written.

Names are the tool's. UNSET means absent. Keys of type Any are opaque or not needed; they are declared because a key
that no type knows costs a second reading, for duplicate keys.
"""

from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

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
