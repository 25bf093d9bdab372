"""`/v1/tables/{table}/…`: operations on one table. Each names the generation that it is for, and records an event."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Concatenate, ParamSpec

from fastapi import APIRouter, Depends, Path, Query

from app.api.auth.dependencies import Administrator, check_sources, visible_name
from app.api.gateway import Gateway, GatewayDep
from app.api.openapi.document import problems
from app.api.routes.paging import MAX_ID, AfterId, PageLimit
from app.api.routes.tables import TablePath
from app.api.schemas.operations import EventModel, EventsModel, RecreateTable, ReleaseTable, RenameTable
from app.api.schemas.registrations import declared_schema, given_options
from app.api.schemas.status import TableModel
from app.api.schemas.table_status import table_statuses
from app.domain.access.rights import Principal
from app.domain.model.drop_plan import DropAction, DropPlan
from app.domain.model.names import TableName
from app.domain.model.table import FileNumber, Generation, Table, TableState
from app.domain.model.table_options import TableOptions
from app.staging.connection.database import Connection, translated_errors
from app.staging.tables.events import list_events
from app.staging.tables.operations import begin_drop, request_flush, request_repair, set_publishing
from app.staging.tables.quarantine_release import release

router = APIRouter(prefix="/v1/tables/{table}", tags=["operations"])

GenerationParameter = Annotated[
    int,
    Query(
        ge=1,
        le=2**31 - 1,
        description="The current generation of the table. Any other value is rejected with 409.",
        examples=[1],
    ),
]
_RESPONSES = problems(400, 401, 403, 404, 409, 422, 503)
_Arguments = ParamSpec("_Arguments")


@dataclass(frozen=True, slots=True)
class TableOperation:
    """An operation of an administrator on one generation of a table."""

    table: str
    generation: Generation
    gateway: Gateway
    principal: Principal

    @property
    def actor(self) -> str:
        """Return who is recorded in the event."""
        return self.principal.key_id

    def run(
        self,
        act: Callable[Concatenate[Connection, TableName, Generation, _Arguments], Table],
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> TableModel:
        """Call `act` in one transaction, wake the drain, and return the status of the table.

        Raises RejectedInput `unknown_table` for a name outside the caller's patterns, and what `act` raises.
        """
        name = visible_name(self.table, self.principal)
        with translated_errors(), self.gateway.engine.begin() as connection:
            table = act(connection, name, self.generation, *args, **kwargs)
            status = table_statuses(connection, [table])[0]
        self.gateway.wake_drain()
        return status


async def _table_operation(
    table: TablePath, generation: GenerationParameter, gateway: GatewayDep, principal: Administrator
) -> TableOperation:
    return TableOperation(table, Generation(generation), gateway, principal)


OperationDep = Annotated[TableOperation, Depends(_table_operation)]


@router.delete(
    "",
    status_code=202,
    operation_id="drop_table",
    summary="Drop a table and delete its landing folder",
    response_model=TableModel,
    responses=_RESPONSES,
)
def drop(operation: OperationDep) -> TableModel:
    """Start to drop the table. It rejects changes from now on.

    The state is `dropping` until the drain has deleted the folder; then the table is unknown. Batches that are not
    published are discarded and counted in the events.
    """
    return operation.run(begin_drop, DropPlan(DropAction.DROP), operation.actor)


@router.post(
    "/recreate",
    status_code=202,
    operation_id="recreate_table",
    summary="Start a new generation, optionally with new columns and keys",
    response_model=TableModel,
    responses=_RESPONSES,
)
def recreate(operation: OperationDep, wanted: RecreateTable | None = None) -> TableModel:
    """Drop the folder. When it is deleted, the table is active again and empty, and file numbers start at 1."""
    wanted = wanted or RecreateTable()
    options = None if wanted.options is None else TableOptions.parse(wanted.options.model_dump())
    check_sources(options.sources if options is not None else (), operation.principal)
    plan = DropPlan(DropAction.RECREATE, declared_schema(wanted), options)
    return operation.run(begin_drop, plan, operation.actor, given=given_options(wanted))


@router.post(
    "/rename",
    status_code=202,
    operation_id="rename_table",
    summary="Change the name and the landing folder of a table",
    response_model=TableModel,
    responses=_RESPONSES,
)
def rename(operation: OperationDep, wanted: RenameTable) -> TableModel:
    """Drop the folder and start a new generation under the new name.

    With `partial_updates=complete`, every row lands again from its row image. Otherwise the source must load the table
    again.
    """
    new_name = visible_name(wanted.name, operation.principal)
    return operation.run(begin_drop, DropPlan(DropAction.RENAME, new_name=new_name), operation.actor)


@router.post(
    "/pause",
    operation_id="pause_table",
    summary="Pause the publication of a table",
    response_model=TableModel,
    responses=_RESPONSES,
)
def pause(operation: OperationDep) -> TableModel:
    """Stop publishing files. Changes are still accepted, up to the limit of the backlog."""
    return operation.run(set_publishing, TableState.PAUSED, operation.actor)


@router.post(
    "/resume",
    operation_id="resume_table",
    summary="Resume the publication of a paused table",
    response_model=TableModel,
    responses=_RESPONSES,
)
def resume(operation: OperationDep) -> TableModel:
    """Publish files again after a pause."""
    return operation.run(set_publishing, TableState.ACTIVE, operation.actor)


@router.post(
    "/flush",
    status_code=202,
    operation_id="flush_table",
    summary="Publish accepted changes without delay",
    response_model=TableModel,
    responses=_RESPONSES,
)
def flush(operation: OperationDep) -> TableModel:
    """Publish what is accepted so far, without waiting for a full or an old enough file."""
    return operation.run(request_flush, operation.actor)


@router.post(
    "/repair/{number}",
    status_code=202,
    operation_id="repair_file",
    summary="Write a published file again under its own number",
    response_model=TableModel,
    responses=_RESPONSES,
)
def repair(
    operation: OperationDep,
    number: Annotated[int, Path(ge=1, le=MAX_ID, description="The number of the file.", examples=[1])],
) -> TableModel:
    """Rebuild a corrupt or empty file from its payloads, with the same rows and the same identity.

    Fabric's documentation says that mirroring reads a valid file under the same name. If it does not, recreate the
    table.
    """
    return operation.run(request_repair, FileNumber(number), operation.actor)


@router.post(
    "/release",
    operation_id="release_table",
    summary="Release a quarantined table",
    response_model=TableModel,
    responses=_RESPONSES,
)
def release_table(operation: OperationDep, wanted: ReleaseTable) -> TableModel:
    """Let the table publish again. The event records the reason, the id of the key and the time."""
    return operation.run(release, operation.actor, wanted.reason, rewrite_marker=wanted.rewrite_marker)


@router.get(
    "/events",
    operation_id="list_table_events",
    summary="List the events of all tables of this name, including dropped ones",
    response_model=EventsModel,
    responses=problems(400, 401, 403, 404, 422, 503),
)
def get_events(
    table: TablePath, gateway: GatewayDep, principal: Administrator, after: AfterId = 0, limit: PageLimit = 100
) -> EventsModel:
    """Return operations of administrators and of the drain, oldest first."""
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        found = list_events(connection, name, after=after, limit=limit)
    events = [
        EventModel(
            id=event.event_id,
            generation=event.generation,
            happened_at=event.happened_at,
            actor=event.actor,
            action=event.action,
            completes=event.completes,
            reason=event.reason,
            details=dict(event.details),
        )
        for event in found
    ]
    return EventsModel(events=events, next_after=events[-1].id if len(events) == limit else None)
