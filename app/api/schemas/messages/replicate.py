"""Qlik Replicate messages, described for generators of clients.

The models only describe: `app.formats` reads the messages, and checks more strictly. The JSON keys are Replicate's own;
keys that are not listed here are ignored.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

_DESCRIBED: Final = ConfigDict(use_attribute_docstrings=True)

ReplicateValue = TypeAliasType(
    "ReplicateValue",
    Annotated[
        str | float | bool | None,
        Field(description="A value as Replicate writes it: a number, a boolean or a string. `null` is NULL."),
    ],
)
ReplicateImage = TypeAliasType(
    "ReplicateImage",
    Annotated[dict[str, ReplicateValue], Field(description="The values of a row by column name.")],
)


class ReplicateLineage(BaseModel):
    """The source table that a metadata message describes."""

    model_config = _DESCRIBED

    table: str
    """The table's own name."""

    source_schema: Annotated[str | None, Field(alias="schema")] = None
    """The table's schema."""

    server: str | None = None
    """The Replicate server."""

    task: str | None = None
    """The Replicate task."""

    table_version: Annotated[int | None, Field(alias="tableVersion")] = None
    """A number that grows with each change of the table's structure."""

    timestamp: str | int | None = None
    """When the message was written."""


class ReplicateColumn(BaseModel):
    """A column of the source table."""

    model_config = _DESCRIBED

    ordinal: Annotated[int, Field(ge=1, le=10_000)]
    """The position of the column, from 1. The bits of masks refer to it."""

    type: str
    """A Replicate type: `INT4`, `WSTRING`, `NUMERIC`, …"""

    length: int | None = None
    """Characters or bytes; not used."""

    precision: int | None = None
    """Digits of a NUMERIC."""

    scale: int | None = None
    """Digits after the decimal point of a NUMERIC."""

    primary_key_position: Annotated[int, Field(alias="primaryKeyPosition", ge=0)] = 0
    """The position of the column in the key, from 1; 0 if it is not a key column."""

    nullable: bool | None = None
    """True if the column can be NULL."""


class ReplicateTableStructure(BaseModel):
    """The columns of the source table by name."""

    model_config = _DESCRIBED

    table_columns: Annotated[dict[str, ReplicateColumn], Field(alias="tableColumns")]
    """The columns by name."""


class ReplicateMetadata(BaseModel):
    """The body of a metadata (MD) message, which registers a table or changes its schema."""

    model_config = _DESCRIBED

    schema_id: Annotated[str | None, Field(alias="schemaId")] = None
    """The id that data messages refer to as `messageSchemaId`."""

    lineage: ReplicateLineage
    """The source table."""

    table_structure: Annotated[ReplicateTableStructure, Field(alias="tableStructure")]
    """The columns of the source table."""

    data_schema: Annotated[str | dict[str, Any] | None, Field(alias="dataSchema")] = None
    """Replicate's schema of the data; not used."""


class ReplicateHeaders(BaseModel):
    """The headers of a data message."""

    model_config = _DESCRIBED

    operation: str
    """`INSERT`, `UPDATE`, `DELETE`, `REFRESH` or `READ`, in any letter case."""

    change_sequence: Annotated[str | None, Field(alias="changeSequence")] = None
    """The source position, 35 digits; empty for a snapshot row."""

    timestamp: str | int | None = None
    """When the row changed in the source."""

    stream_position: Annotated[str | None, Field(alias="streamPosition")] = None
    """The position in the log of the source."""

    transaction_id: Annotated[str | None, Field(alias="transactionId")] = None
    """The id that all changes of a transaction share."""

    change_mask: Annotated[str | None, Field(alias="changeMask")] = None
    """Hexadecimal: the columns that changed, by ordinal."""

    column_mask: Annotated[str | None, Field(alias="columnMask")] = None
    """Hexadecimal: the columns that were captured, by ordinal."""

    external_schema_id: Annotated[str | int | None, Field(alias="externalSchemaId")] = None
    """An id that changes with the structure of the table."""

    transaction_event_counter: Annotated[int | None, Field(alias="transactionEventCounter")] = None
    """The position of the change in its transaction."""

    transaction_last_event: Annotated[bool | Literal["True", "False"] | None, Field(alias="transactionLastEvent")] = (
        None
    )
    """True if this is the last change of its transaction."""


class ReplicateRow(BaseModel):
    """The fields of a data message apart from its headers."""

    model_config = _DESCRIBED

    data: ReplicateImage | None = None
    """The row after the change; for a delete, the deleted row."""

    before_data: Annotated[ReplicateImage | None, Field(alias="beforeData")] = None
    """The row before an update, or its key; null if the key did not change."""

    source_schema: Annotated[str | None, Field(alias="schema")] = None
    """The schema of the table, if no metadata message defines it."""

    table: str | None = None
    """The table, if no metadata message defines it."""


class ReplicateData(ReplicateRow):
    """The body of a data (DT) message."""

    headers: ReplicateHeaders
    """The operation, the source position and the transaction of the change."""


class ReplicateFlatData(ReplicateRow):
    """The body of a data message whose headers were flattened by the forwarding application."""

    headers_operation: str
    """`headers.operation`."""

    headers_change_sequence: Annotated[str | None, Field(alias="headers_changeSequence")] = None
    """`headers.changeSequence`."""

    headers_timestamp: str | int | None = None
    """`headers.timestamp`."""

    headers_stream_position: Annotated[str | None, Field(alias="headers_streamPosition")] = None
    """`headers.streamPosition`."""

    headers_transaction_id: Annotated[str | None, Field(alias="headers_transactionId")] = None
    """`headers.transactionId`."""

    headers_change_mask: Annotated[str | None, Field(alias="headers_changeMask")] = None
    """`headers.changeMask`."""

    headers_column_mask: Annotated[str | None, Field(alias="headers_columnMask")] = None
    """`headers.columnMask`."""

    headers_external_schema_id: Annotated[str | int | None, Field(alias="headers_externalSchemaId")] = None
    """`headers.externalSchemaId`."""

    headers_transaction_event_counter: Annotated[int | None, Field(alias="headers_transactionEventCounter")] = None
    """`headers.transactionEventCounter`."""

    headers_transaction_last_event: Annotated[
        bool | Literal["True", "False"] | None, Field(alias="headers_transactionLastEvent")
    ] = None
    """`headers.transactionLastEvent`."""


class ReplicatePlainData(ReplicateRow, ReplicateHeaders):
    """The body of a data message whose headers are beside its images without a prefix."""


class ReplicateEnvelope(BaseModel):
    """A metadata or data message as Replicate writes it."""

    model_config = _DESCRIBED

    magic: Literal["atMSG"] | None = None
    """The mark of the envelope."""

    type: Literal["MD", "DT"] | None = None
    """Metadata or data."""

    headers: dict[str, Any] | None = None
    """Not used. The headers of a data message are inside `message`."""

    message_schema_id: Annotated[str | None, Field(alias="messageSchemaId")] = None
    """The `schemaId` of the metadata that describes this data message."""

    message_schema: Annotated[str | dict[str, Any] | None, Field(alias="messageSchema")] = None
    """Not used."""

    message: ReplicateMetadata | ReplicateData | ReplicateFlatData | ReplicatePlainData | None
    """The body; null is ignored and counted."""


class ReplicateRecord(BaseModel):
    """A message and the key of its Kafka record. Only a delete without an image needs the key."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    key: Any
    """The key columns as an object, the envelope around them, or the value of a single key column."""

    value: "ReplicateEnvelope | ReplicateMetadata | ReplicateData | ReplicateFlatData | ReplicatePlainData | None"
    """The message; null is ignored and counted."""


ReplicateMessage = TypeAliasType(
    "ReplicateMessage",
    Annotated[
        ReplicateEnvelope
        | ReplicateMetadata
        | ReplicateData
        | ReplicateFlatData
        | ReplicatePlainData
        | ReplicateRecord,
        Field(description="A message in its envelope, the bare body of one, or either with its Kafka key."),
    ],
)
