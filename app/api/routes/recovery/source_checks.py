"""`/v1/tables/{table}/checks`: whether a table has the rows of its source."""

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from app.api.auth.dependencies import Reader
from app.api.gateway import Gateway, GatewayDep
from app.api.openapi.document import problems
from app.api.operations.source_checks import check_source
from app.api.routes.tables import TablePath
from app.api.schemas.operations import SourceCheckModel, SourceCheckResultModel
from app.domain.access.rights import Principal

router = APIRouter(prefix="/v1/tables/{table}", tags=["recovery"])


@router.post(
    "/checks",
    summary="Compare a table with counts and checksums of its source",
    response_model=SourceCheckResultModel,
    responses=problems(400, 401, 403, 404, 409, 422, 503),
)
async def check_table_source(
    table: TablePath, wanted: SourceCheckModel, gateway: GatewayDep, principal: Reader
) -> Response:
    r"""Return where the rows differ. Nothing is changed.

    First send the count and checksum of every bucket (`buckets`), then the rows of those that differ (`rows`): the
    answer has the keys that are `missing` in the gateway, `surplus` or `changed`. `mirrorgate tables check` runs all of
    it, and prints the SQL for the source with `--show-sql`. Changes that were accepted after the source was read differ
    too, so repeat the check before you act on a difference.

    A row is the text of its columns joined by U+001F; NULL is `\N`. Integers and dates are as in JSON, decimals have
    all digits of their scale, timestamps are `YYYY-MM-DD HH:MM:SS.ffffff` in UTC (those without a zone as they are),
    booleans `1` or `0`, bytes hexadecimal capitals. Strings are not normalized. The bucket is the first digits of the
    MD5 of the key's text. The checksum is the first 8 digits of the MD5 of the row's text as a number, summed by
    bucket.
    """
    async with gateway.check_limit.slot():
        return await run_in_threadpool(_answer, gateway, table, principal, wanted)


def _answer(gateway: Gateway, table: str, principal: Principal, wanted: SourceCheckModel) -> Response:
    """Compare, and serialize the result in this thread instead of the event loop."""
    result = check_source(gateway, table, principal, wanted)
    return Response(result.to_json(), media_type="application/json")
