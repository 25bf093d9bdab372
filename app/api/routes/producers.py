"""Producers: how far the caller's own numbered requests have come."""

from typing import Annotated

from fastapi import APIRouter, Path

from app.api.auth.authenticator import Ingester
from app.api.gateway import GatewayOf
from app.api.openapi.document import problems
from app.api.schemas.changes import ProducerModel
from app.errors import Code, RejectedInput
from app.staging.batches.idempotency import find_producer
from app.staging.connection.database import translated_errors

router = APIRouter(prefix="/v1/producers", tags=["changes"])


@router.get(
    "/{producer}",
    operation_id="get_producer",
    summary="The last durable number of a producer, and its receipts",
    response_model=ProducerModel,
    responses=problems(401, 403, 404, 503),
)
def get_producer(
    producer: Annotated[str, Path(max_length=255, description="As `Mirrorgate-Producer` named it.", examples=["crm"])],
    gateway: GatewayOf,
    principal: Ingester,
) -> ProducerModel:
    """Producers belong to the key that they send with. A producer begins with number 1."""
    with translated_errors(), gateway.engine.begin() as connection:
        found = find_producer(connection, principal.key_id, producer)
    if found is None:
        raise RejectedInput(Code.UNKNOWN_PRODUCER, "nothing durable came from this producer")
    sequence, answer = found
    return ProducerModel(producer=producer, sequence=sequence, receipts=None if answer is None else answer["receipts"])
