"""`/console/producers`: how far each producer of numbered requests is, and when it sent last."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from app.api.console.answers import page
from app.api.console.sessions import ConsoleUser
from app.api.gateway import GatewayDep
from app.api.operations.keys import caller_names
from app.console.views.producers import PATH, producers_view
from app.domain.access.rights import Right
from app.staging.connection.database import translated_errors
from app.staging.overview.producers import ProducerTurn, list_producers

router = APIRouter()

MAX_ROWS: Final = 50
"""Producers of a page."""

_Text = Annotated[str, Query(max_length=1100, pattern=r"^[^\x00]*$")]


@router.get(PATH)
def producers(
    request: Request,
    user: ConsoleUser,
    gateway: GatewayDep,
    q: _Text = "",
    key: _Text = "",
    producer: _Text = "",
    back: _Text = "",
) -> Response:
    """List producers. A producer belongs to a key: only an administrator of all tables sees those of other keys."""
    user.require(Right.INGEST)
    administrator = user.principal(Right.ADMIN)
    sees_all = administrator is not None and administrator.oversees_every_table
    search, turn = q.strip(), ProducerTurn(key or None, producer, bool(back and key))
    owner = None if sees_all else user.credential.subject
    with translated_errors(), gateway.engine.begin() as connection:
        found = list_producers(connection, owner=owner, search=search, turn=turn, limit=MAX_ROWS + 1)
        names = caller_names(gateway, connection, (producer.principal for producer in found))
    days = gateway.settings.retention_days
    view = producers_view(found, turn, MAX_ROWS, search, sees_all=sees_all, receipt_days=days)
    return page(request, "producers.html", view, user.chrome("producers", names=names))
