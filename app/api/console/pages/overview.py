"""`/console`: the health of the gateway, what needs attention, totals and plots."""

from fastapi import APIRouter, Request, Response

from app.api.console.answers import page
from app.api.console.sessions import ConsoleUser
from app.api.gateway import GatewayDep
from app.api.routes.probes import gateway_status
from app.console.views.overview import OverviewView, parts_of
from app.domain.access.rights import Right

router = APIRouter()


@router.get("/console")
def overview(request: Request, user: ConsoleUser, gateway: GatewayDep) -> Response:
    """Show the overview."""
    user.require(Right.READ)
    return page(request, "overview.html", _view(gateway), user.chrome("overview"))


def _view(gateway: GatewayDep) -> OverviewView:
    return OverviewView(parts_of(gateway_status(gateway).parts))
