"""`/v1/tables` and `/v1/batches`: register tables, read their status, schema, chain, files and mirrored rows."""

from base64 import b64decode
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.auth.dependencies import Authenticated, Reader, authorize, check_sources, visible_name
from app.api.exchange import exchange_of
from app.api.gateway import Gateway, GatewayDep
from app.api.openapi.document import problems
from app.api.operations.table_operations import visible_table
from app.api.schemas.changes import BatchModel
from app.api.schemas.common import MAX_ID, WHOLE_NUMBER, PageLimit
from app.api.schemas.registered_table import RegisteredTableModel, registered_table
from app.api.schemas.status import (
    MirrorRowsModel,
    TableMirrorModel,
    TableModel,
    TablesModel,
    fabric_model,
    table_statuses,
)
from app.api.schemas.tables import (
    BlockModel,
    ChainModel,
    ColumnModel,
    FileModel,
    FilesModel,
    RegisterTable,
    SchemaModel,
    declared_schema,
    pointing_at,
    read_options,
)
from app.api.server.request_parameters import JsonRoute
from app.domain.access.mask_secret import check_registered, hashes
from app.domain.access.rights import Principal, Right, check_row_rules
from app.domain.arrow import SchemaEvent, described_schemas, schema_to_flatbuffer
from app.domain.model.landing_file import file_name
from app.domain.model.names import TableName
from app.domain.model.table import BatchSequence, FileNumber, Generation, Table
from app.domain.publication import ChainBlock
from app.staging.access.mask_secrets import record_secret
from app.staging.batches.staged_blocks import find_batch
from app.staging.connection.database import read_snapshot, translated_errors
from app.staging.ledger.files import list_files, read_chain, schema_events
from app.staging.mirror import mirror_progress
from app.staging.tables.registration import RegistrationOutcome, record_registration, register_table
from app.staging.tables.registry import list_tables
from mirrorgate.errors import Code, RejectedInput

router = APIRouter(prefix="/v1", tags=["tables"], route_class=JsonRoute)

TablePath = Annotated[str, Path(description="The table: `name` or `schema.name`.", examples=["tpch.nation"])]
DryRun = Annotated[
    bool, Query(description="Check everything and answer what would change (`changes`), but change nothing.")
]


async def _registrar(
    request: Request, table: TablePath, credential: Authenticated, dry_run: DryRun = False
) -> Principal:
    """Return the caller, who may register the table, or for a dry run may only read it."""
    reader = credential.acting_by(Right.READ) if dry_run else None
    if reader is not None:
        registrar = credential.acting_by(Right.REGISTER)
        if registrar is None or not registrar.may_touch(TableName.parse(table)):
            return reader
    return await authorize(exchange_of(request.scope), Right.REGISTER)


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
    principal: Annotated[Principal, Depends(_registrar)],
    response: Response,
    dry_run: DryRun = False,
) -> RegisteredTableModel:
    """Register a new table (201), or update an existing one (200).

    A repeat of a registration changes nothing. New nullable columns make a new schema version. An existing table keeps
    its columns, whether they are given or not (`undeclared_columns`), and each option that is left out. To change or
    remove a mask, an exclusion or a filter, the key needs the right `admin`. A dry run needs only the right `read`.
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
            if principal.may(Right.REGISTER, name):  # who may only read sees what another key would change
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
    after: Annotated[int, Query(ge=0, le=MAX_ID, description="Only files with a greater number."), WHOLE_NUMBER] = 0,
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
    generation: Annotated[int, Path(ge=1, le=2**31 - 1, description="Its generation.", examples=[1]), WHOLE_NUMBER],
    sequence: Annotated[int, Path(ge=1, le=MAX_ID, description="Its sequence.", examples=[1]), WHOLE_NUMBER],
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


FLATBUFFER: Final = "application/vnd.apache.arrow.schema"
_FLATBUFFER_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {FLATBUFFER: {"schema": {"type": "string", "contentMediaType": FLATBUFFER}}}}
}


@router.get(
    "/tables/{table}/schema",
    summary="Get the current schema version of a table",
    response_model=SchemaModel,
    responses={**_FLATBUFFER_ANSWER, **problems(401, 403, 404, 422, 503)},
)
def get_table_schema(
    table: TablePath, request: Request, gateway: GatewayDep, principal: Reader
) -> SchemaModel | Response:
    """Return the declared columns.

    With `Accept: application/vnd.apache.arrow.schema`, return the Arrow schema of landing files, including the row
    marker, as a raw flatbuffer.
    """
    with translated_errors(), gateway.engine.begin() as connection:
        found = visible_table(connection, table, principal)
    if FLATBUFFER in request.headers.get("accept", ""):
        schema = found.schema.landing.file_schema(marker_first=gateway.settings.marker_first)
        return Response(schema_to_flatbuffer(schema), media_type=FLATBUFFER)
    return SchemaModel(
        table=str(found.name),
        generation=found.generation,
        schema_version=found.schema_version,
        key_columns=list(found.schema.key_columns),
        columns=[ColumnModel(name=c.name, type=str(c.type), nullable=c.nullable) for c in found.schema.columns],
        left_columns=[name for name in found.schema.names if name in found.left_columns],
    )


@router.get(
    "/tables/{table}/chain",
    summary="Get the metadata chain of the current generation",
    responses=problems(400, 401, 403, 404, 422, 503),
)
def get_table_chain(
    table: TablePath,
    gateway: GatewayDep,
    principal: Reader,
    start: Annotated[int, Query(ge=0, description="First sequence number of the page."), WHOLE_NUMBER] = 0,
    limit: PageLimit = 100,
) -> ChainModel:
    """Return blocks in order of their sequence number.

    The chain begins with a `Seed`, and has a `SetDataSchema` for each schema version (Open Data Fabric's event, with
    the Arrow schema of the files) and an `AddData` for each file, with rows, batches, digests and the last source
    position. A block has the SHA-256 of the previous one over canonical JSON (RFC 8785).
    """
    with translated_errors(), gateway.engine.begin() as connection:
        found = visible_table(connection, table, principal)
        life = (found.table_id, found.generation)
        chain = list(read_chain(connection, *life, start=start, limit=limit))
        before = schema_events(connection, *life, before=start, limit=1)
    schemas = described_schemas(map(_flatbuffer, filter(_sets_schema, chain)), *map(_flatbuffer, before))
    described = {block.sequence_number: next(schemas) for block in chain if _sets_schema(block)}
    blocks = [
        BlockModel(
            sequence_number=block.sequence_number,
            previous_hash=block.previous_hash,
            hash=block.hash,
            system_time=block.system_time,
            event=dict(block.event),
            **_words(described.get(block.sequence_number)),
        )
        for block in chain
    ]
    next_start = start + limit if len(blocks) == limit else None
    return ChainModel(table=str(found.name), generation=found.generation, blocks=blocks, next_start=next_start)


def _sets_schema(block: ChainBlock) -> bool:
    return bool(block.event["kind"] == "SetDataSchema")


def _flatbuffer(block: ChainBlock) -> bytes:
    return b64decode(block.event["schema"])


def _words(described: SchemaEvent | None) -> dict[str, Any]:
    """Return the fields of a block that describe its schema."""
    if described is None:
        return {}
    columns = [ColumnModel(name=one.name, type=str(one.type), nullable=one.nullable) for one in described.columns]
    return {"columns": columns, "changes": described.changes}


mirror_router = APIRouter(prefix="/v1/tables/{table}", tags=["mirror"])


@mirror_router.get(
    "/mirror",
    summary="Get how far the Delta mirror has applied a table's landing files",
    responses=problems(400, 401, 403, 404, 422, 503),
)
def get_table_mirror(table: TablePath, gateway: GatewayDep, principal: Reader) -> TableMirrorModel:
    """Return the mirror's last report about the current generation, compared with the landing ledger."""
    with translated_errors(), gateway.engine.begin() as connection:
        found = visible_table(connection, table, principal)
        progress = mirror_progress(connection, [found.table_id]).get(found.table_id)
    if progress is None:
        raise RejectedInput(Code.NOT_MIRRORED, f"no mirror has reported generation {found.generation} of {found.name}")
    return TableMirrorModel.of_progress(progress, table=str(found.name), generation=found.generation)


@mirror_router.get(
    "/rows",
    summary="Read rows of the mirrored table, at any version",
    response_model=MirrorRowsModel,
    responses=problems(400, 401, 403, 404, 422, 503),
)
async def list_table_rows(
    table: TablePath,
    gateway: GatewayDep,
    principal: Reader,
    version: Annotated[
        int | None, Query(ge=0, le=MAX_ID, description="The Delta version; without it the newest."), WHOLE_NUMBER
    ] = None,
    limit: PageLimit = 100,
) -> Response:
    """Return rows as the Delta table has them, in no particular order.

    Only an API with the setting `MIRRORGATE_MIRROR_TARGET` and the extra `rows` reads rows. An answer ends at 16 MiB.
    """
    found = await run_in_threadpool(_find_table, gateway, table, principal)
    page = await gateway.require_mirror_rows().read(found.name, version, limit)
    answer = {
        "table": str(found.name),
        "version": page.version,
        "columns": [{"name": name, "type": column_type} for name, column_type in page.columns],
        "rows": page.rows,
        "has_more": page.has_more,
    }
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _find_table(gateway: Gateway, table: str, principal: Principal) -> Table:
    with translated_errors(), gateway.engine.begin() as connection:
        return visible_table(connection, table, principal)
