"""Qlik Replicate's messages as they are written.

Names are the tool's. UNSET means absent. Keys that are not declared are not needed; the bodies are decoded as plain
objects first, so a repeated key is found in them too.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

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
    """A metadata or a data message; its keys tell which one. Flattened headers are read from the object itself."""

    schemaId: Text = UNSET
    lineage: Lineage | UnsetType | None = UNSET
    tableStructure: TableStructure | UnsetType | None = UNSET
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
