"""`/v1/tables/{table}/…`: operations on one table. Each names the generation that it is for, and records an event."""

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Path, Query

from app.api.auth.dependencies import Administrator, visible_name
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.operations.keys import caller_names
from app.api.operations.table_operations import TableOperation
from app.api.routes.tables import TablePath
from app.api.schemas.common import MAX_ID, WHOLE_NUMBER, AfterId, PageLimit
from app.api.schemas.operations import EventModel, EventsModel, RebuildTable, RecreateTable, ReleaseTable, RenameTable
from app.api.schemas.status import TableModel
from app.api.schemas.tables import declared_schema, read_options
from app.api.server.request_parameters import JsonRoute
from app.domain.model.table import Generation
from app.staging.connection.database import translated_errors
from app.staging.tables.events import list_events

router = APIRouter(prefix="/v1/tables/{table}", tags=["operations"], route_class=JsonRoute)

GenerationParameter = Annotated[
    int,
    Query(
        ge=1,
        le=2**31 - 1,
        description="The current generation of the table, which GET /v1/tables/{table} returns. Any other value is "
        "rejected with 409.",
        examples=[1],
    ),
    WHOLE_NUMBER,
]
_RESPONSES = problems(400, 401, 403, 404, 409, 422, 503)


async def _table_operation(
    table: TablePath, generation: GenerationParameter, gateway: GatewayDep, principal: Administrator
) -> TableOperation:
    return TableOperation(table, Generation(generation), gateway, principal)


OperationDep = Annotated[TableOperation, Depends(_table_operation)]


@router.delete("", status_code=202, summary="Drop a table and delete its landing folder", responses=_RESPONSES)
def drop_table(operation: OperationDep) -> TableModel:
    """Start to drop the table. It rejects changes from now on.

    The state is `dropping` until the drain has deleted the folder; then the table is unknown. Batches that are not
    published are discarded and counted in the events.
    """
    return operation.drop()


@router.post(
    "/recreate",
    status_code=202,
    summary="Start a new generation, optionally with new columns and keys",
    responses=_RESPONSES,
)
def recreate_table(
    operation: OperationDep, wanted: Annotated[RecreateTable, Body(default_factory=RecreateTable)]
) -> TableModel:
    """Drop the folder. When it is deleted, the table is active again and empty, and file numbers start at 1."""
    options = read_options(wanted, operation.gateway.ingest.mask_secret)
    return operation.recreate(declared_schema(wanted), options, given=wanted.given_options)


@router.post(
    "/rename", status_code=202, summary="Change the name and the landing folder of a table", responses=_RESPONSES
)
def rename_table(operation: OperationDep, wanted: RenameTable) -> TableModel:
    """Drop the folder and start a new generation under the new name.

    If the table has a row image of each row and `history=off`, every row lands again from its row image. Otherwise the
    source must load the table again.
    """
    return operation.rename(wanted.name)


@router.post(
    "/rebuild", status_code=202, summary="Land all rows of a table again from its row images", responses=_RESPONSES
)
def rebuild_table(
    operation: OperationDep, wanted: Annotated[RebuildTable, Body(default_factory=RebuildTable)]
) -> TableModel:
    """Start a new generation with the present rows, optionally with other keys, types, names or fewer columns.

    The table accepts changes all the time: by its present schema until the rows are copied, then by the new one, behind
    the copied rows. The landing folder is then replaced. If a row does not fit, nothing changes. The status of the
    table has the progress as `rebuild`.
    """
    return operation.rebuild(wanted.rebuilt_columns(), wanted.key_columns, dry_run=wanted.dry_run)


@router.post(
    "/row-images/backfill",
    status_code=202,
    summary="Give a row image to each row from before a table kept row images",
    responses=_RESPONSES,
)
def backfill_row_images(operation: OperationDep) -> TableModel:
    """Ask the drain for a backfill, or for the rest of one that has failed or was cancelled.

    The table accepts changes all the time. The drain reads the staged payloads; if retention has deleted some of them,
    the request is rejected with `payloads_purged`. The status of the table has the progress as `backfill`. A table
    whose row images are complete remains as it is.
    """
    return operation.backfill_images()


@router.delete("/row-images/backfill", summary="Cancel the backfill of row images", responses=_RESPONSES)
def cancel_backfill(operation: OperationDep) -> TableModel:
    """Stop the backfill at its next step.

    The images that it has written remain. The next backfill continues behind them.
    """
    return operation.cancel_backfill()


@router.post("/pause", summary="Pause the publication of a table", responses=_RESPONSES)
def pause_table(operation: OperationDep) -> TableModel:
    """Stop publishing files. Changes are still accepted, up to the limit of the backlog."""
    return operation.pause()


@router.post("/resume", summary="Resume the publication of a paused table", responses=_RESPONSES)
def resume_table(operation: OperationDep) -> TableModel:
    """Publish files again after a pause."""
    return operation.resume()


@router.post("/flush", status_code=202, summary="Publish accepted changes without delay", responses=_RESPONSES)
def flush_table(operation: OperationDep) -> TableModel:
    """Publish what is accepted so far, without waiting for a full or an old enough file."""
    return operation.flush()


@router.post(
    "/repair/{number}",
    status_code=202,
    summary="Write a published file again under its own number",
    responses=_RESPONSES,
)
def repair_file(
    operation: OperationDep,
    number: Annotated[int, Path(ge=1, le=MAX_ID, description="The number of the file.", examples=[1]), WHOLE_NUMBER],
) -> TableModel:
    """Rebuild a corrupt or empty file from its payloads, with the same rows and the same identity.

    Fabric's documentation says that mirroring reads a valid file under the same name. If it does not, recreate the
    table.
    """
    return operation.repair(number)


@router.post("/release", summary="Release a quarantined table", responses=_RESPONSES)
def release_table(operation: OperationDep, wanted: ReleaseTable) -> TableModel:
    """Let the table publish again. The event records the reason, the id of the key and the time."""
    return operation.release(wanted.reason, rewrite_marker=wanted.rewrite_marker)


@router.get(
    "/events",
    summary="List the events of all tables of this name, including dropped ones",
    responses=problems(400, 401, 403, 404, 422, 503),
)
def list_table_events(
    table: TablePath, gateway: GatewayDep, principal: Administrator, after: AfterId = 0, limit: PageLimit = 100
) -> EventsModel:
    """Return operations of administrators and of the drain, oldest first."""
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        found = list_events(connection, name, after=after, limit=limit)
        names = caller_names(gateway, connection, (event.actor for event in found))
    events = [EventModel.of(event, id=event.event_id, actor_name=names.get(event.actor)) for event in found]
    return EventsModel(events=events, next_after=events[-1].id if len(events) == limit else None)
