"""Selects the rejections that the audit keeps: no valid key, no right, or a table outside the key's patterns."""

from typing import Any

from fastapi import Request

from app.api.gateway import gateway_of
from app.api.server.request_facts import facts_of
from app.domain.access.rejections import Rejection
from app.domain.model.names import TableName
from app.errors import Kind, MirrorgateError, RejectedInput


def audit_rejection(request: Request, error: MirrorgateError, status: int) -> None:
    """Record a rejection in memory if the audit keeps it. Never waits and never fails."""
    withheld = error.withheld if isinstance(error, RejectedInput) else None
    if withheld is None and error.kind not in {Kind.UNAUTHENTICATED, Kind.FORBIDDEN}:
        return
    route: Any = request.scope.get("route")
    action = f"{request.method} {getattr(route, 'path', 'unmatched')}"
    subject = facts_of(request.scope).subject
    table = withheld or (_path_table(request) if error.kind is Kind.FORBIDDEN else None)
    gateway_of(request).audit_writer.note_rejection(Rejection(action, int(status), error.code, subject, table))


def _path_table(request: Request) -> str | None:
    """Return the folded table name in the path of the request; None if there is no valid one."""
    try:
        return TableName.parse(request.path_params["table"]).folded
    except (KeyError, RejectedInput):
        return None
