"""`/v1/keys`: create, list, update, rotate and delete API keys. `/v1/audit`: operations on keys and tables."""

from collections.abc import Mapping
from typing import Annotated, Final

from fastapi import APIRouter, Body, Path, Query, Response

from app.api.auth.dependencies import Overseer
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.operations import keys
from app.api.operations.keys import caller_names
from app.api.schemas.access import (
    AuditEventModel,
    AuditModel,
    CreatedKeyModel,
    CreateKey,
    KeyModel,
    KeysModel,
    RotatedKeyModel,
    RotateKey,
    UpdateKey,
)
from app.api.schemas.common import AfterId, AwareMoment, PageLimit
from app.api.server.request_parameters import JsonRoute
from app.domain.access.rejections import AuditOutcome
from app.domain.model.names import TableName
from app.staging.access.api_keys import StoredKey, list_keys
from app.staging.access.audit_events import AuditEvent, AuditFilter, list_audit
from app.staging.connection.database import translated_errors

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=JsonRoute)

_NO_STORE: Final = {"Cache-Control": "no-store"}
"""Headers of answers with a secret."""

KeyId = Annotated[str, Path(description="The id of the key.", examples=["1a2b3c4d"])]


@router.post("", status_code=201, summary="Create an API key", responses=problems(400, 401, 403, 503))
def create_key(wanted: CreateKey, gateway: GatewayDep, principal: Overseer, response: Response) -> CreatedKeyModel:
    """Create a key with rights for table patterns. This answer is the only one that contains its secret."""
    created = keys.create(gateway, principal, wanted)
    response.headers.update(_NO_STORE)
    return created


@router.get(
    "",
    operation_id="list_keys",
    summary="List all API keys, without their secrets",
    responses=problems(400, 401, 403, 503),
)
def get_keys(gateway: GatewayDep, principal: Overseer) -> KeysModel:
    """Return all keys with their rights, limits and last use."""
    with translated_errors(), gateway.engine.begin() as connection:
        found = [_key_model(key) for key in list_keys(connection)]
    return KeysModel(keys=found, settings_key_id=gateway.authenticator.settings_key_id)


@router.patch(
    "/{key_id}", summary="Change the name or the rate limits of a key", responses=problems(400, 401, 403, 404, 503)
)
def update_key(key_id: KeyId, wanted: UpdateKey, gateway: GatewayDep, principal: Overseer) -> KeyModel:
    """Change the name, or the given limits, which take effect within five seconds."""
    return _key_model(keys.update(gateway, principal, key_id, wanted))


@router.post("/{key_id}/rotate", summary="Rotate the secret of a key", responses=problems(400, 401, 403, 404, 503))
def rotate_key(
    key_id: KeyId,
    gateway: GatewayDep,
    principal: Overseer,
    response: Response,
    wanted: Annotated[RotateKey, Body(default_factory=RotateKey)],
) -> RotatedKeyModel:
    """Give the key a new secret; the current one remains valid during the overlap.

    The id remains, and with it the rights, tables, idempotency keys and producers. This answer is the only one that
    contains the new secret. After the overlap only the new secret is valid, regardless of earlier rotations.
    """
    rotated = keys.rotate(gateway, principal, key_id, wanted.overlap_seconds)
    response.headers.update(_NO_STORE)
    return rotated


@router.delete("/{key_id}", status_code=204, summary="Delete a key", responses=problems(401, 403, 404, 503))
def delete_key(key_id: KeyId, gateway: GatewayDep, principal: Overseer) -> Response:
    """Delete a key. It stops working within five seconds."""
    keys.delete(gateway, principal, key_id)
    return Response(status_code=204)


def _key_model(key: StoredKey) -> KeyModel:
    size = key.limits.bytes_per_second
    return KeyModel.of(
        key,
        id=key.key_id,
        tables=key.table_patterns,
        hmac=key.signing_salt is not None,
        requests_per_second=key.limits.requests_per_second,
        bytes_per_second=None if size is None else int(size),
    )


audit_router = APIRouter(prefix="/v1/audit", tags=["audit"])


@audit_router.get(
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
        AuditOutcome | None, Query(description="Only operations that were `done`, or only `rejected` calls.")
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
        rejected=None if outcome is None else outcome is AuditOutcome.REJECTED,
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
        outcome=AuditOutcome.DONE if event.code is None else AuditOutcome.REJECTED,
    )
