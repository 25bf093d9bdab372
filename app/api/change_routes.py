"""POST of change batches: the answer comes after commit."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Depends, Query, Request, Response

from app.api.auth import Ingester
from app.api.change_models import AcceptedModel, DryRunModel
from app.api.gateway import Gateway, GatewayOf
from app.api.openapi import ARCION_BODY, REPLICATE_BODY, problems
from app.api.request_body import check_json_type, check_parameters, is_csv, read_body
from app.api.request_identity import IdentityHeaders
from app.domain.access import Principal
from app.domain.names import TableName
from app.domain.request_identity import RequestIdentity
from app.errors import Code, RejectedInput
from app.ingest import CsvLayout, CsvMode, Decode, arcion_csv, arcion_json, rehearse, replicate_json
from app.telemetry import ACCEPTED_CHANGES, DEAD_LETTERS

router = APIRouter(prefix="/v1/changes", tags=["changes"])


class OnReject(StrEnum):
    """What becomes of a request with a message that is refused."""

    REFUSE = "refuse"
    DEAD_LETTER = "dead_letter"


TableParameter = Annotated[
    str | None, Query(description="The table that every message must be for; needed where messages do not name it.")
]
OverrideParameter = Annotated[
    bool, Query(description="Take every message as one for `table`, whatever table it is addressed to.")
]

OnRejectParameter = Annotated[
    OnReject,
    Query(description="`dead_letter`: keep refused messages of tables with `dead_letters=accept`, accept the others."),
]

DryRunParameter = Annotated[
    bool, Query(description="Answer what would land, row by row, and stage nothing; nothing is registered either.")
]


@dataclass(frozen=True, slots=True)
class CsvParameters:
    """What a CSV body cannot say itself; JSON bodies need none of it."""

    mode: Annotated[CsvMode | None, Query(description="CSV: how Replicant wrote the file; required.")] = None
    columns: Annotated[str | None, Query(description="CSV: the column names in file order, separated by commas.")] = (
        None
    )
    header: Annotated[bool, Query(description="CSV: the first record is a header.")] = False
    delimiter: Annotated[str, Query(description="CSV: what separates fields.")] = ","
    quote: Annotated[str, Query(description="CSV: what encloses fields.")] = '"'
    escape: Annotated[
        str | None, Query(description="CSV: what stands before a quote within a field; the quote itself by default.")
    ] = None

    @property
    def layout(self) -> CsvLayout:
        """Raises RejectedInput `bad_request` without a mode."""
        if self.mode is None:
            raise RejectedInput(Code.BAD_REQUEST, "a CSV body needs mode=snapshot or mode=realtime")
        columns = tuple(name.strip() for name in self.columns.split(",")) if self.columns else ()
        return CsvLayout(self.mode, columns, self.header, self.delimiter, self.quote, self.escape or self.quote)


_PARAMETERS: Final = frozenset({"table", "dry_run", "on_reject"})
_CSV_PARAMETERS: Final = frozenset(CsvParameters.__dataclass_fields__)
_REPLAYED: Final = {"Idempotency-Replayed": "true"}
_RESPONSES = {
    200: {
        "description": "The request was accepted before: the same answer. With `dry_run=true`: what would land",
        "model": AcceptedModel | DryRunModel,
        "headers": {"Idempotency-Replayed": {"schema": {"type": "string", "enum": ["true"]}}},
    },
    **problems(400, 401, 403, 404, 409, 413, 415, 422, 503),
}


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
    csv: Annotated[CsvParameters, Depends()],
    headers: Annotated[IdentityHeaders, Depends()],
    table: TableParameter = None,
    override: OverrideParameter = False,
    dry_run: DryRunParameter = False,
    on_reject: OnRejectParameter = OnReject.REFUSE,
) -> Response:
    """One message, an array, NDJSON, concatenated messages or CSV; all are accepted or none, unless refused ones are
    to be dead letters."""
    keep_refused = _keeps_refused(on_reject, dry_run=dry_run)
    if is_csv(request):
        check_parameters(request, _PARAMETERS | _CSV_PARAMETERS)
        if not table:
            raise RejectedInput(Code.BAD_REQUEST, "a CSV body needs `table`")
        name, layout = TableName.parse(table), csv.layout
        body = await read_body(request, gateway.settings.max_body_bytes)
        decode = arcion_csv(body, name, layout, keep_refused=keep_refused)
        caller = Caller(principal, headers.identity(request, principal, body))
        return await _answer("arcion", decode, gateway, caller, dry_run=dry_run)
    check_json_type(request)
    check_parameters(request, _PARAMETERS | {"override"}, only_csv=_CSV_PARAMETERS)
    body = await read_body(request, gateway.settings.max_body_bytes)
    name_or_none = TableName.parse(table) if table else None
    decode = arcion_json(body, name_or_none, override=override, keep_refused=keep_refused)
    caller = Caller(principal, headers.identity(request, principal, body))
    return await _answer("arcion", decode, gateway, caller, dry_run=dry_run)


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
    request: Request,
    gateway: GatewayOf,
    principal: Ingester,
    headers: Annotated[IdentityHeaders, Depends()],
    table: TableParameter = None,
    dry_run: DryRunParameter = False,
    on_reject: OnRejectParameter = OnReject.REFUSE,
) -> Response:
    """Metadata messages register or evolve tables (right `register`); data messages are accepted all or none, unless
    refused ones are to be dead letters."""
    keep_refused = _keeps_refused(on_reject, dry_run=dry_run)
    check_json_type(request)
    check_parameters(request, _PARAMETERS)
    body = await read_body(request, gateway.settings.max_body_bytes)
    decode = replicate_json(body, TableName.parse(table) if table else None, keep_refused=keep_refused)
    caller = Caller(principal, headers.identity(request, principal, body))
    return await _answer("replicate", decode, gateway, caller, dry_run=dry_run)


def _keeps_refused(on_reject: OnReject, *, dry_run: bool) -> bool:
    """Raises RejectedInput `bad_request` for a dry run, which names all that is wrong."""
    if dry_run and on_reject is OnReject.DEAD_LETTER:
        raise RejectedInput(Code.BAD_REQUEST, "dry_run=true and on_reject=dead_letter do not go together")
    return on_reject is OnReject.DEAD_LETTER


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, and what names it."""

    principal: Principal
    identity: RequestIdentity | None


async def _answer(source_format: str, decode: Decode, gateway: Gateway, caller: Caller, *, dry_run: bool) -> Response:
    """Receipts after commit, or what would land."""
    if dry_run:
        marker_first = gateway.settings.marker_first
        rehearsal = await rehearse(gateway.engine, decode, caller.principal, marker_first=marker_first)
        return Response(msgspec.json.encode(rehearsal), 200, media_type="application/json")
    accepted = await gateway.ingest.accept(decode, caller.principal, caller.identity)
    content = {
        "receipts": accepted.receipts,
        "ignored": accepted.ignored,
        "duplicates": accepted.duplicates,
        "dead_letters": accepted.dead_letters,
        "replayed": accepted.replayed,
    }
    if accepted.replayed:
        return Response(msgspec.json.encode(content), 200, _REPLAYED, "application/json")
    ACCEPTED_CHANGES.labels(source_format).inc(sum(receipt.changes for receipt in accepted.receipts))
    DEAD_LETTERS.labels(source_format).inc(accepted.dead_letters)
    return Response(msgspec.json.encode(content), 202, media_type="application/json")
