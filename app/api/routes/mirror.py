"""`/v1/tables/{table}/mirror` and `/rows`: how far the Delta mirror is, and what is in a mirrored table."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from app.api.auth.dependencies import Reader
from app.api.gateway import Gateway, GatewayDep
from app.api.openapi.document import problems
from app.api.operations.table_operations import visible_table
from app.api.routes.tables import TablePath
from app.api.schemas.common import MAX_ID, MAX_PAGE_ENTRIES
from app.api.schemas.status import MirrorRowsModel, TableMirrorModel
from app.domain.access.rights import Principal
from app.domain.model.table import Table
from app.staging.connection.database import translated_errors
from app.staging.mirror import mirror_progress
from mirrorgate.errors import Code, RejectedInput

router = APIRouter(prefix="/v1/tables/{table}", tags=["mirror"])


@router.get(
    "/mirror",
    summary="Get how far the Delta mirror has applied a table's landing files",
    responses=problems(400, 401, 403, 404, 422, 503),
)
def get_table_mirror(table: TablePath, gateway: GatewayDep, principal: Reader) -> TableMirrorModel:
    """Return the mirror's last report about the current generation, compared with the landing ledger."""
    with translated_errors(), gateway.engine.begin() as connection:
        found = visible_table(connection, table, principal)
        progress = mirror_progress(connection, [found.table_id]).get(found.table_id)
    if progress is None:
        raise RejectedInput(Code.NOT_MIRRORED, f"no mirror has reported generation {found.generation} of {found.name}")
    return TableMirrorModel.of_progress(progress, table=str(found.name), generation=found.generation)


@router.get(
    "/rows",
    summary="Read rows of the mirrored table, at any version",
    response_model=MirrorRowsModel,
    responses=problems(400, 401, 403, 404, 422, 503),
)
async def list_table_rows(
    table: TablePath,
    gateway: GatewayDep,
    principal: Reader,
    version: Annotated[
        int | None, Query(ge=0, le=MAX_ID, description="The Delta version; without it the newest.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_ENTRIES, description="Maximum number of rows in the answer.")] = 100,
) -> Response:
    """Return rows as the Delta table has them, in no particular order.

    Only an API with the setting `MIRRORGATE_MIRROR_TARGET` can read rows. An answer ends at 16 MiB.
    """
    found = await run_in_threadpool(_find_table, gateway, table, principal)
    if gateway.mirror_rows is None:
        raise RejectedInput(
            Code.NOT_MIRRORED, "this API has no target of a mirror: MIRRORGATE_MIRROR_TARGET is not set"
        )
    page = await gateway.mirror_rows.read(found.name, version, limit)
    answer = {
        "table": str(found.name),
        "version": page.version,
        "columns": [{"name": name, "type": column_type} for name, column_type in page.columns],
        "rows": page.rows,
        "has_more": page.has_more,
    }
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _find_table(gateway: Gateway, table: str, principal: Principal) -> Table:
    with translated_errors(), gateway.engine.begin() as connection:
        return visible_table(connection, table, principal)
