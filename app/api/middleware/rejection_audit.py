"""Which rejections the audit keeps: a call without a valid key, without the right, or about a table out of bounds."""

from typing import Any

from fastapi import Request

from app.api.gateway import gateway_of
from app.api.server.request_facts import facts_of
from app.domain.access.rejections import Rejection
from app.domain.model.names import TableName
from app.errors import Kind, MirrorgateError, RejectedInput


def note_rejection(request: Request, error: MirrorgateError, status: int) -> None:
    """Note a rejection in memory, if it is one that the audit keeps. Never waits and never fails."""
    withheld = error.withheld if isinstance(error, RejectedInput) else None
    if withheld is None and error.kind not in {Kind.UNAUTHENTICATED, Kind.FORBIDDEN}:
        return
    route: Any = request.scope.get("route")
    action = f"{request.method} {getattr(route, 'path', 'unmatched')}"
    subject = facts_of(request.scope).subject
    table = withheld or (_named_table(request) if error.kind is Kind.FORBIDDEN else None)
    gateway_of(request).audit_writer.note_rejection(Rejection(action, int(status), error.code, subject, table))


def _named_table(request: Request) -> str | None:
    """The folded name of the table that the path of a call names; what is no name is not kept."""
    try:
        return TableName.parse(request.path_params["table"]).folded
    except (KeyError, RejectedInput):
        return None
