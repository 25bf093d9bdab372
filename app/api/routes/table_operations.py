"""What operators ask of tables. Every act names the generation it means; each leaves an event."""

from collections.abc import Callable, Collection
from typing import Annotated

from fastapi import APIRouter, Path, Query

from app.api.auth.authenticator import Administrator, check_sources, visible_name
from app.api.gateway import Gateway, GatewayOf
from app.api.openapi.document import problems
from app.api.routes.tables import TablePath
from app.api.schemas.operations import EventModel, EventsModel, RecreateTable, ReleaseTable, RenameTable
from app.api.schemas.status import TableModel
from app.api.schemas.table_status import declared_schema, given_options, table_statuses
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
        ge=1, le=2**31 - 1, description="The generation that is meant; another one is rejected with 409.", examples=[1]
    ),
]
_RESPONSES = problems(400, 401, 403, 404, 409, 422, 503)


@router.delete(
    "",
    status_code=202,
    operation_id="drop_table",
    summary="Drop a table: delete its landing folder",
    response_model=TableModel,
    responses=_RESPONSES,
)
def drop(table: TablePath, generation: GenerationParameter, gateway: GatewayOf, principal: Administrator) -> TableModel:
    """Changes are rejected from now on; the state is `dropping` until the folder is gone, then the table is unknown.

    Batches that were not published yet are discarded and counted in the events.
    """
    return _drop(table, generation, DropPlan(DropAction.DROP), gateway, principal)


@router.post(
    "/recreate",
    status_code=202,
    operation_id="recreate_table",
    summary="Begin a new generation, with new columns and keys if wanted",
    response_model=TableModel,
    responses=_RESPONSES,
)
def recreate(
    table: TablePath,
    generation: GenerationParameter,
    gateway: GatewayOf,
    principal: Administrator,
    wanted: RecreateTable | None = None,
) -> TableModel:
    """Drops the folder; when it is gone, the table is active again, empty, and files begin at 1."""
    wanted = wanted or RecreateTable()
    options = None if wanted.options is None else TableOptions.parse(wanted.options.model_dump())
    check_sources(options.sources if options is not None else (), principal)
    plan = DropPlan(DropAction.RECREATE, declared_schema(wanted), options)
    return _drop(table, generation, plan, gateway, principal, given_options(wanted))


@router.post(
    "/rename",
    status_code=202,
    operation_id="rename_table",
    summary="Give a table another name and landing folder",
    response_model=TableModel,
    responses=_RESPONSES,
)
def rename(
    table: TablePath,
    generation: GenerationParameter,
    wanted: RenameTable,
    gateway: GatewayOf,
    principal: Administrator,
) -> TableModel:
    """Drops the folder and begins a new generation under the new name.

    With `partial_updates=complete` every row lands again from its row image; otherwise the source has to load anew.
    """
    new_name = visible_name(wanted.name, principal)
    return _drop(table, generation, DropPlan(DropAction.RENAME, new_name=new_name), gateway, principal)


@router.post(
    "/pause",
    operation_id="pause_table",
    summary="Stop publishing; changes are still accepted",
    response_model=TableModel,
    responses=_RESPONSES,
)
def pause(
    table: TablePath, generation: GenerationParameter, gateway: GatewayOf, principal: Administrator
) -> TableModel:
    def act(connection: Connection, name: TableName) -> Table:
        return set_publishing(connection, name, Generation(generation), TableState.PAUSED, principal.key_id)

    return _act(table, gateway, principal, act)


@router.post(
    "/resume",
    operation_id="resume_table",
    summary="Publish again after a pause",
    response_model=TableModel,
    responses=_RESPONSES,
)
def resume(
    table: TablePath, generation: GenerationParameter, gateway: GatewayOf, principal: Administrator
) -> TableModel:
    def act(connection: Connection, name: TableName) -> Table:
        return set_publishing(connection, name, Generation(generation), TableState.ACTIVE, principal.key_id)

    return _act(table, gateway, principal, act)


@router.post(
    "/flush",
    status_code=202,
    operation_id="flush_table",
    summary="Publish what is accepted so far without waiting",
    response_model=TableModel,
    responses=_RESPONSES,
)
def flush(
    table: TablePath, generation: GenerationParameter, gateway: GatewayOf, principal: Administrator
) -> TableModel:
    def act(connection: Connection, name: TableName) -> Table:
        return request_flush(connection, name, Generation(generation), principal.key_id)

    return _act(table, gateway, principal, act)


@router.post(
    "/repair/{number}",
    status_code=202,
    operation_id="repair_file",
    summary="Write a published file again under its own number",
    response_model=TableModel,
    responses=_RESPONSES,
)
def repair(
    table: TablePath,
    number: Annotated[int, Path(ge=1, le=2**63 - 1, description="The number of the file.", examples=[1])],
    generation: GenerationParameter,
    gateway: GatewayOf,
    principal: Administrator,
) -> TableModel:
    """For a file that was found corrupt or empty: the same rows and identity, from the payloads it was made of.

    Mirroring is documented to take a valid file under the same name; where it does not, recreate the table.
    """

    def act(connection: Connection, name: TableName) -> Table:
        return request_repair(connection, name, Generation(generation), FileNumber(number), principal.key_id)

    return _act(table, gateway, principal, act)


@router.post(
    "/release",
    operation_id="release_table",
    summary="Let a quarantined table publish again",
    response_model=TableModel,
    responses=_RESPONSES,
)
def release_table(
    table: TablePath,
    generation: GenerationParameter,
    wanted: ReleaseTable,
    gateway: GatewayOf,
    principal: Administrator,
) -> TableModel:
    """The reason is kept with the key's id and the time."""

    def act(connection: Connection, name: TableName) -> Table:
        return release(
            connection,
            name,
            Generation(generation),
            principal.key_id,
            wanted.reason,
            rewrite_marker=wanted.rewrite_marker,
        )

    return _act(table, gateway, principal, act)


@router.get(
    "/events",
    operation_id="list_table_events",
    summary="What was done to every table of this name, also to dropped ones",
    response_model=EventsModel,
    responses=problems(400, 401, 403, 404, 422, 503),
)
def get_events(
    table: TablePath,
    gateway: GatewayOf,
    principal: Administrator,
    after: Annotated[int, Query(ge=0, le=2**63 - 1, description="Events beyond this id.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many events at the most.")] = 100,
) -> EventsModel:
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        found = list_events(connection, name, after=after, most=limit)
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


def _drop(
    table: str,
    generation: int,
    plan: DropPlan,
    gateway: Gateway,
    principal: Principal,
    given: Collection[str] | None = None,
) -> TableModel:
    def act(connection: Connection, name: TableName) -> Table:
        return begin_drop(connection, name, Generation(generation), plan, principal.key_id, given=given)

    return _act(table, gateway, principal, act)


def _act(
    table: str, gateway: Gateway, principal: Principal, act: Callable[[Connection, TableName], Table]
) -> TableModel:
    """Do it in one transaction; the drain looks at once, and the answer is the table's status."""
    name = visible_name(table, principal)
    with translated_errors(), gateway.engine.begin() as connection:
        status = table_statuses(connection, [act(connection, name)])[0]
    gateway.wake_drain()
    return status
