"""`/console/tables`: the tables that the user may see, with search, states, order and pages."""

from fastapi import APIRouter, Request, Response

from app.api.console.answers import page
from app.api.console.sessions import ConsoleUser, SignedIn
from app.api.gateway import Gateway, GatewayDep
from app.api.operations.visible_tables import visible_summaries
from app.console.views.table_list import FRAGMENT, PATH, TableListView, TableQuery, table_list
from app.domain.access.rights import Right
from app.staging.connection.database import translated_errors

router = APIRouter()


@router.get(PATH)
def tables(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Show the page of tables that the address asks for."""
    return page(request, "tables.html", _view(request, user, gateway), user.chrome("tables"))


@router.get(FRAGMENT)
def live_part(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Return the part of the page that changes all the time."""
    return page(request, "tables_live.html", _view(request, user, gateway), user.chrome("tables"))


def _view(request: Request, user: SignedIn, gateway: Gateway) -> TableListView:
    principal = user.require(Right.READ)
    with translated_errors(), gateway.engine.begin() as connection:
        seen = visible_summaries(connection, principal)
    backlog = gateway.ingest.backlog
    return table_list(seen, TableQuery.parse(request.query_params), backlog.shares() if backlog is not None else {})
