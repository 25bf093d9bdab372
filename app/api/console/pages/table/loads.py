"""Aborts a load session of a table by the operation of the API, after a page that says what that means.

It needs the right `ingest` for the table, as in the API.
"""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response

from app.api.console.answers import page, see_other
from app.api.console.forms import ConsoleForm
from app.api.console.pages.table.seen_table import PATH, seen_table
from app.api.console.pages.table.status import status_page
from app.api.console.rejections import rejected
from app.api.console.sessions import ConsoleUser, SignedIn
from app.api.gateway import GatewayDep
from app.api.operations.loads import LoadOperation
from app.console.views.attention import address
from app.console.views.table.loads import confirm_abort
from app.console.views.table.operations import Action
from app.domain.access.rights import Right
from app.domain.loads.load_session import LoadId, LoadState, ended
from app.errors import Code, RejectedInput
from app.staging.connection.database import translated_errors

router = APIRouter()


async def _operation(table: str, user: ConsoleUser, gateway: GatewayDep) -> LoadOperation:
    return LoadOperation(table, gateway, user.require(Right.INGEST))


OperationDep = Annotated[LoadOperation, Depends(_operation)]


@router.get(PATH + "/loads/{load}/abort")
def ask_abort(load: UUID, request: Request, user: ConsoleUser, operation: OperationDep) -> Response:
    """Show what aborting a load means, and ask."""
    found = operation.get(LoadId(str(load)))
    if found.state.has_ended:
        return _too_late(request, user, operation, ended(found))
    with translated_errors(), operation.gateway.engine.begin() as connection:
        seen = seen_table(connection, user, operation.table, "")
    return page(request, "table/confirm.html", confirm_abort(seen.head, found), user.chrome("tables"))


@router.post(PATH + "/loads/{load}/abort")
def abort(load: UUID, request: Request, user: ConsoleUser, operation: OperationDep, form: ConsoleForm) -> Response:
    """End a load without further deletes; repeating it changes nothing."""
    try:
        found = operation.abort(LoadId(str(load)))
    except RejectedInput as error:
        if error.code is not Code.LOAD_ENDED:
            raise
        return _too_late(request, user, operation, error)
    if found.state is not LoadState.ABORTED:
        return _too_late(request, user, operation, ended(found))
    return see_other(f"{address(operation.table)}?done={Action.ABORT}")


def _too_late(request: Request, user: SignedIn, operation: LoadOperation, error: RejectedInput) -> Response:
    """Return the page of the table, which shows how the load has ended."""
    found = rejected(request, error)
    return status_page(request, user, operation.gateway, operation.table, notice=found.notice, status=found.status)
