"""`/console/audit`: what was done to keys and tables, and which calls were rejected, newest first."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from app.api.console.answers import page
from app.api.console.sessions import ConsoleUser
from app.api.gateway import GatewayDep
from app.api.operations.keys import caller_names
from app.console.views.audit import OUTCOMES, PATH, AuditFilterView, audit_view
from app.domain.access.rights import Right
from app.staging.access.audit_events import AuditSearch, newest_audit
from app.staging.connection.database import translated_errors
from app.staging.connection.page_turn import Turn, cut_page

router = APIRouter()

MAX_ROWS: Final = 50
"""Events of a page."""

_Text = Annotated[str, Query(max_length=300, pattern=r"^[^\x00]*$")]
_Id = Annotated[int | None, Query(ge=0, le=2**63 - 1)]


@router.get(PATH)
def audit(
    request: Request,
    user: ConsoleUser,
    gateway: GatewayDep,
    subject: _Text = "",
    table: _Text = "",
    action: _Text = "",
    outcome: _Text = "any",
    before: _Id = None,
    after: _Id = None,
) -> Response:
    """List the events whose texts have these parts."""
    user.require(Right.ADMIN, every_table=True)
    wanted = AuditFilterView(
        subject.strip(), table.strip(), action.strip(), outcome if outcome in OUTCOMES else OUTCOMES[0]
    )
    search = AuditSearch(
        wanted.subject or None,
        wanted.table or None,
        wanted.action or None,
        None if wanted.outcome == OUTCOMES[0] else wanted.outcome == "rejected",
    )
    turn = Turn(before, after)
    with translated_errors(), gateway.engine.begin() as connection:
        found = newest_audit(connection, search, turn, MAX_ROWS + 1)
        names = caller_names(gateway, connection, (event.subject for event in found))
    cut = cut_page(found, turn, MAX_ROWS, lambda event: event.event_id)
    return page(request, "audit.html", audit_view(cut, wanted), user.chrome("audit", names=names))
