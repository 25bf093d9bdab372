"""`/v1/tables/{table}/loads` reloads a table beside its stream of changes; `/checks` compares it with its source."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple
from uuid import UUID, uuid4

from fastapi import APIRouter, Depends, Path, Response
from starlette.concurrency import run_in_threadpool

from app.api.auth.dependencies import Ingester, Reader
from app.api.gateway import Gateway, GatewayDep
from app.api.openapi.document import problems
from app.api.operations.table_operations import LoadOperation, visible_table
from app.api.routes.tables import TablePath
from app.api.schemas.operations import (
    BucketDifferenceModel,
    RowDifferencesModel,
    SourceCheckModel,
    SourceCheckResultModel,
)
from app.api.schemas.status import BeginLoad, LoadModel, LoadsModel
from app.api.server.request_parameters import JsonRoute
from app.domain.access.rights import Principal
from app.domain.canonical_text import canonical_rows
from app.domain.loads import LoadId, LoadState
from app.domain.model.projection import History
from app.domain.model.table import Table
from app.domain.model.table_schema import Column
from app.domain.rows.landing_projection import landed_columns
from app.domain.rows.typed_columns import typed_images
from app.domain.source_checks import MAX_ROWS, BucketDigests, BucketRows, Digest, compared_columns
from app.staging.connection.database import translated_errors
from app.staging.images import image_snapshot
from mirrorgate.errors import Code, RejectedInput
from mirrorgate.parameters import LoadMode

router = APIRouter(prefix="/v1/tables/{table}/loads", tags=["loads"], route_class=JsonRoute)

LoadPath = Annotated[
    UUID,
    Path(description="The id of the load.", examples=["5b7c2a52-1f0f-4c5e-9d43-0f5a3a1f6d2e"]),
]
_RESPONSES = problems(400, 401, 403, 404, 409, 422, 503)


async def _load_operation(table: TablePath, gateway: GatewayDep, principal: Ingester) -> LoadOperation:
    return LoadOperation(table, gateway, principal)


OperationDep = Annotated[LoadOperation, Depends(_load_operation)]


@router.post(
    "",
    summary="Begin a load session",
    status_code=201,
    responses={200: {"description": "The load that the same request began before", "model": LoadModel}, **_RESPONSES},
)
def begin_load(operation: OperationDep, wanted: BeginLoad, response: Response) -> LoadModel:
    """Begin to load a table that keeps a row image of every row (`row_images=on`). A table has one open load.

    Send the rows to any change endpoint with the header `Mirrorgate-Load`, and complete the load when all requests are
    accepted. The stream of changes continues meanwhile, and wins over loaded rows of the same key.
    """
    load_id = LoadId(str(wanted.load or uuid4()))
    load, begun = operation.begin(load_id, LoadMode(wanted.mode))
    if not begun:
        response.status_code = 200
    return LoadModel.of_session(load, str(operation.name))


@router.get(
    "",
    summary="List the newest load sessions of a table",
    responses=problems(401, 403, 404, 422, 503),
)
def list_loads(operation: OperationDep) -> LoadsModel:
    """Return the newest 100 loads that are kept, the newest first."""
    return LoadsModel(loads=[LoadModel.of_session(load, str(operation.name)) for load in operation.list()])


@router.get(
    "/{load}",
    summary="Get a load session",
    responses=problems(401, 403, 404, 422, 503),
)
def get_load(operation: OperationDep, load: LoadPath) -> LoadModel:
    """Return how far a load is. A client that lost its way continues from here."""
    return LoadModel.of_session(operation.get(LoadId(str(load))), str(operation.name))


@router.post(
    "/{load}/complete",
    summary="Complete a load session, and delete the rows that a full load did not have",
    responses={202: {"description": "Rows are left to delete: repeat the request", "model": LoadModel}, **_RESPONSES},
)
def complete_load(operation: OperationDep, load: LoadPath, response: Response) -> LoadModel:
    """Complete the load. After `full`, rows that neither the load nor the stream wrote since it began are deleted.

    The answer 202 means that rows are left to delete; repeat the request until it is 200. A repeat after that changes
    nothing. The deletes land in files after those with the loaded rows.
    """
    found = operation.complete(LoadId(str(load)))
    if found.state is not LoadState.COMPLETED:
        response.status_code = 202
    return LoadModel.of_session(found, str(operation.name))


@router.delete(
    "/{load}",
    summary="Abort a load session",
    responses=_RESPONSES,
)
def abort_load(operation: OperationDep, load: LoadPath) -> LoadModel:
    """End the load without further deletes.

    Abort does not undo anything: what the load landed remains, and of a load that is being completed also the deletes.
    """
    return LoadModel.of_session(operation.abort(LoadId(str(load))), str(operation.name))


class _Rows(NamedTuple):
    """The rows of a table, some at a time: the compared columns as arrays."""

    sequence: int | None
    batches: Iterator[Sequence[Any]]


def check_source(gateway: Gateway, name: str, principal: Principal, wanted: SourceCheckModel) -> SourceCheckResultModel:
    """Compare a table with its source, reading all rows once.

    Raises RejectedInput `unknown_table`, `unknown_column`, `not_comparable`, `no_row_images`, `not_mirrored` or
    `bad_check`.
    """
    _check(wanted)
    with translated_errors(), gateway.engine.begin() as connection:
        table = visible_table(connection, name, principal)
    columns = compared_columns(
        table.schema, wanted.columns, {*table.options.masks, *table.replaced}, table.left_columns
    )
    collector = BucketDigests(wanted.digits) if wanted.rows is None else _bucket_rows(wanted.rows)
    with _rows(gateway, table, columns, wanted.against) as rows:
        for arrays in rows.batches:
            collector.add(canonical_rows(arrays, columns, table.schema.key_columns))
    buckets, found = [], None
    if isinstance(collector, BucketDigests):
        source = {name: Digest(one.rows, one.checksum) for name, one in (wanted.buckets or {}).items()}
        buckets = [BucketDifferenceModel.of(one) for one in collector.differences(source)]
    else:
        differences = collector.differences()
        found = RowDifferencesModel.of(differences, count=differences.rows)
    return SourceCheckResultModel(
        equal=not buckets and (found is None or not found.count),
        generation=table.generation,
        sequence=rows.sequence,
        columns=[column.name for column in columns],
        rows=collector.rows,
        buckets=buckets,
        keys=found,
    )


def _bucket_rows(of_source: Mapping[str, Mapping[str, int]]) -> BucketRows:
    return BucketRows(frozenset(of_source), (pair for rows in of_source.values() for pair in rows.items()))


def _check(wanted: SourceCheckModel) -> None:
    if (wanted.buckets is None) == (wanted.rows is None):
        raise RejectedInput(Code.BAD_CHECK, "a check has either `buckets` or `rows`")
    names = [*(wanted.buckets or {}), *(wanted.rows or {})]
    lengths = {len(name) for name in names}
    if len(lengths) > 1 or (wanted.buckets and lengths != {wanted.digits}):
        raise RejectedInput(Code.BAD_CHECK, "the names of the buckets do not all have the length `digits`")
    if sum(map(len, (wanted.rows or {}).values())) > MAX_ROWS:
        raise RejectedInput(Code.BAD_CHECK, f"a check can have {MAX_ROWS:,} rows of the source")


@contextmanager
def _rows(gateway: Gateway, table: Table, columns: Sequence[Column], against: str) -> Iterator[_Rows]:
    if against == "mirror":
        if table.options.history is History.APPEND_ONLY:
            detail = "the Delta table has every version of a row (history=append_only), and the source one"
            raise RejectedInput(Code.NOT_COMPARABLE, detail)
        mirror_rows = gateway.require_mirror_rows()
        flag = table.options.audit_columns.deleted if table.options.flags_deletes else None
        yield _Rows(None, mirror_rows.typed(table.name, landed_columns(columns, table.options), flag))
        return
    names = [column.name for column in columns]
    with image_snapshot(gateway.engine, table) as snapshot:
        batches = (
            typed_images(images, snapshot.table.schema, snapshot.table.options, names) for images in snapshot.images
        )
        yield _Rows(snapshot.sequence, batches)


checks_router = APIRouter(prefix="/v1/tables/{table}", tags=["recovery"], route_class=JsonRoute)


@checks_router.post(
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
