"""`/v1/audit`: operations on keys and tables, and rejected calls."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query

from app.api.auth.dependencies import Overseer
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.operations.keys import caller_names
from app.api.schemas.access import AuditEventModel, AuditModel, Outcome
from app.api.schemas.common import AfterId, AwareMoment, PageLimit
from app.domain.model.names import TableName
from app.staging.access.audit_events import AuditEvent, AuditFilter, list_audit
from app.staging.connection.database import translated_errors

router = APIRouter(prefix="/v1/audit", tags=["audit"])


@router.get(
    "",
    operation_id="list_audit",
    summary="List operations on keys and tables, and rejected calls",
    responses=problems(400, 401, 403, 422, 503),
)
def get_audit(
    gateway: GatewayDep,
    principal: Overseer,
    after: AfterId = 0,
    limit: PageLimit = 100,
    since: Annotated[AwareMoment | None, Query(description="Only events of this minute and later.")] = None,
    until: Annotated[AwareMoment | None, Query(description="Only events before this time.")] = None,
    subject: Annotated[
        str | None,
        Query(
            max_length=300,
            pattern=r"^[^\x00-\x1f]+$",
            description="Only events of this key, by id or name, or of `oidc:<subject>`.",
        ),
    ] = None,
    table: Annotated[str | None, Query(description="Only events about tables of this name.")] = None,
    outcome: Annotated[
        Outcome | None, Query(description="Only operations that were `done`, or only `rejected` calls.")
    ] = None,
) -> AuditModel:
    """Return the events, oldest first.

    Rejected calls are counted per minute, so the count of the current minute still grows.
    """
    wanted = AuditFilter(
        since=since,
        until=until,
        subject=subject,
        table=None if table is None else TableName.parse(table),
        rejected=None if outcome is None else outcome is Outcome.REJECTED,
    )
    with translated_errors(), gateway.engine.begin() as connection:
        found = list_audit(connection, wanted, after=after, limit=limit)
        names = caller_names(gateway, connection, (event.subject for event in found))
    events = [_event_model(event, names) for event in found]
    return AuditModel(events=events, next_after=events[-1].id if len(events) == limit else None)


def _event_model(event: AuditEvent, names: Mapping[str, str]) -> AuditEventModel:
    return AuditEventModel.of(
        event,
        id=event.event_id,
        subject_name=names.get(event.subject or ""),
        outcome=Outcome.DONE if event.code is None else Outcome.REJECTED,
    )
