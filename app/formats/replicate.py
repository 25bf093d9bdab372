"""Qlik Replicate JSON: metadata (MD) and data (DT) messages, enveloped or bare -> metadata and changes.

A data message does not name its table by default; its envelope names the schema id of the metadata message
that describes it. Values are typed by JSON and by the registered schema.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from app.domain.change import Change, Operation
from app.domain.names import TableName
from app.domain.table_schema import MAX_DECIMAL_DIGITS, Column, ColumnType, TableSchema, TypeName
from app.errors import Code, Problem, RejectedInput
from app.formats.strict_json import MessageDecoder

_OPERATIONS: Final = {
    "REFRESH": Operation.SNAPSHOT,
    "READ": Operation.SNAPSHOT,
    "INSERT": Operation.INSERT,
    "UPDATE": Operation.UPDATE,
    "DELETE": Operation.DELETE,
}
_TYPES: Final = {
    "BOOLEAN": TypeName.BOOLEAN,
    "INT1": TypeName.INT16,
    "INT2": TypeName.INT16,
    "UINT1": TypeName.INT16,
    "INT4": TypeName.INT32,
    "UINT2": TypeName.INT32,
    "INT8": TypeName.INT64,
    "UINT4": TypeName.INT64,
    "REAL4": TypeName.FLOAT32,
    "REAL8": TypeName.FLOAT64,
    "DATE": TypeName.DATE,
    "DATETIME": TypeName.TIMESTAMP,
    "BYTES": TypeName.BINARY,
    "BLOB": TypeName.BINARY,
}
_UINT8: Final = ColumnType(TypeName.DECIMAL, 20, 0)
_STRING: Final = ColumnType(TypeName.STRING)


class Lineage(msgspec.Struct, gc=False):
    table: str
    schema: str | None = None
    server: str | None = None
    task: str | None = None
    tableVersion: int = 0  # noqa: N815


class SourceColumn(msgspec.Struct, gc=False):
    ordinal: int
    type: str
    precision: int | None = None
    scale: int | None = None
    primaryKeyPosition: int = 0  # noqa: N815
    nullable: bool | None = None


class TableStructure(msgspec.Struct, gc=False):
    tableColumns: dict[str, SourceColumn]  # noqa: N815


class Headers(msgspec.Struct, gc=False):
    operation: str
    changeSequence: str | None = None  # noqa: N815


class Body(msgspec.Struct, gc=False):
    """A metadata or a data message; which one is told by its members."""

    schemaId: str | None = None  # noqa: N815
    lineage: Lineage | None = None
    tableStructure: TableStructure | None = None  # noqa: N815
    headers: Headers | None = None
    data: dict[str, Any] | list[Any] | None = None
    beforeData: dict[str, Any] | None = None  # noqa: N815
    schema: str | None = None
    table: str | None = None


class ReplicateMessage(Body, gc=False):
    """An envelope around a body, or the bare body itself."""

    magic: str | None = None
    type: str | None = None
    messageSchemaId: str | None = None  # noqa: N815
    message: Body | None = None


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """An MD message: the table, its schema, and which version of it this is."""

    index: int
    table: TableName
    schema: TableSchema
    schema_id: str | None
    table_version: int
    at: str
    """JSON Pointer of the message's body, for errors."""


@dataclass(frozen=True, slots=True)
class DataChange:
    """A DT message: the change, and what the message says of its table (either may be unknown)."""

    change: Change
    table: TableName | None
    schema_id: str | None


@dataclass(frozen=True, slots=True)
class ReplicateRequest:
    """A body's messages, each kind in order; `ignored` counts messages without a body."""

    metadata: list[TableMetadata]
    changes: list[DataChange]
    ignored: int


_DECODER: Final = MessageDecoder(ReplicateMessage)


def decode_replicate(body: bytes) -> ReplicateRequest:
    """Read a JSON body. Raises RejectedInput naming every message that is wrong."""
    request = ReplicateRequest([], [], 0)
    problems: list[Problem] = []
    ignored = 0
    for index, message in enumerate(_DECODER.decode(body)):
        try:
            inner, prefix = _unwrap(message)
            if inner is None:
                ignored += 1
            elif inner.tableStructure is not None:
                request.metadata.append(_metadata(index, inner, prefix))
            else:
                request.changes.append(_data_change(index, inner, prefix, message.messageSchemaId))
        except RejectedInput as error:
            problems.extend(error.problems or [Problem(error.code, error.detail, index)])
    if problems:
        raise RejectedInput.of(tuple(problems))
    return ReplicateRequest(request.metadata, request.changes, ignored)


def _unwrap(message: ReplicateMessage) -> tuple[Body | None, str]:
    """The body of a message and the JSON Pointer to it; None for an enveloped null."""
    if message.magic is None and message.type is None:
        return (message.message, "/message") if message.message is not None else (message, "")
    if message.magic != "atMSG" or message.type not in {"MD", "DT"}:
        raise RejectedInput(Code.BAD_ENVELOPE, "the envelope is not atMSG with type MD or DT")
    if message.message is None:
        return None, "/message"
    if (message.type == "MD") != (message.message.tableStructure is not None):
        raise RejectedInput(Code.BAD_ENVELOPE, f"a {message.type} envelope holds the other kind of message")
    return message.message, "/message"


def _metadata(index: int, body: Body, prefix: str) -> TableMetadata:
    if body.lineage is None or body.tableStructure is None:
        raise _refusal(Code.MALFORMED_MESSAGE, "a metadata message needs lineage", index, f"{prefix}/lineage")
    columns = sorted(body.tableStructure.tableColumns.items(), key=lambda item: item[1].ordinal)
    keys = sorted((c.primaryKeyPosition, name) for name, c in columns if c.primaryKeyPosition > 0)
    schema = TableSchema.declare(
        tuple(Column(name, _column_type(name, column), _is_nullable(column)) for name, column in columns),
        tuple(name for _, name in keys),
    )
    return TableMetadata(
        index, _name(body.lineage.schema, body.lineage.table), schema, body.schemaId, body.lineage.tableVersion, prefix
    )


def _column_type(name: str, column: SourceColumn) -> ColumnType:
    kind = column.type.upper()
    if kind == "UINT8":
        return _UINT8
    if kind == "NUMERIC":
        precision, scale = column.precision or 0, column.scale or 0
        if not (1 <= precision <= MAX_DECIMAL_DIGITS and 0 <= scale <= precision):
            raise RejectedInput(
                Code.INCOMPATIBLE_SCHEMA, f"column {name!r} is NUMERIC with a precision or scale that no decimal has"
            )
        return ColumnType(TypeName.DECIMAL, precision, scale)
    return ColumnType(_TYPES[kind]) if kind in _TYPES else _STRING


def _is_nullable(column: SourceColumn) -> bool:
    return column.primaryKeyPosition == 0 and column.nullable is not False


def _data_change(index: int, body: Body, prefix: str, schema_id: str | None) -> DataChange:
    data, headers = body.data, body.headers
    if isinstance(data, list):
        raise _refusal(Code.LEGACY_FORMAT, "data is a list", index, f"{prefix}/data")
    if headers is None:
        raise _refusal(Code.MALFORMED_MESSAGE, "a data message needs headers", index, f"{prefix}/headers")
    operation = _OPERATIONS.get(headers.operation.upper())
    if operation is None:
        raise _refusal(Code.BAD_OP, "unknown operation", index, f"{prefix}/headers/operation")
    data_at, before_at = f"{prefix}/data", f"{prefix}/beforeData"
    before, after = body.beforeData, data
    if operation is Operation.DELETE:
        # The deleted row stands in data; the reverse is accepted. Two images with different keys: see ingest.
        if data is not None and before is not None and data != before:
            raise _refusal(Code.AMBIGUOUS_DELETE, "a delete carries two different images", index, data_at)
        before, before_at = (data, data_at) if data is not None else (before, before_at)
        after = None
    if before is None and after is None:
        raise _refusal(Code.MALFORMED_MESSAGE, "a data message needs data", index, data_at)
    change = Change(
        index=index,
        operation=operation,
        before=before,
        after=after,
        before_at=before_at,
        after_at=data_at,
        source_position=headers.changeSequence or None,
    )
    return DataChange(change, _name(body.schema, body.table) if body.table else None, schema_id)


def _name(schema: str | None, table: str) -> TableName:
    return TableName.parse(f"{schema}.{table}" if schema else table)


def _refusal(code: Code, detail: str, index: int, pointer: str) -> RejectedInput:
    return RejectedInput.of((Problem(code, detail, index, pointer),))


def latest_by_table(metadata: Iterable[TableMetadata]) -> list[TableMetadata]:
    """One entry per table: the metadata message with the highest table version."""
    latest: dict[str, TableMetadata] = {}
    for entry in metadata:
        known = latest.get(entry.table.folded)
        if known is None or entry.table_version >= known.table_version:
            latest[entry.table.folded] = entry
    return list(latest.values())
