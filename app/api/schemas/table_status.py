"""A table's status as the API shows it, and the columns as the API takes them."""

import base64
from dataclasses import asdict

from app.api.schemas.status import (
    CountsModel,
    FailingModel,
    LagModel,
    ProcessedModel,
    PublishedModel,
    TableModel,
    WaitingLettersModel,
)
from app.api.schemas.tables import ColumnModel, RegisterTable, TableOptionsModel
from app.domain.arrow.schema_flatbuffer import columns_of, schema_from_bytes
from app.domain.model.landing_file import file_name
from app.domain.model.table import FileNumber, Table
from app.domain.model.table_schema import Column, ColumnType, TableSchema
from app.errors import Code, Problem, RejectedInput
from app.staging.connection.database import Connection
from app.staging.ledger.fabric_status import FabricStatus, fabric_statuses
from app.staging.ledger.failures import TableFailure, failing_tables
from app.staging.tables.status import TableCounts, count_tables


def table_statuses(connection: Connection, tables: list[Table]) -> list[TableModel]:
    """State, lag and reconciliation of these tables."""
    table_ids = [table.table_id for table in tables]
    counts, mirrored = count_tables(connection, table_ids), fabric_statuses(connection, table_ids)
    failing = failing_tables(connection, table_ids)
    return [
        _status(table, counts[table.table_id], mirrored.get(table.table_id), failing.get(table.table_id))
        for table in tables
    ]


def given_options(wanted: RegisterTable) -> set[str] | None:
    """The names of the options that the request gives; None where it gives none."""
    return None if wanted.options is None else set(wanted.options.model_fields_set)


def declared_schema(wanted: RegisterTable) -> TableSchema | None:
    """The declared columns, listed or as an Arrow schema; None where neither is given.

    Raises RejectedInput `bad_schema`, `bad_type`, `bad_name` or `reserved_name`.
    """
    columns = _columns(wanted)
    return None if columns is None else TableSchema.declare(columns, tuple(wanted.key_columns))


def _columns(wanted: RegisterTable) -> tuple[Column, ...] | None:
    if wanted.columns is not None and wanted.arrow_schema is not None:
        raise RejectedInput(Code.BAD_SCHEMA, "give either columns or arrow_schema")
    if wanted.columns is not None:
        return tuple(
            Column(column.name, _type_of(place, column), column.nullable) for place, column in enumerate(wanted.columns)
        )
    if wanted.arrow_schema is None:
        if wanted.key_columns:
            raise RejectedInput(Code.BAD_SCHEMA, "key columns need columns beside them")
        return None
    try:
        content = base64.b64decode(wanted.arrow_schema, validate=True)
    except ValueError as error:
        raise RejectedInput(Code.BAD_SCHEMA, "arrow_schema is not base64") from error
    return columns_of(schema_from_bytes(content))


def _type_of(place: int, column: ColumnModel) -> ColumnType:
    try:
        return ColumnType.parse(column.type)
    except RejectedInput as error:
        problem = Problem(error.code, error.detail, pointer=f"/columns/{place}/type", column=column.name)
        raise RejectedInput.of((problem,)) from error


def _status(
    table: Table, counts: TableCounts, mirrored: FabricStatus | None, failing: TableFailure | None
) -> TableModel:
    return TableModel(
        table=str(table.name),
        generation=table.generation,
        state=table.state,
        state_reason=counts.state_reason,
        failing=None if failing is None else FailingModel(**asdict(failing)),
        key_columns=list(table.schema.key_columns),
        schema_version=table.schema_version,
        options=TableOptionsModel(**table.options.to_json()),
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
        processed=None if mirrored is None else _processed(mirrored),
        dead_letters=WaitingLettersModel(
            waiting=counts.waiting_letters, oldest_seconds=round(counts.oldest_letter_seconds, 3)
        ),
        last_sequence=counts.last_sequence,
        published_through=counts.published_through,
        last_file=file_name(FileNumber(counts.last_file)) if counts.last_file else None,
    )


def _processed(mirrored: FabricStatus) -> ProcessedModel:
    return ProcessedModel(
        state=mirrored.state,
        error=mirrored.error,
        rows=mirrored.processed_rows,
        bytes=mirrored.processed_bytes,
        last_sync=mirrored.last_sync_at,
        read_at=mirrored.read_at,
    )
