"""Debezium's change events, described for generators of clients.

The models only describe: `app.formats` reads the events, and checks more strictly. An event can have its Connect schema
beside it, be a row alone (`ExtractNewRecordState`), or be the value of a Kafka record beside its key.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypeAliasType

_DESCRIBED: Final = ConfigDict(use_attribute_docstrings=True)

DebeziumImage = TypeAliasType(
    "DebeziumImage",
    Annotated[dict[str, Any], Field(description="The values of a row by column name, as the connector writes them.")],
)


class DebeziumSource(BaseModel):
    """Where a change happened. Members that are not listed belong to the connector."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    db: str | None = None
    """The database; it is the schema of the table's name if the source has no schemas."""

    source_schema: Annotated[str | None, Field(alias="schema")] = None
    """The table's schema."""

    table: str | None = None
    """The table's own name."""


class DebeziumEnvelope(BaseModel):
    """A change of a row."""

    model_config = _DESCRIBED

    op: Literal["c", "r", "u", "d"]
    """Create, read by a snapshot, update or delete."""

    before: DebeziumImage | None = None
    """The row before the change, or its key; can be NULL in an update."""

    after: DebeziumImage | None = None
    """The row after the change; NULL in a delete."""

    source: DebeziumSource | None = None
    """Where the change happened."""

    ts_ms: int | None = None
    """When the connector read the change."""


class DebeziumEvent(BaseModel):
    """A change with the Connect schema that JsonConverter writes with `schemas.enable=true`."""

    model_config = _DESCRIBED

    connect_schema: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    """The Connect schema of the payload. It registers the table, or adds columns to it."""

    payload: DebeziumEnvelope | DebeziumImage | None
    """The change; NULL in a tombstone."""


class DebeziumRecord(BaseModel):
    """A Kafka record: a key and an event."""

    model_config = _DESCRIBED

    key: Any
    """The record's key, with or without its schema; its members are the key columns."""

    value: DebeziumEvent | DebeziumEnvelope | DebeziumImage | None
    """The event; NULL in a tombstone."""


DebeziumMessage = TypeAliasType(
    "DebeziumMessage",
    Annotated[
        DebeziumRecord | DebeziumEvent | DebeziumEnvelope | DebeziumImage,
        Field(description="An event, alone or as a Kafka record with its key; or a row of `ExtractNewRecordState`."),
    ],
)
