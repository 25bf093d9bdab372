"""`/v1/producers`: the last durable number and position of the caller's numbered requests."""

from typing import Annotated

from fastapi import APIRouter, Path

from app.api.auth.dependencies import Ingester
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.schemas.changes import ProducerModel
from app.staging.batches.idempotency import find_producer
from app.staging.connection.database import translated_errors
from mirrorgate.errors import Code, RejectedInput

router = APIRouter(prefix="/v1/producers", tags=["changes"])


@router.get(
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
