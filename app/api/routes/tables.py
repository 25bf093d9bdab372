"""`/v1/tables` and `/v1/batches`: register tables, read their status, landing ledger and batches."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from app.api.auth.dependencies import Reader, Registrar, check_sources, visible_name
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.operations.table_operations import visible_table
from app.api.schemas.changes import BatchModel
from app.api.schemas.common import MAX_ID, PageLimit
from app.api.schemas.registered_table import RegisteredTableModel, registered_table
from app.api.schemas.status import TableModel, TablesModel, fabric_model, table_statuses
from app.api.schemas.tables import (
    FileModel,
    FilesModel,
    RegisterTable,
    declared_schema,
    pointing_at,
    read_options,
)
from app.domain.access.mask_secret import check_registered, hashes
from app.domain.access.rights import check_row_rules
from app.domain.model.landing_file import file_name
from app.domain.model.table import BatchSequence, FileNumber, Generation
from app.staging.access.mask_secrets import record_secret
from app.staging.batches.staged_blocks import find_batch
from app.staging.connection.database import read_snapshot, translated_errors
from app.staging.ledger.files import list_files
from app.staging.tables.registration import RegistrationOutcome, record_registration, register_table
from app.staging.tables.registry import list_tables
from mirrorgate.errors import Code, RejectedInput

router = APIRouter(prefix="/v1", tags=["tables"])

TablePath = Annotated[str, Path(description="The table: `name` or `schema.name`.", examples=["tpch.nation"])]


@router.put(
    "/tables/{table}",
    operation_id="register_table",
    summary="Register a table, or add nullable columns to it",
    responses={
        201: {"description": "The new table", "model": RegisteredTableModel},
        **problems(400, 401, 403, 404, 409, 422, 503),
    },
)
def put_table(
    table: TablePath,
    wanted: RegisterTable,
    gateway: GatewayDep,
    principal: Registrar,
    response: Response,
    dry_run: Annotated[
        bool, Query(description="Check everything and answer what would change (`changes`), but change nothing.")
    ] = False,
) -> RegisteredTableModel:
    """Register a new table (201), or update an existing one (200).

    A repeat of a registration changes nothing. New nullable columns make a new schema version. An existing table keeps
    its columns, whether they are given or not (`undeclared_columns`), and each option that is left out. To change or
    remove a mask, an exclusion or a filter, the key needs the right `admin`.
    """
    name = visible_name(table, principal)
    mask_secret = gateway.ingest.mask_secret
    options = read_options(wanted, mask_secret)
    check_sources(options.sources if options is not None else (), principal)
    schema = declared_schema(wanted)
    marker_first = gateway.settings.marker_first
    with (
        translated_errors(),
        pointing_at(wanted),
        gateway.engine.connect() as connection,
        connection.begin() as transaction,
    ):
        if mask_secret is not None and hashes(options):
            record_secret(connection, mask_secret)
        registration = register_table(
            connection, name, schema, options, given=wanted.given_options, marker_first=marker_first
        )
        if registration.outcome is not RegistrationOutcome.UNCHANGED:
            check_registered(registration.before, registration.table, mask_secret)
            before = None if registration.before is None else registration.before.options
            check_row_rules(before, registration.table.options, registration.table, principal)
        record_registration(connection, registration, principal.key_id)
        status = table_statuses(connection, [registration.table], gateway.backlog_shares)[0]
        if dry_run:
            transaction.rollback()
    if registration.outcome is RegistrationOutcome.CREATED and not dry_run:
        response.status_code = 201
    return registered_table(status, registration, schema)


@router.get(
    "/tables",
    operation_id="list_tables",
    summary="List the tables that the key can see",
    responses=problems(401, 403, 404, 422, 503),
)
def get_tables(
    gateway: GatewayDep,
    principal: Reader,
    table: Annotated[str | None, Query(description="Only this table: `name` or `schema.name`.")] = None,
) -> TablesModel:
    """Return the status of each table, and of the mirrored database."""
    with translated_errors(), read_snapshot(gateway.engine) as connection:
        if table is None:
            visible = [one for one in list_tables(connection) if principal.may_touch(one.name)]
        else:
            visible = [visible_table(connection, table, principal)]
        return TablesModel(
            tables=table_statuses(connection, visible, gateway.backlog_shares), fabric=fabric_model(connection)
        )


@router.get(
    "/tables/{table}",
    summary="Get the state, lag and reconciliation of a table",
    responses=problems(401, 403, 404, 422, 503),
)
def get_table(table: TablePath, gateway: GatewayDep, principal: Reader) -> TableModel:
    """Return the status of a table."""
    with translated_errors(), read_snapshot(gateway.engine) as connection:
        found = visible_table(connection, table, principal)
        return table_statuses(connection, [found], gateway.backlog_shares)[0]


@router.get(
    "/tables/{table}/files",
    summary="List the landing files of the current generation",
    responses=problems(400, 401, 403, 404, 422, 503),
)
def list_table_files(
    table: TablePath,
    gateway: GatewayDep,
    principal: Reader,
    after: Annotated[int, Query(ge=0, le=MAX_ID, description="Only files with a greater number.")] = 0,
    limit: PageLimit = 100,
) -> FilesModel:
    """Return the landing ledger, in order of the file numbers."""
    with translated_errors(), gateway.engine.begin() as connection:
        found = visible_table(connection, table, principal)
        entries = list_files(connection, found.table_id, found.generation, after=FileNumber(after), limit=limit)
    files = [
        FileModel.of(
            entry,
            name=file_name(entry.number),
            rows=entry.row_count,
            changes=entry.change_count,
            bytes=entry.file_bytes,
        )
        for entry in entries
    ]
    next_after = files[-1].number if len(files) == limit else None
    return FilesModel(table=str(found.name), generation=found.generation, files=files, next_after=next_after)


@router.get(
    "/batches/{table}/{generation}/{sequence}",
    summary="Get the state of a change batch",
    responses=problems(400, 401, 403, 404, 422, 503),
)
def get_batch(
    table: TablePath,
    generation: Annotated[int, Path(ge=1, le=2**31 - 1, description="The generation of the receipt.", examples=[1])],
    sequence: Annotated[int, Path(ge=1, le=MAX_ID, description="The sequence of the receipt.", examples=[1])],
    gateway: GatewayDep,
    principal: Reader,
) -> BatchModel:
    """Return whether the batch is pending, planned, published or discarded, and in which file."""
    with translated_errors(), gateway.engine.begin() as connection:
        found = visible_table(connection, table, principal)
        batch = find_batch(connection, found.table_id, Generation(generation), BatchSequence(sequence))
    if batch is None:
        raise RejectedInput(Code.UNKNOWN_BATCH, f"generation {generation} has no batch {sequence}")
    return BatchModel(
        table=str(found.name),
        generation=generation,
        sequence=sequence,
        state=batch.state if batch.state == "published" or generation == found.generation else "discarded",
        changes=batch.changes,
        rows=batch.rows,
        file=file_name(FileNumber(batch.file_number)) if batch.file_number else None,
    )
