"""`/v1/tables/{table}/mirror`: how far the Delta mirror has applied the landing files of a table."""

from fastapi import APIRouter

from app.api.auth.dependencies import Reader, visible_name
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.routes.tables import TablePath, found_table
from app.api.schemas.mirror import TableMirrorModel
from app.errors import Code, RejectedInput
from app.staging.connection.database import translated_errors
from app.staging.mirror.progress import mirror_progress

router = APIRouter(prefix="/v1/tables/{table}", tags=["mirror"])


@router.get(
    "/mirror",
    operation_id="get_table_mirror",
    summary="Get how far the Delta mirror has applied a table's landing files",
    response_model=TableMirrorModel,
    responses=problems(400, 401, 403, 404, 422, 503),
)
def get_mirror(table: TablePath, gateway: GatewayDep, principal: Reader) -> TableMirrorModel:
    """Return the mirror's last report about the current generation, compared with the landing ledger."""
    with translated_errors(), gateway.engine.begin() as connection:
        found = found_table(connection, visible_name(table, principal))
        progress = mirror_progress(connection, [found.table_id]).get(found.table_id)
    if progress is None:
        raise RejectedInput(Code.NOT_MIRRORED, f"no mirror has reported generation {found.generation} of {found.name}")
    return TableMirrorModel.of(
        progress,
        table=str(found.name),
        generation=found.generation,
        delta_generation=progress.delta_generation,
        published_file=progress.published_file,
        committed_at=progress.committed_at,
    )
