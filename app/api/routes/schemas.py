"""The schema of a table, as JSON or as an Arrow schema, and its metadata chain."""

from base64 import b64decode
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from app.api.auth.dependencies import Reader
from app.api.gateway import GatewayDep
from app.api.openapi.document import problems
from app.api.operations.table_operations import visible_table
from app.api.routes.tables import TablePath
from app.api.schemas.common import PageLimit
from app.api.schemas.tables import BlockModel, ChainModel, ColumnModel, SchemaModel
from app.domain.arrow import SchemaEvent, described_schemas, schema_to_flatbuffer
from app.domain.publication import Block
from app.staging.connection.database import translated_errors
from app.staging.ledger.files import read_chain, schema_events

router = APIRouter(prefix="/v1", tags=["tables"])

FLATBUFFER: Final = "application/vnd.apache.arrow.schema"
_FLATBUFFER_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {FLATBUFFER: {"schema": {"type": "string", "contentMediaType": FLATBUFFER}}}}
}


@router.get(
    "/tables/{table}/schema",
    summary="Get the current schema version of a table",
    response_model=SchemaModel,
    responses={**_FLATBUFFER_ANSWER, **problems(401, 403, 404, 422, 503)},
)
def get_table_schema(
    table: TablePath, request: Request, gateway: GatewayDep, principal: Reader
) -> SchemaModel | Response:
    """Return the declared columns.

    With `Accept: application/vnd.apache.arrow.schema`, return the Arrow schema of landing files, including the row
    marker, as a raw flatbuffer.
    """
    with translated_errors(), gateway.engine.begin() as connection:
        found = visible_table(connection, table, principal)
    if FLATBUFFER in request.headers.get("accept", ""):
        schema = found.schema.landing.file_schema(marker_first=gateway.settings.marker_first)
        return Response(schema_to_flatbuffer(schema), media_type=FLATBUFFER)
    return SchemaModel(
        table=str(found.name),
        generation=found.generation,
        schema_version=found.schema_version,
        key_columns=list(found.schema.key_columns),
        columns=[ColumnModel(name=c.name, type=str(c.type), nullable=c.nullable) for c in found.schema.columns],
        left_columns=[name for name in found.schema.names if name in found.left_columns],
    )


@router.get(
    "/tables/{table}/chain",
    summary="Get the metadata chain of the current generation",
    responses=problems(400, 401, 403, 404, 422, 503),
)
def get_table_chain(
    table: TablePath,
    gateway: GatewayDep,
    principal: Reader,
    start: Annotated[int, Query(ge=0, description="First sequence number of the page.")] = 0,
    limit: PageLimit = 100,
) -> ChainModel:
    """Return blocks in order of their sequence number.

    The chain begins with a `Seed`, and has a `SetDataSchema` for each schema version (Open Data Fabric's event, with
    the Arrow schema of the files) and an `AddData` for each file, with rows, batches, digests and the last source
    position. A block has the SHA-256 of the previous one over canonical JSON (RFC 8785).
    """
    with translated_errors(), gateway.engine.begin() as connection:
        found = visible_table(connection, table, principal)
        life = (found.table_id, found.generation)
        chain = list(read_chain(connection, *life, start=start, limit=limit))
        before = schema_events(connection, *life, before=start, limit=1)
    schemas = described_schemas(map(_flatbuffer, filter(_sets_schema, chain)), *map(_flatbuffer, before))
    described = {block.sequence_number: next(schemas) for block in chain if _sets_schema(block)}
    blocks = [
        BlockModel(
            sequence_number=block.sequence_number,
            previous_hash=block.previous_hash,
            hash=block.hash,
            system_time=block.system_time,
            event=dict(block.event),
            **_words(described.get(block.sequence_number)),
        )
        for block in chain
    ]
    next_start = start + limit if len(blocks) == limit else None
    return ChainModel(table=str(found.name), generation=found.generation, blocks=blocks, next_start=next_start)


def _sets_schema(block: Block) -> bool:
    return bool(block.event["kind"] == "SetDataSchema")


def _flatbuffer(block: Block) -> bytes:
    return b64decode(block.event["schema"])


def _words(described: SchemaEvent | None) -> dict[str, Any]:
    """Return the fields of a block that describe its schema."""
    if described is None:
        return {}
    columns = [ColumnModel(name=one.name, type=str(one.type), nullable=one.nullable) for one in described.columns]
    return {"columns": columns, "changes": described.changes}
