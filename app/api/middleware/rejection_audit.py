"""Selects the rejections that the audit keeps: no valid key, no right, or a table outside the key's patterns."""

from app.api.exchange import Exchange
from app.api.gateway import gateway_in
from app.domain.access.rejections import Rejection
from app.domain.model.names import TableName
from app.errors import Kind, MirrorgateError, RejectedInput


def audit_rejection(exchange: Exchange, error: MirrorgateError, status: int) -> None:
    """Record a rejection in memory if the audit keeps it. Never waits and never fails."""
    withheld = error.withheld if isinstance(error, RejectedInput) else None
    if withheld is None and error.kind not in {Kind.UNAUTHENTICATED, Kind.FORBIDDEN}:
        return
    action = f"{exchange.scope['method']} {exchange.route}"
    table = withheld or (_path_table(exchange) if error.kind is Kind.FORBIDDEN else None)
    rejection = Rejection(action, int(status), error.code, exchange.subject, table)
    gateway_in(exchange.scope).audit_writer.note_rejection(rejection)


def _path_table(exchange: Exchange) -> str | None:
    """Return the folded table name in the path of the request; None if there is no valid one."""
    try:
        return TableName.parse(exchange.scope["path_params"]["table"]).folded
    except (KeyError, RejectedInput):
        return None
