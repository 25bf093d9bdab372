"""`POST /v1/changes/…`: accept change batches. The answer 202 is sent after COMMIT.

These routes take the request alone, because `FastDispatch` calls them without FastAPI (decision 0017).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

import msgspec
from fastapi import APIRouter, Request, Response
from prometheus_client import Counter

from app.api.auth.dependencies import authorize
from app.api.gateway import gateway_of
from app.api.middleware.request_body import read_body, reserve_rows
from app.api.openapi.document import problems
from app.api.openapi.message_bodies import ARCION_BODY, ARROW_BODY, REPLICATE_BODY
from app.api.routes.change_parameters import (
    ChangeParameters,
    CsvParameters,
    IdentityHeaders,
    LoadParameters,
    OverrideParameters,
    ReplicateParameters,
    openapi_extra,
)
from app.api.schemas.changes import AcceptedModel, DryRunModel
from app.api.server.content_types import check_arrow_type, check_json_type, is_csv
from app.api.server.request_facts import facts_of
from app.api.server.request_parameters import check_query_names, query_of, read_parameters
from app.domain.access.rights import Principal, Right
from app.domain.model.names import TableName
from app.errors import Code, RejectedInput
from app.ingest import ArrowLoad, BodyReader, IngestResult, arcion_csv, arcion_json, perform_dry_run, replicate_json
from app.observability.telemetry import ACCEPTED_CHANGES, DEAD_LETTERS

router = APIRouter(prefix="/v1/changes", tags=["changes"])

_NAMES: Final = frozenset(ChangeParameters.model_fields)
_REPLICATE_NAMES: Final = frozenset(ReplicateParameters.model_fields)
_CSV_NAMES: Final = frozenset(CsvParameters.model_fields)
_REPLAYED: Final = {"Idempotency-Replayed": "true"}
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
    operation_id="post_arcion_changes",
    summary="Post changes in Arcion format",
    response_model=AcceptedModel,
    responses=_RESPONSES,
    openapi_extra=openapi_extra(ARCION_BODY, OverrideParameters, CsvParameters),
)
async def post_arcion(request: Request) -> Response:
    """Accept one message, a JSON array, NDJSON, concatenated messages or CSV.

    All messages are accepted or none, unless rejected messages become dead letters (`on_reject=dead_letter`).
    """
    caller = await _identify_caller(request)
    if is_csv(request):
        check_query_names(request, _NAMES | _CSV_NAMES)
        given = read_parameters(ChangeParameters, "query", query_of(request))
        if not given.table:
            raise RejectedInput(Code.BAD_REQUEST, "a CSV body requires the parameter `table`")
        layout = read_parameters(CsvParameters, "query", query_of(request)).layout
        name = TableName.parse(given.table)
        return await _ingest(request, caller, given, "arcion", partial(arcion_csv, table=name, layout=layout))
    check_json_type(request)
    check_query_names(request, _NAMES | {"override"}, only_csv=_CSV_NAMES)
    given = read_parameters(OverrideParameters, "query", query_of(request))
    table, override = _table(given), given.override
    return await _ingest(request, caller, given, "arcion", partial(arcion_json, table=table, override=override))


@router.post(
    "/replicate",
    status_code=202,
    operation_id="post_replicate_changes",
    summary="Post changes in Qlik Replicate format",
    response_model=AcceptedModel,
    responses=_RESPONSES,
    openapi_extra=openapi_extra(REPLICATE_BODY, ReplicateParameters),
)
async def post_replicate(request: Request) -> Response:
    """Accept Qlik Replicate messages: data messages all or none, and metadata messages.

    Metadata messages register tables or change their schemas; they require the right `register`.
    """
    caller = await _identify_caller(request)
    check_json_type(request)
    check_query_names(request, _REPLICATE_NAMES)
    given = read_parameters(ReplicateParameters, "query", query_of(request))
    decoding = partial(replicate_json, table=_table(given), partition=given.partition)
    return await _ingest(request, caller, given, "replicate", decoding)


@router.post(
    "/arrow",
    status_code=202,
    operation_id="post_arrow_rows",
    summary="Post the snapshot rows of one table as an Arrow stream",
    response_model=AcceptedModel,
    responses=_RESPONSES,
    openapi_extra=openapi_extra(ARROW_BODY, LoadParameters),
)
async def post_arrow(request: Request) -> Response:
    """Accept the rows of an initial load, all or none. Columns are matched to those of the table by name."""
    caller = await _identify_caller(request)
    check_arrow_type(request)
    check_query_names(request, frozenset(LoadParameters.model_fields))
    given = read_parameters(LoadParameters, "query", query_of(request))
    if not given.table:
        raise RejectedInput(Code.BAD_REQUEST, "an Arrow stream requires the parameter `table`")
    gateway = gateway_of(request)
    body = await read_body(request, gateway.settings)
    reserve = partial(reserve_rows, request, gateway.settings)
    load = ArrowLoad(TableName.parse(given.table), body, gateway.input_limits, reserve)
    identity = caller.headers.identity(request, caller.principal, load.body)
    return _accepted(request, "arrow", await load.accept(gateway.ingest, caller.principal, identity))


@dataclass(frozen=True, slots=True)
class _Caller:
    """The principal that sends a request, and the headers that identify the request."""

    principal: Principal
    headers: IdentityHeaders


async def _identify_caller(request: Request) -> _Caller:
    principal = await authorize(request, Right.INGEST)
    return _Caller(principal, read_parameters(IdentityHeaders, "header", request.headers))


def _table(given: ChangeParameters) -> TableName | None:
    return TableName.parse(given.table) if given.table else None


async def _ingest(
    request: Request,
    caller: _Caller,
    given: ChangeParameters,
    source_format: str,
    reader_of: Callable[..., BodyReader],
) -> Response:
    """Return the receipts after COMMIT, or the result of a dry run."""
    gateway = gateway_of(request)
    body = await read_body(request, gateway.settings)
    identity = caller.headers.identity(request, caller.principal, body)
    reader = reader_of(body, limits=gateway.input_limits, keep_rejected=given.keeps_rejected)
    if given.dry_run:
        marker_first = gateway.settings.marker_first
        preview = await perform_dry_run(gateway.engine, reader, caller.principal, marker_first=marker_first)
        return Response(msgspec.json.encode(preview), 200, media_type="application/json")
    return _accepted(request, source_format, await gateway.ingest.accept(reader, caller.principal, identity))


def _accepted(request: Request, source_format: str, result: IngestResult) -> Response:
    content = {
        "receipts": result.receipts,
        "ignored": result.ignored,
        "duplicates": result.duplicates,
        "dead_letters": result.dead_letters,
        "replayed": result.replayed,
    }
    if result.replayed:
        return Response(msgspec.json.encode(content), 200, _REPLAYED, "application/json")
    changes, dead_letters = _metrics_of(source_format)
    facts_of(request.scope).changes = made = sum(receipt.changes for receipt in result.receipts)
    changes.inc(made)
    dead_letters.inc(result.dead_letters)
    return Response(msgspec.json.encode(content), 202, media_type="application/json")


@cache
def _metrics_of(source_format: str) -> tuple[Counter, Counter]:
    return ACCEPTED_CHANGES.labels(source_format), DEAD_LETTERS.labels(source_format)
