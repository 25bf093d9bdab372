"""`/v1/releases`: release all tables that were quarantined for one reason, after its cause is removed."""

from fastapi import APIRouter

from app.api.auth.dependencies import Administrator
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.schemas.operations import ReleasedModel, ReleasedTable, ReleaseTables
from app.staging.connection.database import translated_errors
from app.staging.tables.quarantine_release import quarantined_by, release_if_still

router = APIRouter(prefix="/v1/releases", tags=["operations"])


@router.post(
    "",
    operation_id="release_tables",
    summary="Release every table that was quarantined for one reason",
    response_model=ReleasedModel,
    responses=problems(400, 401, 403, 422, 503),
)
def release_tables(wanted: ReleaseTables, gateway: GatewayDep, principal: Administrator) -> ReleasedModel:
    """Release the tables that the key can see, each in the generation that was found, and return their names.

    Safe to repeat: tables that are not quarantined are left unchanged. A table whose cause remains stops again.
    """
    with translated_errors(), gateway.engine.begin() as connection:
        found = [one for one in quarantined_by(connection, wanted.code) if principal.may_touch(one.name)]
    released = []
    for one in found:  # one transaction each, so that no release waits for the locks of another table
        with translated_errors(), gateway.engine.begin() as connection:
            if release_if_still(connection, one, principal.key_id, wanted.reason):
                released.append(one)
    gateway.wake_drain()
    return ReleasedModel(
        released=[
            ReleasedTable(table=str(one.name), generation=one.generation, state_reason=one.why) for one in released
        ]
    )
