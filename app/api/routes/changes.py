"""`POST /v1/changes/…` as routes of the framework, which describes them in the contract; and `/v1/producers`.

`RequestEntry` answers change requests before they reach the framework. If the framework gets one, it calls the same
endpoint (decision 0031).
"""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from app.api.auth.dependencies import Ingester
from app.api.changes.endpoints import ARCION, ARROW, DEBEZIUM, PREFIX, REPLICATE, ROWS, ChangeEndpoint
from app.api.changes.parameters import (
    CsvDialectParameters,
    CsvParameters,
    DebeziumParameters,
    LoadParameters,
    OverrideParameters,
    ReplicateParameters,
    RowsParameters,
    StreamParameters,
    openapi_extra,
)
from app.api.exchange import exchange_of
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.openapi.message_bodies import ARCION_BODY, ARROW_BODY, DEBEZIUM_BODY, REPLICATE_BODY, ROWS_BODY
from app.api.schemas.changes import AcceptedModel, DryRunModel, ProducerModel
from app.staging.batches.idempotency import find_producer
from app.staging.connection.database import translated_errors
from mirrorgate.errors import Code, RejectedInput

router = APIRouter(prefix=PREFIX, tags=["changes"])

_RESPONSES = {
    200: {
        "description": "The answer to a repeated request; with `dry_run=true`, the rows that would land",
        "model": AcceptedModel | DryRunModel,
        "headers": {"Idempotency-Replayed": {"schema": {"type": "string", "enum": ["true"]}}},
    },
    **problems(400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503),
}


@router.post(
    "/arcion",
    status_code=202,
    summary="Post changes in Arcion format",
    response_model=AcceptedModel,
    responses=_RESPONSES,
    openapi_extra=openapi_extra(ARCION_BODY, OverrideParameters, CsvParameters),
)
async def post_arcion_changes(request: Request) -> Response:
    """Accept one message, a JSON array, NDJSON, concatenated messages or CSV.

    All messages are accepted or none, unless rejected messages become dead letters (`on_reject=dead_letter`).
    """
    return await _answer(ARCION, request)


@router.post(
    "/replicate",
    status_code=202,
    summary="Post changes in Qlik Replicate format",
    response_model=AcceptedModel,
    responses=_RESPONSES,
    openapi_extra=openapi_extra(REPLICATE_BODY, ReplicateParameters),
)
async def post_replicate_changes(request: Request) -> Response:
    """Accept Qlik Replicate messages: data messages all or none, and metadata messages.

    Metadata messages register tables or change their schemas; they require the right `register`.
    """
    return await _answer(REPLICATE, request)


@router.post(
    "/debezium",
    status_code=202,
    summary="Post changes in Debezium format",
    response_model=AcceptedModel,
    responses=_RESPONSES,
    openapi_extra=openapi_extra(DEBEZIUM_BODY, DebeziumParameters),
)
async def post_debezium_changes(request: Request) -> Response:
    """Accept Debezium's change events, all or none: envelopes or flattened rows, with and without their schema.

    A Connect schema registers its table or adds columns to it, which requires the right `register`. Tombstones,
    heartbeats, schema changes and transaction boundaries are ignored and counted.
    """
    return await _answer(DEBEZIUM, request)


@router.post(
    "/rows",
    status_code=202,
    summary="Post plain rows of one table",
    response_model=AcceptedModel,
    responses=_RESPONSES,
    openapi_extra=openapi_extra(ROWS_BODY, RowsParameters, CsvDialectParameters, StreamParameters),
)
async def post_rows(request: Request) -> Response:
    """Accept rows for the table in `table`: a JSON object or array, NDJSON, CSV with a header, or an Arrow stream.

    The keys decide: an upsert inserts a row or replaces it, a delete needs the key only. All rows are accepted or none,
    unless rejected rows become dead letters (`on_reject=dead_letter`). `columns`, or `register=true` for an Arrow
    stream, registers the table first.
    """
    return await _answer(ROWS, request)


@router.post(
    "/arrow",
    status_code=202,
    summary="Post the snapshot rows of one table as an Arrow stream",
    response_model=AcceptedModel,
    responses=_RESPONSES,
    openapi_extra=openapi_extra(ARROW_BODY, LoadParameters),
)
async def post_arrow_rows(request: Request) -> Response:
    """Accept the rows of an initial load, all or none. Columns are matched to those of the table by name."""
    return await _answer(ARROW, request)


async def _answer(endpoint: ChangeEndpoint, request: Request) -> Response:
    answer = await endpoint(exchange_of(request.scope))
    return Response(answer.content, answer.status, answer.headers, "application/json")


producers_router = APIRouter(prefix="/v1/producers", tags=["changes"])


@producers_router.get(
    "/{producer:path}",
    summary="Get the last durable number and position of a producer, and its receipts",
    responses=problems(401, 403, 404, 503),
)
def get_producer(
    producer: Annotated[
        str, Path(max_length=255, description="The name that was sent as `Mirrorgate-Producer`.", examples=["crm"])
    ],
    gateway: GatewayDep,
    principal: Ingester,
) -> ProducerModel:
    """Return the progress of one of the key's producers.

    A producer belongs to the key that it sends with. Its first number is 1. Its name can contain slashes.
    """
    with translated_errors(), gateway.engine.begin() as connection:
        found = find_producer(connection, principal.key_id, producer)
    if found is None:
        raise RejectedInput(Code.UNKNOWN_PRODUCER, "no accepted request of this producer is stored")
    receipts = None if found.answer is None else found.answer["receipts"]
    return ProducerModel(producer=producer, sequence=found.sequence, position=found.position, receipts=receipts)
