"""A table's schema, for people and for machines, and the metadata chain that tells it."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from app.api.auth.authenticator import Reader, visible_name
from app.api.gateway import GatewayOf
from app.api.openapi.document import problems
from app.api.routes.tables import TablePath, found_table
from app.api.schemas.tables import BlockModel, ChainModel, ColumnModel, SchemaModel
from app.domain.arrow.schema_flatbuffer import schema_to_flatbuffer
from app.staging.connection.database import translated_errors
from app.staging.ledger.metadata_chain import read_chain

router = APIRouter(prefix="/v1", tags=["tables"])

FLATBUFFER: Final = "application/vnd.apache.arrow.schema"
_FLATBUFFER_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {FLATBUFFER: {"schema": {"type": "string", "contentMediaType": FLATBUFFER}}}}
}


@router.get(
    "/tables/{table}/schema",
    operation_id="get_table_schema",
    summary="The current schema version",
    response_model=SchemaModel,
    responses={**_FLATBUFFER_ANSWER, **problems(401, 403, 404, 422, 503)},
)
def get_schema(table: TablePath, request: Request, gateway: GatewayOf, principal: Reader) -> SchemaModel | Response:
    """The declared columns; with `Accept: application/vnd.apache.arrow.schema` the Arrow schema of landing files,
    row marker included, as a raw flatbuffer."""
    with translated_errors(), gateway.engine.begin() as connection:
        found = found_table(connection, visible_name(table, principal))
    if FLATBUFFER in request.headers.get("accept", ""):
        schema = found.schema.file_schema(marker_first=gateway.settings.marker_first)
        return Response(schema_to_flatbuffer(schema), media_type=FLATBUFFER)
    return SchemaModel(
        table=str(found.name),
        generation=found.generation,
        schema_version=found.schema_version,
        key_columns=list(found.schema.key_columns),
        columns=[ColumnModel(name=c.name, type=str(c.type), nullable=c.nullable) for c in found.schema.columns],
    )


@router.get(
    "/tables/{table}/chain",
    operation_id="get_table_chain",
    summary="The metadata chain of the present generation",
    response_model=ChainModel,
    responses=problems(400, 401, 403, 404, 422, 503),
)
def get_chain(
    table: TablePath,
    gateway: GatewayOf,
    principal: Reader,
    start: Annotated[int, Query(ge=0, description="Blocks from this sequence number on.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="How many blocks at the most.")] = 100,
) -> ChainModel:
    with translated_errors(), gateway.engine.begin() as connection:
        found = found_table(connection, visible_name(table, principal))
        chain = list(read_chain(connection, found.table_id, found.generation, start=start, most=limit))
    blocks = [
        BlockModel(
            sequence_number=block.sequence_number,
            previous_hash=block.previous_hash,
            hash=block.hash,
            system_time=block.system_time,
            event=dict(block.event),
        )
        for block in chain
    ]
    next_start = start + limit if len(blocks) == limit else None
    return ChainModel(table=str(found.name), generation=found.generation, blocks=blocks, next_start=next_start)
