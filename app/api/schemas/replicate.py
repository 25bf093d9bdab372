"""Replicate messages as the contract tells them to generators of clients.

They describe only: `app.formats` reads the messages, and more strictly. Names of members are the tool's own; members
that are not named here are taken and ignored.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

_DESCRIBED: Final = ConfigDict(use_attribute_docstrings=True)

ReplicateValue = TypeAliasType(
    "ReplicateValue",
    Annotated[
        str | float | bool | None,
        Field(
            description="As Replicate writes the column's type: a number or its text, a boolean, a text; `null` is NULL"
        ),
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
    """Grows with each change of the table's structure."""

    timestamp: str | None = None
    """When the message was written."""


class ReplicateColumn(BaseModel):
    """A column of the source table."""

    model_config = _DESCRIBED

    ordinal: Annotated[int, Field(ge=1, le=10_000)]
    """The column's place, from 1; bits of masks are counted by it."""

    type: str
    """A Replicate type: `INT4`, `WSTRING`, `NUMERIC`, …"""

    length: int | None = None
    """Characters or bytes; not used."""

    precision: int | None = None
    """Digits of a NUMERIC."""

    scale: int | None = None
    """Digits behind the point of a NUMERIC."""

    primary_key_position: Annotated[int, Field(alias="primaryKeyPosition", ge=0)] = 0
    """The column's place in the key, from 1; 0 for none."""

    nullable: bool | None = None
    """Whether the column may be NULL."""


class ReplicateTableStructure(BaseModel):
    """The columns of the source table by name."""

    model_config = _DESCRIBED

    table_columns: Annotated[dict[str, ReplicateColumn], Field(alias="tableColumns")]
    """By column name."""


class ReplicateMetadata(BaseModel):
    """The body of a metadata (MD) message: it registers a table, or evolves it."""

    model_config = _DESCRIBED

    schema_id: Annotated[str | None, Field(alias="schemaId")] = None
    """What data messages name as `messageSchemaId`."""

    lineage: ReplicateLineage
    """The table that is described."""

    table_structure: Annotated[ReplicateTableStructure, Field(alias="tableStructure")]
    """Its columns."""

    data_schema: Annotated[str | dict[str, Any] | None, Field(alias="dataSchema")] = None
    """Replicate's schema of the data; not used."""


class ReplicateHeaders(BaseModel):
    """The headers of a data message."""

    model_config = _DESCRIBED

    operation: str
    """`INSERT`, `UPDATE`, `DELETE`, `REFRESH` or `READ`, in any letter case."""

    change_sequence: Annotated[str | None, Field(alias="changeSequence")] = None
    """The source position, 35 digits; empty for a snapshot row."""

    timestamp: str | None = None
    """When the source changed."""

    stream_position: Annotated[str | None, Field(alias="streamPosition")] = None
    """The place in the source's log."""

    transaction_id: Annotated[str | None, Field(alias="transactionId")] = None
    """Changes of one transaction have one."""

    change_mask: Annotated[str | None, Field(alias="changeMask")] = None
    """Hexadecimal: the columns that changed, by ordinal."""

    column_mask: Annotated[str | None, Field(alias="columnMask")] = None
    """Hexadecimal: the columns that were captured, by ordinal."""

    external_schema_id: Annotated[str | int | None, Field(alias="externalSchemaId")] = None
    """Changes with the structure of the table."""

    transaction_event_counter: Annotated[int | None, Field(alias="transactionEventCounter")] = None
    """The change's place in its transaction."""

    transaction_last_event: Annotated[bool | Literal["True", "False"] | None, Field(alias="transactionLastEvent")] = (
        None
    )
    """Whether the transaction ends with this change."""


class ReplicateRow(BaseModel):
    """What a data message says beside its headers."""

    model_config = _DESCRIBED

    data: ReplicateImage | None = None
    """The row, after the change; of a delete the row that was deleted."""

    before_data: Annotated[ReplicateImage | None, Field(alias="beforeData")] = None
    """The row before an update, or its key; null where the key did not change."""

    source_schema: Annotated[str | None, Field(alias="schema")] = None
    """The schema of the table, where no metadata tells it."""

    table: str | None = None
    """The table, where no metadata tells it."""


class ReplicateData(ReplicateRow):
    """The body of a data (DT) message."""

    headers: ReplicateHeaders
    """What happened to the row."""


class ReplicateFlatData(ReplicateRow):
    """The body of a data message whose headers were flattened by what handed it on."""

    headers_operation: str
    """`headers.operation`."""

    headers_change_sequence: Annotated[str | None, Field(alias="headers_changeSequence")] = None
    """`headers.changeSequence`."""

    headers_timestamp: str | None = None
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


class ReplicateEnvelope(BaseModel):
    """A metadata or data message as Replicate writes it."""

    model_config = _DESCRIBED

    magic: Literal["atMSG"] | None = None
    """Marks the envelope."""

    type: Literal["MD", "DT"] | None = None
    """Metadata or data."""

    headers: dict[str, Any] | None = None
    """Not used: the headers of a data message stand in it."""

    message_schema_id: Annotated[str | None, Field(alias="messageSchemaId")] = None
    """The `schemaId` of the metadata that a data message was written for."""

    message_schema: Annotated[str | dict[str, Any] | None, Field(alias="messageSchema")] = None
    """Not used."""

    message: ReplicateMetadata | ReplicateData | ReplicateFlatData | None
    """The body; null is ignored and counted."""


ReplicateMessage = TypeAliasType(
    "ReplicateMessage",
    Annotated[
        ReplicateEnvelope | ReplicateMetadata | ReplicateData | ReplicateFlatData,
        Field(description="A message in its envelope, or the bare body of one."),
    ],
)
