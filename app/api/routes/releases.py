"""Releasing all tables that stopped for one reason, once its cause is gone."""

from fastapi import APIRouter

from app.api.auth.authenticator import Administrator
from app.api.gateway import GatewayOf
from app.api.openapi.document import problems
from app.api.schemas.operations import ReleasedModel, ReleasedTable, ReleaseTables
from app.staging.connection.database import translated_errors
from app.staging.tables.quarantine_release import quarantined_by, release_if_still

router = APIRouter(prefix="/v1/releases", tags=["operations"])


@router.post(
    "",
    operation_id="release_tables",
    summary="Let every table publish again that was quarantined for one reason",
    response_model=ReleasedModel,
    responses=problems(400, 401, 403, 422, 503),
)
def release_tables(wanted: ReleaseTables, gateway: GatewayOf, principal: Administrator) -> ReleasedModel:
    """Releases the tables that the key may touch, each in the generation in which it was found, and names them.

    Safe to repeat: what is no longer quarantined is left alone. A table whose cause is not gone stops again.
    """
    with translated_errors(), gateway.engine.begin() as connection:
        found = [one for one in quarantined_by(connection, wanted.code) if principal.may_touch(one.name)]
    released = []
    for one in found:  # each in a transaction of its own: none waits for the others' locks
        with translated_errors(), gateway.engine.begin() as connection:
            if release_if_still(connection, one, principal.key_id, wanted.reason):
                released.append(one)
    gateway.wake_drain()
    return ReleasedModel(
        released=[
            ReleasedTable(table=str(one.name), generation=one.generation, state_reason=one.why) for one in released
        ]
    )
