"""`/v1/tables/{table}/loads`: load sessions, which reload a table beside its stream of changes."""

from typing import Annotated
from uuid import UUID, uuid4

from fastapi import APIRouter, Depends, Path, Response

from app.api.auth.dependencies import Ingester
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.operations.loads import LoadOperation
from app.api.routes.tables import TablePath
from app.api.schemas.status import BeginLoad, LoadModel, LoadsModel
from app.domain.loads import LoadId, LoadState
from mirrorgate.parameters import LoadMode

router = APIRouter(prefix="/v1/tables/{table}/loads", tags=["loads"])

LoadPath = Annotated[
    UUID,
    Path(description="The id of the load.", examples=["5b7c2a52-1f0f-4c5e-9d43-0f5a3a1f6d2e"]),
]
_RESPONSES = problems(400, 401, 403, 404, 409, 422, 503)


async def _load_operation(table: TablePath, gateway: GatewayDep, principal: Ingester) -> LoadOperation:
    return LoadOperation(table, gateway, principal)


OperationDep = Annotated[LoadOperation, Depends(_load_operation)]


@router.post(
    "",
    summary="Begin a load session",
    status_code=201,
    responses={200: {"description": "The load that the same request began before", "model": LoadModel}, **_RESPONSES},
)
def begin_load(operation: OperationDep, wanted: BeginLoad, response: Response) -> LoadModel:
    """Begin to load a table that keeps a row image of every row (`row_images=on`). A table has one open load.

    Send the rows to any change endpoint with the header `Mirrorgate-Load`, and complete the load when all requests are
    accepted. The stream of changes continues meanwhile, and wins over loaded rows of the same key.
    """
    load_id = LoadId(str(wanted.load or uuid4()))
    load, begun = operation.begin(load_id, LoadMode(wanted.mode))
    if not begun:
        response.status_code = 200
    return LoadModel.of_session(load, str(operation.name))


@router.get(
    "",
    summary="List the newest load sessions of a table",
    responses=problems(401, 403, 404, 422, 503),
)
def list_loads(operation: OperationDep) -> LoadsModel:
    """Return the newest 100 loads that are kept, the newest first."""
    return LoadsModel(loads=[LoadModel.of_session(load, str(operation.name)) for load in operation.list()])


@router.get(
    "/{load}",
    summary="Get a load session",
    responses=problems(401, 403, 404, 422, 503),
)
def get_load(operation: OperationDep, load: LoadPath) -> LoadModel:
    """Return how far a load is. A client that lost its way continues from here."""
    return LoadModel.of_session(operation.get(LoadId(str(load))), str(operation.name))


@router.post(
    "/{load}/complete",
    summary="Complete a load session, and delete the rows that a full load did not have",
    responses={202: {"description": "Rows are left to delete: repeat the request", "model": LoadModel}, **_RESPONSES},
)
def complete_load(operation: OperationDep, load: LoadPath, response: Response) -> LoadModel:
    """Complete the load. After `full`, rows that neither the load nor the stream wrote since it began are deleted.

    The answer 202 means that rows are left to delete; repeat the request until it is 200. A repeat after that changes
    nothing. The deletes land in files after those with the loaded rows.
    """
    found = operation.complete(LoadId(str(load)))
    if found.state is not LoadState.COMPLETED:
        response.status_code = 202
    return LoadModel.of_session(found, str(operation.name))


@router.delete(
    "/{load}",
    summary="Abort a load session",
    responses=_RESPONSES,
)
def abort_load(operation: OperationDep, load: LoadPath) -> LoadModel:
    """End the load without further deletes.

    Abort does not undo anything: what the load landed remains, and of a load that is being completed also the deletes.
    """
    return LoadModel.of_session(operation.abort(LoadId(str(load))), str(operation.name))
