"""`/v1/layouts`: where Replicate messages of a custom format have their parts. The audit records each change."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response

from app.api.auth.dependencies import Reader, require
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.schemas.changes import LayoutModel, LayoutsModel, StoredLayoutModel
from app.api.server.request_parameters import JsonRoute
from app.domain.access.rights import Principal, Right
from app.ingest import WrongLayout, read_layout
from app.staging.access.audit_events import record_operation
from app.staging.connection.database import translated_errors
from app.staging.tables.replicate_sources import (
    MAX_LAYOUTS,
    StoredLayout,
    delete_layout,
    find_layout,
    has_room,
    list_layouts,
    lock_layouts,
    set_layout,
)
from mirrorgate.errors import Code, Problem, RejectedInput

router = APIRouter(prefix="/v1/layouts", tags=["layouts"], route_class=JsonRoute)

LayoutName = Annotated[
    str, Path(description="The name of the layout.", pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", examples=["orders_flat"])
]
LayoutWriter = Annotated[Principal, Depends(require(Right.REGISTER, every_table=True))]
"""Caller who may change the meaning of messages: a layout is for the messages of all tables."""


@router.put(
    "/{name}",
    operation_id="set_layout",
    summary="Store a layout of Replicate messages",
    response_model_exclude_none=True,
    responses={
        201: {"description": "The new layout", "model": StoredLayoutModel},
        **problems(400, 401, 403, 404, 409, 422, 503),
    },
)
def put_layout(
    name: LayoutName, wanted: LayoutModel, gateway: GatewayDep, principal: LayoutWriter, response: Response
) -> StoredLayoutModel:
    """Store a new layout (201), or replace one (200). Requests that begin afterwards are read under it.

    Storing the same layout again changes nothing.
    """
    document = wanted.document()
    try:
        read_layout(document)
    except WrongLayout as wrong:
        problems = (Problem(Code.BAD_LAYOUT, found.detail, pointer=found.pointer) for found in wrong.problems)
        raise RejectedInput.of(tuple(problems)) from None
    with translated_errors(), gateway.engine.begin() as connection:
        lock_layouts(connection)
        present = find_layout(connection, name)
        if present is not None and present.document == document:
            return _model(present, principal)
        if present is None and not has_room(connection):
            raise RejectedInput(Code.LAYOUTS_FULL, f"there are {MAX_LAYOUTS:,} layouts already")
        stored = set_layout(connection, name, document, principal.key_id)
        record_operation(connection, principal.key_id, "set_layout", details={"layout": name, "places": document})
    if present is None:
        response.status_code = 201
    return _model(stored, principal)


@router.get(
    "",
    operation_id="list_layouts",
    summary="List the layouts of Replicate messages",
    response_model_exclude_none=True,
    responses=problems(400, 401, 403, 503),
)
def get_layouts(gateway: GatewayDep, principal: Reader) -> LayoutsModel:
    """Return all layouts by name."""
    with translated_errors(), gateway.engine.begin() as connection:
        return LayoutsModel(layouts=[_model(stored, principal) for stored in list_layouts(connection)])


@router.get(
    "/{name}",
    summary="Get a layout of Replicate messages",
    response_model_exclude_none=True,
    responses=problems(401, 403, 404, 422, 503),
)
def get_layout(name: LayoutName, gateway: GatewayDep, principal: Reader) -> StoredLayoutModel:
    """Return a layout, and who changed it last if you may change layouts."""
    with translated_errors(), gateway.engine.begin() as connection:
        stored = find_layout(connection, name)
    if stored is None:
        raise RejectedInput(Code.UNKNOWN_LAYOUT, "no such layout")
    return _model(stored, principal)


@router.delete(
    "/{name}",
    status_code=204,
    operation_id="delete_layout",
    summary="Delete a layout of Replicate messages",
    responses=problems(401, 403, 404, 422, 503),
)
def delete(name: LayoutName, gateway: GatewayDep, principal: LayoutWriter) -> Response:
    """Delete a layout. Requests that name it are rejected from then on; kept messages remain readable."""
    with translated_errors(), gateway.engine.begin() as connection:
        lock_layouts(connection)
        if not delete_layout(connection, name):
            raise RejectedInput(Code.UNKNOWN_LAYOUT, "no such layout")
        record_operation(connection, principal.key_id, "delete_layout", details={"layout": name})
    return Response(status_code=204)


def _model(stored: StoredLayout, principal: Principal) -> StoredLayoutModel:
    """Return the model of a layout. Only a caller who may change layouts sees who did: ids are for overseers."""
    may_change = principal.may_everywhere(Right.REGISTER)
    return StoredLayoutModel(
        name=stored.name,
        layout=LayoutModel.model_validate(stored.document),
        changed_at=stored.changed_at,
        changed_by=stored.changed_by if may_change else None,
    )
