"""POST of change batches: the answer comes after commit."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, Response

from app.api.auth import Ingester
from app.api.gateway import GatewayOf
from app.api.models import AcceptedModel
from app.api.openapi import ARCION_BODY, REPLICATE_BODY, problems
from app.api.request_body import check_json_type, read_body, refuse_promises
from app.domain.names import TableName
from app.ingest import Accepted
from app.telemetry import ACCEPTED_CHANGES

router = APIRouter(prefix="/v1/changes", tags=["changes"])

TableParameter = Annotated[
    str | None, Query(description="The table that every message must be for; needed where messages do not name it.")
]
OverrideParameter = Annotated[
    bool, Query(description="Take every message as one for `table`, whatever table it is addressed to.")
]
_RESPONSES = problems(400, 401, 403, 404, 409, 413, 415, 422, 503)


@router.post(
    "/arcion",
    status_code=202,
    operation_id="post_arcion_changes",
    summary="Post changes in Arcion format",
    response_model=AcceptedModel,
    responses=_RESPONSES,
    openapi_extra=ARCION_BODY,
)
async def post_arcion(
    request: Request,
    gateway: GatewayOf,
    principal: Ingester,
    table: TableParameter = None,
    override: OverrideParameter = False,
) -> Response:
    """One message, an array, NDJSON or concatenated messages; all are accepted or none."""
    check_json_type(request)
    refuse_promises(request)
    body = await read_body(request, gateway.settings.max_body_bytes)
    name = TableName.parse(table) if table else None
    return _answer("arcion", await gateway.ingest.accept_arcion(body, principal, name, override=override))


@router.post(
    "/replicate",
    status_code=202,
    operation_id="post_replicate_changes",
    summary="Post changes in Qlik Replicate format",
    response_model=AcceptedModel,
    responses=_RESPONSES,
    openapi_extra=REPLICATE_BODY,
)
async def post_replicate(
    request: Request, gateway: GatewayOf, principal: Ingester, table: TableParameter = None
) -> Response:
    """Metadata messages register or evolve tables (right `register`); data messages are accepted all or none."""
    check_json_type(request)
    refuse_promises(request)
    body = await read_body(request, gateway.settings.max_body_bytes)
    name = TableName.parse(table) if table else None
    return _answer("replicate", await gateway.ingest.accept_replicate(body, principal, name))


def _answer(source_format: str, accepted: Accepted) -> Response:
    ACCEPTED_CHANGES.labels(source_format).inc(sum(receipt.changes for receipt in accepted.receipts))
    content = {"receipts": accepted.receipts, "ignored": accepted.ignored, "replayed": False}
    return Response(msgspec.json.encode(content), 202, media_type="application/json")
