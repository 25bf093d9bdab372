"""Tables: register them, read their status, ledger and single batches."""

import base64
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from app.api.auth import Reader, Registrar, visible_name
from app.api.gateway import GatewayOf
from app.api.models import (
    BatchModel,
    CountsModel,
    FileModel,
    FilesModel,
    LagModel,
    PublishedModel,
    RegisterTable,
    TableModel,
    TablesModel,
)
from app.api.openapi import problems
from app.domain.arrow_flatbuffer import columns_of, schema_from_bytes
from app.domain.landing_file import file_name
from app.domain.names import TableName
from app.domain.table import BatchSequence, FileNumber, Generation, Table
from app.domain.table_schema import Column, ColumnType, TableSchema
from app.errors import Code, RejectedInput
from app.staging.database import Connection, translated_errors
from app.staging.landing_ledger import list_files
from app.staging.staged_blocks import find_batch
from app.staging.table_registry import RegistrationOutcome, find_table, list_tables, register_table
from app.staging.table_status import TableCounts, count_tables

router = APIRouter(prefix="/v1", tags=["tables"])

TablePath = Annotated[str, Path(description="`name` or `schema.name`", examples=["tpch.nation"])]


@router.put(
    "/tables/{table}",
    operation_id="register_table",
    summary="Register a table, or add nullable columns to it",
    status_code=200,
    response_model=TableModel,
    responses={201: {"description": "Created", "model": TableModel}, **problems(400, 401, 403, 404, 409, 422, 503)},
)
def put_table(
    table: TablePath, wanted: RegisterTable, gateway: GatewayOf, principal: Registrar, response: Response
) -> TableModel:
    """The same again changes nothing (200); new nullable columns make a new schema version (200)."""
    name = visible_name(table, principal)
    if wanted.options:
        raise RejectedInput(Code.BAD_OPTION, "this version knows no table options")
    schema = TableSchema.declare(_columns(wanted), tuple(wanted.key_columns))
    with translated_errors(), gateway.engine.begin() as connection:
        registration = register_table(connection, name, schema, marker_first=gateway.settings.marker_first)
        status = _statuses(connection, [registration.table])[0]
    if registration.outcome is RegistrationOutcome.CREATED:
        response.status_code = 201
    return status


@router.get(
    "/tables",
    operation_id="list_tables",
    summary="All tables that the key may see",
    response_model=TablesModel,
    responses=problems(401, 403, 503),
)
def get_tables(gateway: GatewayOf, principal: Reader) -> TablesModel:
    with translated_errors(), gateway.engine.begin() as connection:
        visible = [table for table in list_tables(connection) if principal.may_touch(table.name)]
        return TablesModel(tables=_statuses(connection, visible))


@router.get(
    "/tables/{table}",
    operation_id="get_table",
    summary="State, lag and reconciliation of a table",
    response_model=TableModel,
    responses=problems(401, 403, 404, 422, 503),
)
def get_table(table: TablePath, gateway: GatewayOf, principal: Reader) -> TableModel:
    with translated_errors(), gateway.engine.begin() as connection:
        return _statuses(connection, [found_table(connection, visible_name(table, principal))])[0]


@router.get(
    "/tables/{table}/files",
    operation_id="list_table_files",
    summary="The landing ledger of the present generation",
    response_model=FilesModel,
    responses=problems(400, 401, 403, 404, 422, 503),
)
def get_files(
    table: TablePath,
    gateway: GatewayOf,
    principal: Reader,
    after: Annotated[int, Query(ge=0, le=2**63 - 1, description="Files beyond this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> FilesModel:
    with translated_errors(), gateway.engine.begin() as connection:
        found = found_table(connection, visible_name(table, principal))
        entries = list_files(connection, found.table_id, found.generation, after=FileNumber(after), most=limit)
    files = [
        FileModel(
            number=entry.number,
            name=file_name(entry.number),
            state=entry.state,
            first_sequence=entry.first_sequence,
            last_sequence=entry.last_sequence,
            rows=entry.row_count,
            changes=entry.change_count,
            schema_version=entry.schema_version,
            digest=entry.digest,
            bytes=entry.file_bytes,
            published_at=entry.published_at,
        )
        for entry in entries
    ]
    next_after = files[-1].number if len(files) == limit else None
    return FilesModel(table=str(found.name), generation=found.generation, files=files, next_after=next_after)


@router.get(
    "/batches/{table}/{generation}/{sequence}",
    operation_id="get_batch",
    summary="Where one change batch is",
    response_model=BatchModel,
    responses=problems(400, 401, 403, 404, 422, 503),
)
def get_batch(
    table: TablePath,
    generation: Annotated[int, Path(ge=1, le=2**31 - 1)],
    sequence: Annotated[int, Path(ge=1, le=2**63 - 1)],
    gateway: GatewayOf,
    principal: Reader,
) -> BatchModel:
    with translated_errors(), gateway.engine.begin() as connection:
        found = found_table(connection, visible_name(table, principal))
        batch = find_batch(connection, found.table_id, Generation(generation), BatchSequence(sequence))
    if batch is None:
        raise RejectedInput(Code.UNKNOWN_BATCH, f"generation {generation} has no batch {sequence}")
    return BatchModel(
        table=str(found.name),
        generation=generation,
        sequence=sequence,
        state=batch.state,
        changes=batch.changes,
        rows=batch.rows,
        file=file_name(FileNumber(batch.file_number)) if batch.file_number else None,
    )


def _columns(wanted: RegisterTable) -> tuple[Column, ...]:
    """The declared columns, listed or as an Arrow schema."""
    if (wanted.columns is None) == (wanted.arrow_schema is None):
        raise RejectedInput(Code.BAD_SCHEMA, "give either columns or arrow_schema")
    if wanted.columns is not None:
        return tuple(Column(c.name, ColumnType.parse(c.type), c.nullable) for c in wanted.columns)
    try:
        content = base64.b64decode(wanted.arrow_schema or b"", validate=True)
    except ValueError as error:
        raise RejectedInput(Code.BAD_SCHEMA, "arrow_schema is not base64") from error
    return columns_of(schema_from_bytes(content))


def found_table(connection: Connection, name: TableName) -> Table:
    """The live table of this name. Raises RejectedInput `unknown_table`."""
    table = find_table(connection, name)
    if table is None:
        raise RejectedInput(Code.UNKNOWN_TABLE, "no such table")
    return table


def _statuses(connection: Connection, tables: list[Table]) -> list[TableModel]:
    counts = count_tables(connection, [table.table_id for table in tables])
    return [_status(table, counts[table.table_id]) for table in tables]


def _status(table: Table, counts: TableCounts) -> TableModel:
    return TableModel(
        table=str(table.name),
        generation=table.generation,
        state=table.state,
        state_reason=counts.state_reason,
        key_columns=list(table.schema.key_columns),
        schema_version=table.schema_version,
        options={},
        lag=LagModel(
            batches=counts.pending_batches,
            rows=counts.pending_rows,
            bytes=counts.pending_bytes,
            oldest_seconds=round(counts.oldest_seconds, 3),
        ),
        accepted=CountsModel(batches=counts.last_sequence, changes=counts.accepted_changes, rows=counts.accepted_rows),
        staged=CountsModel(batches=counts.staged_batches, changes=counts.staged_changes, rows=counts.staged_rows),
        published=PublishedModel(
            batches=counts.published_batches,
            changes=counts.published_changes,
            rows=counts.published_rows,
            files=counts.published_files,
        ),
        last_sequence=counts.last_sequence,
        published_through=counts.published_through,
        last_file=file_name(FileNumber(counts.last_file)) if counts.last_file else None,
    )
