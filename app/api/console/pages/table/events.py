"""What operators and the drain did to the tables of a name, dropped ones included. It needs the right `admin`."""

from fastapi import APIRouter, Request, Response

from app.api.console.answers import page
from app.api.console.pages.table.seen_table import PATH, number_in, seen_name
from app.api.console.sessions import ConsoleUser
from app.api.gateway import GatewayDep
from app.api.operations.keys import caller_names
from app.console.views.table.events import NEWEST, PAGE_EVENTS, events_page
from app.staging.connection.database import translated_errors
from app.staging.tables.events import newest_events

router = APIRouter()


@router.get(PATH + "/events")
def events(table: str, request: Request, user: ConsoleUser, gateway: GatewayDep, before: str = "") -> Response:
    """Show a page of events, the newest first."""
    start = number_in(before, NEWEST)
    with translated_errors(), gateway.engine.begin() as connection:
        name, head = seen_name(connection, user, table, "Events")
        found = newest_events(connection, name, before=start, limit=PAGE_EVENTS)
        names = caller_names(gateway, connection, (event.actor for event in found))
    view = events_page(head, found, is_newest=start == NEWEST)
    return page(request, "table/events.html", view, user.chrome("tables", names=names))
